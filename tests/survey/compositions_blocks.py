"""Blocks, tricks and losses of published models, as functions of x [2, 4, 6] and w [6, 6]."""

import torch
import torch.nn.functional as F
from torch import nn


def _alibi(x, w):
    slopes = torch.tensor([0.5, 0.25], dtype=x.dtype)
    steps = torch.arange(4)[None] - torch.arange(4)[:, None]
    heads = (x @ w).view(2, 4, 2, 3).transpose(1, 2)
    scores = heads @ heads.mT + slopes[:, None, None] * steps.clamp(max=0)
    return (scores.softmax(-1) @ heads).transpose(1, 2).reshape(2, 4, 6)


def _relative_bias(x, w):
    table = torch.linspace(-1, 1, 7, dtype=x.dtype)
    bias = table[torch.arange(4)[:, None] - torch.arange(4)[None] + 3]
    return ((x @ w @ x.mT) / 6**0.5 + bias).softmax(-1) @ x


def _low_rank(x, w):
    down, up = w[:, :2], w[:2]
    return x @ w.detach() + 0.5 * (x @ down) @ up


def _film(x, w):
    scale, shift = (x.mean(1) @ w).tanh().chunk(2, -1)
    return F.layer_norm(x, (6,)) * (1 + scale.repeat(1, 2)[:, None]) + shift.repeat(1, 2)[:, None]


def _parallel_block(x, w):
    h = F.rms_norm(x, (6,), eps=1e-5)
    return x + (h @ w @ h.mT).softmax(-1) @ h + F.silu(h @ w) @ w.T


def _windows(x, w):
    windows = x.reshape(2, 2, 2, 6)
    y = (windows @ w @ windows.mT).softmax(-1) @ windows
    return torch.roll(y.reshape(2, 4, 6), shifts=(1,), dims=(1,))


def _decoded_twice(x, w):
    keys = x[:, :2] @ w
    first = (x[:, 2:3] @ w @ keys.mT).softmax(-1) @ keys
    keys = torch.cat([keys, first], 1)
    return (x[:, 3:4] @ w @ keys.mT).softmax(-1) @ keys


def _scan(x, w):
    decay = torch.sigmoid(x)
    logs = decay.log().cumsum(1)
    return torch.exp(logs) * ((x @ w) / torch.exp(logs)).cumsum(1)


def _sinkhorn(x, w):
    plan = (x[0] @ w)[:, :4].float()
    for _ in range(3):
        plan = plan - plan.logsumexp(0, keepdim=True)
        plan = plan - plan.logsumexp(1, keepdim=True)
    return plan.exp()


def _vector_quantised(x, w):
    code = torch.cdist(x.reshape(-1, 6), w).argmin(-1)
    chosen = F.embedding(code, w).view_as(x)
    loss = F.mse_loss(chosen, x.detach()) + 0.25 * F.mse_loss(x, chosen.detach())
    return x + (chosen - x).detach(), loss


def _supervised_contrast(x, w):
    z = F.normalize((x @ w).mean(2), dim=-1)
    scores = torch.cat([z, -z]) @ torch.cat([z, -z]).T / 0.5
    scores = scores.masked_fill(torch.eye(4, dtype=torch.bool), -1e4)
    return F.cross_entropy(scores, torch.tensor([2, 3, 0, 1]))


def _dice(x, w):
    p, target = torch.sigmoid(x @ w), (x > 0).to(x.dtype)
    both = (p * target).sum((1, 2))
    return (1 - (2 * both + 1) / (p.sum((1, 2)) + target.sum((1, 2)) + 1)).mean()


def _evidence_bound(x, w):
    mean, log_variance = (x @ w).split(3, -1)
    kl = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(-1)
    return kl.mean() + F.binary_cross_entropy_with_logits(x @ w, (x > 0).to(x.dtype))


def _clipped_policy(x, w):
    new, old = F.log_softmax(x @ w, -1), F.log_softmax(x, -1).detach()
    ratio = (new - old).exp()
    return -torch.min(ratio * x, ratio.clamp(0.8, 1.2) * x).mean()


def _quantile(x, w):
    error = x - x @ w
    levels = torch.tensor([0.1, 0.5, 0.9], dtype=x.dtype)[:, None, None, None]
    return torch.maximum(levels * error, (levels - 1) * error).mean()


def _diffusion_step(x, w):
    kept = torch.tensor([0.9, 0.4], dtype=x.dtype).view(2, 1, 1)
    noisy = kept.sqrt() * x + (1 - kept).sqrt() * x.flip(1)
    return F.mse_loss(noisy @ w, x.flip(1), reduction="none").mean((1, 2))


def _hyper_network(x, w):
    made = (x.mean((0, 1)) @ w)[:, None] * w
    return F.linear(x, made, made.sum(1))


def _blocks_of_patches(x, w):
    image = (x @ w).reshape(2, 1, 4, 6)
    patches = F.unfold(image, (2, 2), stride=2)
    return F.fold(patches * 2, (4, 6), (2, 2), stride=2)


def _grid(x, w):
    image = x.reshape(2, 1, 4, 6)
    grid = torch.tanh(x @ w).reshape(2, 3, 4, 2)
    return F.grid_sample(image, grid, align_corners=False)


def _dropped_paths(x, w):
    return x + F.dropout(x @ w, 0.0) + F.dropout1d(x, 0.5, training=False)


def _normalised_queries(x, w):
    q, k = F.normalize(x @ w, dim=-1), F.normalize(x @ w.T, dim=-1)
    return F.scaled_dot_product_attention(q, k, x, scale=5.0)


def _sparse_rows(x, w):
    scores, rows = (x @ w).sum(-1).topk(2, 1)
    chosen = x.gather(1, rows[..., None].expand(-1, -1, 6))
    return x.scatter_add(1, rows[..., None].expand(-1, -1, 6), chosen * scores.sigmoid()[..., None])


XW = {
    "linear biases of distance": _alibi,
    "table of relative biases": _relative_bias,
    "low-rank adapter": _low_rank,
    "modulated features": _film,
    "parallel block": _parallel_block,
    "attention in windows": _windows,
    "keys kept for the next token": _decoded_twice,
    "scan in logarithms": _scan,
    "doubly stochastic": _sinkhorn,
    "vector quantised": _vector_quantised,
    "pairs of a batch": _supervised_contrast,
    "dice": _dice,
    "evidence lower bound": _evidence_bound,
    "clipped policy": _clipped_policy,
    "quantiles": _quantile,
    "diffusion step": _diffusion_step,
    "weights of a network": _hyper_network,
    "blocks of patches": _blocks_of_patches,
    "sampled grid": _grid,
    "dropped paths": _dropped_paths,
    "normalised queries": _normalised_queries,
    "sparse rows": _sparse_rows,
}


class Backward(nn.Module):
    """Scales the gradient that passes back through a layer."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        y = self.first(x)
        if y.requires_grad:
            y.register_hook(lambda gradient: gradient.clamp(-0.01, 0.01))
        return self.last(F.mish(y))


LAYERS = {
    "gradient clipped by a hook": Backward,
    "channels shuffled": lambda: nn.Sequential(nn.Unflatten(1, (2, 2)), nn.ChannelShuffle(2)),
    "decoder layer of itself": lambda: Decoder(),
    "spectral norm": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(6, 6)),
    "bottleneck of convolutions": lambda: nn.Sequential(
        nn.Conv1d(4, 2, 1), nn.GroupNorm(1, 2), nn.SiLU(), nn.Conv1d(2, 2, 3, padding=1, groups=2),
        nn.ConvTranspose1d(2, 4, 1)),
}  # fmt: skip


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(6, 2, 8, dropout=0.0, batch_first=True)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(4).to(x.dtype)
        return self.layer(x, x, tgt_mask=mask)
