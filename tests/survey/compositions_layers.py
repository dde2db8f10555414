"""Norms, attention, gates, convolutions, losses, views and in-place code as models write them.

Each is a function of x [2, 4, 6] and w [6, 6]; LAYERS are modules of x.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrize
from torch.utils.checkpoint import checkpoint


def _rms(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) @ w


def _layer_norm(x, w):
    y = x - x.mean(-1, keepdim=True)
    return y / (y.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt() @ w


def _heads(x, w, heads=2):
    q, k, v = ((x @ w).reshape(2, 4, heads, 3).transpose(1, 2) for _ in range(3))
    return q, k, v


def _multi_head(x, w):
    q, k, v = _heads(x, w)
    p = ((q @ k.mT) / 3**0.5).softmax(-1)
    return (p @ v).transpose(1, 2).reshape(2, 4, 6)


def _grouped_query(x, w):
    q, k, v = _heads(x, w)
    k, v = (t[:, :1].expand(2, 2, 4, 3) for t in (k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def _linear_attention(x, w):
    q, k = F.elu(x @ w) + 1, F.elu(x @ w.T) + 1
    state = k.mT @ x
    return (q @ state) / (q @ k.sum(1)[..., None]).clamp(min=1e-3)


def _gated_scan(x, w):
    gate, value = torch.sigmoid(x @ w), torch.tanh(x @ w.T)
    state, out = torch.zeros(2, 6, dtype=x.dtype), []
    for step in range(4):
        state = gate[:, step] * state + (1 - gate[:, step]) * value[:, step]
        out.append(state)
    return torch.stack(out, 1)


def _squeeze_excite(x, w):
    s = F.relu(x.mean(1) @ w)
    return x * torch.sigmoid(s @ w.T)[:, None]


def _experts(x, w):
    gates = (x @ w).softmax(-1)
    outs = torch.stack([x * (k + 1) for k in range(6)], -2)
    return (gates[..., None] * outs).sum(-2)


def _top_experts(x, w):
    values, numbers = (x @ w).topk(2, -1)
    weights = values.softmax(-1)
    dense = torch.zeros_like(x).scatter(-1, numbers, weights)
    return dense * x


def _detached_target(x, w):
    y = x @ w
    return F.mse_loss(y, (y * 0.9 + 0.1).detach())


def _stop_one_branch(x, w):
    y = x @ w
    return (y * (y > 0).detach() + y.detach() * 0.1).exp()


def _in_place_chain(x, w):
    y = x @ w
    y.mul_(2).add_(1).clamp_(-3, 3)
    y[:, 0].neg_()
    return y.relu_()


def _no_grad_statistics(x, w):
    y = x @ w
    with torch.no_grad():
        mean, scale = y.mean(), y.std() + 1e-3
    return (y - mean) / scale


def _quantised(x, w):
    scale = (w.detach().abs().amax() / 7).clamp(min=1e-3)
    q = (w / scale).round().clamp(-8, 7) * scale
    return x @ (w + (q - w).detach())


def _views(x, w):
    y = (x @ w).permute(2, 0, 1).contiguous().view(3, 2, 8).transpose(0, 2)
    return y.reshape(8, 6).unsqueeze(0).expand(2, 8, 6).flatten(1)


def _shared_storage(x, w):
    y = x @ w
    a, b = y[:, :2], y[:, 2:]
    a += b
    b *= a
    return y


def _strided(x, w):
    return torch.as_strided((x @ w).contiguous(), (2, 3, 2), (24, 2, 1))


def _einsums(x, w):
    return torch.einsum("bld,de,bme->blm", x, w, x)


def _checkpointed(x, w):
    return checkpoint(lambda a: torch.tanh(a @ w) * a, x, use_reentrant=False)


def _checkpointed_twice(x, w):
    def body(a):
        return F.gelu(a @ w)

    return checkpoint(body, checkpoint(body, x, use_reentrant=True), use_reentrant=False)


def _hook(x, w):
    y = x @ w
    y.register_hook(lambda g: g.clamp(-0.5, 0.5))
    return y * y


def _two_hooks(x, w):
    y = x @ w
    y.register_hook(lambda g: g * 2)
    z = y.relu()
    z.register_hook(lambda g: g / (g.norm() + 1))
    return z * y


XW = {
    "rms norm by hand": _rms,
    "layer norm by hand": _layer_norm,
    "layer norm": lambda x, w: F.layer_norm(x @ w, (6,), w[0], w[1]),
    "group norm": lambda x, w: F.group_norm(x @ w, 2),
    "instance norm": lambda x, w: F.instance_norm(x @ w),
    "local response": lambda x, w: F.local_response_norm(x @ w, 2),
    "weight normalised": lambda x, w: x @ (w / w.norm(dim=1, keepdim=True)),
    "standardised weights": lambda x, w: x @ ((w - w.mean(1, keepdim=True)) / (w.std(1, keepdim=True) + 1e-3)),
    "spectral estimate": lambda x, w: x @ (w / (w @ F.normalize(w.detach().sum(1), dim=0)).norm()),
    "cosine attention": lambda x, w: (F.normalize(x @ w, dim=-1) @ F.normalize(x, dim=-1).mT * 5).softmax(-1) @ x,
    "multi-head attention": _multi_head,
    "grouped query attention": _grouped_query,
    "linear attention": _linear_attention,
    "attention with bias": lambda x, w: F.scaled_dot_product_attention(x @ w, x, x, attn_mask=(x @ x.mT)),
    "attention, causal": lambda x, w: F.scaled_dot_product_attention(x @ w, x, x, is_causal=True),
    "attention with a softcap": lambda x, w: (5 * torch.tanh(x @ w @ x.mT / 5)).softmax(-1) @ x,
    "attention pooling": lambda x, w: ((x @ w).sum(-1, keepdim=True).softmax(1) * x).sum(1),
    "gated scan": _gated_scan,
    "gated linear unit": lambda x, w: F.glu(torch.cat([x, x @ w], -1)),
    "swiglu": lambda x, w: F.silu(x @ w) * (x @ w.T),
    "geglu": lambda x, w: F.gelu(x @ w, approximate="tanh") * x,
    "squeeze and excite": _squeeze_excite,
    "mixture of experts": _experts,
    "top experts": _top_experts,
    "residual": lambda x, w: x + F.dropout(torch.relu(x @ w), 0.0) @ w.T,
    "pre-norm block": lambda x, w: x + F.gelu(F.layer_norm(x, (6,)) @ w) @ w.T,
    "highway": lambda x, w: (g := torch.sigmoid(x @ w)) * torch.tanh(x @ w.T) + (1 - g) * x,
    "depthwise convolution": lambda x, w: F.conv1d(x.mT, w[:, None, :3], padding=1, groups=6),
    "causal convolution": lambda x, w: F.conv1d(F.pad(x.mT, (2, 0)), w[:, :, None].expand(6, 6, 3)),
    "transposed convolution": lambda x, w: F.conv_transpose1d(x.mT, w[:, :, None], stride=2),
    "dilated convolution": lambda x, w: F.conv1d(x.mT, w[..., None].repeat(1, 1, 2), dilation=2),
    "pools": lambda x, w: F.avg_pool1d(x @ w, 2) + F.max_pool1d(x @ w, 2),
    "adaptive pool": lambda x, w: F.adaptive_avg_pool1d(x @ w, 4),
    "upsampled": lambda x, w: F.interpolate(x @ w, scale_factor=2, mode="nearest"),
    "upsampled smoothly": lambda x, w: F.interpolate(x @ w, size=9, mode="linear", align_corners=False),
    "pixel shuffle": lambda x, w: F.pixel_shuffle((x @ w)[:, :, None, None].reshape(2, 4, 2, 3), 2),
    "patches": lambda x, w: (x @ w).reshape(2, 2, 2, 2, 3).permute(0, 1, 3, 2, 4).reshape(2, 4, 6),
    "temperature": lambda x, w: ((x @ w) / 0.7).log_softmax(-1).exp(),
    "log of sums": lambda x, w: torch.logsumexp(x @ w, -1) - (x @ w).mean(-1),
    "entropy": lambda x, w: -(p := (x @ w).softmax(-1)).mul(torch.log(p + 1e-3)).sum(-1),
    "kl to uniform": lambda x, w: F.kl_div((x @ w).log_softmax(-1), torch.full((2, 4, 6), 1 / 6), reduction="batchmean"),
    "distillation": lambda x, w: F.kl_div(F.log_softmax(x @ w, -1), F.softmax(x, -1).detach(), reduction="sum"),
    "huber": lambda x, w: F.huber_loss(x @ w, x, delta=0.5),
    "smooth l1": lambda x, w: F.smooth_l1_loss(x @ w, x),
    "triplet": lambda x, w: F.triplet_margin_loss((x @ w)[:, 0], x[:, 1], x[:, 2]),
    "cosine loss": lambda x, w: F.cosine_embedding_loss((x @ w)[:, 0], x[:, 1], torch.tensor([1.0, -1.0])),
    "pairwise distances": lambda x, w: torch.cdist(x @ w, x),
    "gaussian kernel": lambda x, w: torch.exp(-((x @ w)[:, :, None] - x[:, None]).pow(2).sum(-1)),
    "covariance": lambda x, w: (y := x @ w - (x @ w).mean(1, keepdim=True)).mT @ y / 3,
    "variance regulariser": lambda x, w: F.relu(1 - (x @ w).std(1)).mean(),
    "orthogonality": lambda x, w: (w @ w.T - torch.eye(6)).pow(2).sum() + (x @ w).mean(),
    "detached target": _detached_target,
    "one branch stopped": _stop_one_branch,
    "in-place chain": _in_place_chain,
    "statistics without gradient": _no_grad_statistics,
    "rounded straight through": lambda x, w: (y := x @ w) + (y.round() - y).detach(),
    "quantised weights": _quantised,
    "permutes and views": _views,
    "two views of one memory": _shared_storage,
    "as_strided": _strided,
    "einsum": _einsums,
    "einsum of a batch": lambda x, w: torch.einsum("bij,bkj->bik", x @ w, x),
    "tensordot": lambda x, w: torch.tensordot(x, w, dims=([2], [0])),
    "bilinear": lambda x, w: F.bilinear(x, x @ w, w[None].expand(2, 6, 6)),
    "outer sums": lambda x, w: (x @ w)[:, :, None] + x[:, None],
    "broadcast over three": lambda x, w: x[:, :, None, :] * w[None, None, :, :] - 1,
    "stack and unbind": lambda x, w: sum(torch.stack([x @ w, x]).unbind(2)),
    "split unevenly": lambda x, w: torch.cat([p * (k + 1) for k, p in enumerate((x @ w).split([1, 2, 3], -1))], -1),
    "meshgrid": lambda x, w: (x @ w)[0] * torch.stack(torch.meshgrid(torch.arange(4.0), torch.arange(6.0), indexing="ij")).sum(0),
    "cumulative product": lambda x, w: torch.sigmoid(x @ w).cumprod(1),
    "fourier": lambda x, w: torch.fft.rfft(x @ w, dim=1).abs(),
    "checkpointed": _checkpointed,
    "checkpointed twice": _checkpointed_twice,
    "hook": _hook,
    "two hooks": _two_hooks,
    "loss of two parts": lambda x, w: F.mse_loss(x @ w, x) + 0.1 * w.abs().sum(),
    "nan-safe root": lambda x, w: torch.where(x > 0, x.clamp(min=1e-3).sqrt(), 0.0) @ w,
    "powers": lambda x, w: (x @ w).abs().pow(1.5) + x.pow(2) - x**3,
    "mixed precision": lambda x, w: ((x.half() @ w.half()).float() + x).to(torch.bfloat16).float(),
    "autocast": lambda x, w: torch.autocast("cpu", torch.bfloat16)(lambda: (x @ w).float())(),
    "gradient scaled": lambda x, w: (y := x @ w) * 0.1 + (y * 0.9).detach(),
    "minimum of sorts": lambda x, w: torch.minimum((x @ w).amax(1), x.amin(1)) + torch.aminmax(x).max,
    "signs and steps": lambda x, w: torch.sign(x) * (x @ w) + torch.heaviside(x, torch.ones(())),
    "angles": lambda x, w: torch.atan2(x @ w, x) + torch.hypot(x @ w, x),
}  # fmt: skip


class Clipped(nn.Module):
    def forward(self, weight):
        return weight.clamp(-0.3, 0.3)


class Symmetric(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).mT


def _with(module, *steps):
    for step in steps:
        step(module)
    return module


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 6, bias=False)
        self.last.weight = self.first.weight

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.layer = kind(6, 5, batch_first=True, **options)

    def forward(self, x):
        return self.layer(x)[0]


class Averaged(nn.Module):
    """Keeps a running mean in a buffer, as vector quantisers do."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(6))
        self.register_buffer("mean", torch.zeros(6))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.mean.mul_(0.9).add_(x.mean((0, 1)), alpha=0.1)
        return (x - self.mean) * self.scale


class Repeated(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))

    def forward(self, x):
        for layer in [*self.layers, self.layers[0]]:
            x = x + F.relu(layer(x))
        return x


LAYERS = {
    "weight_norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(6, 6)),
    "weight_norm along 1": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(6, 6), dim=1),
    "orthogonal": lambda: nn.utils.parametrizations.orthogonal(nn.Linear(6, 6), orthogonal_map="cayley"),
    "clipped weights": lambda: _with(nn.Linear(6, 6), lambda m: parametrize.register_parametrization(m, "weight", Clipped())),
    "symmetric weights": lambda: _with(nn.Linear(6, 6), lambda m: parametrize.register_parametrization(m, "weight", Symmetric())),
    "two parametrisations": lambda: _with(
        nn.Linear(6, 6),
        lambda m: parametrize.register_parametrization(m, "weight", Symmetric()),
        lambda m: parametrize.register_parametrization(m, "weight", Clipped())),
    "tied weights": Tied,
    "repeated layers": Repeated,
    "running mean": Averaged,
    "hook of a parameter": lambda: _with(nn.Linear(6, 6), lambda m: m.weight.register_hook(lambda g: g * 0.5)),
    "forward hook": lambda: _with(nn.Linear(6, 6), lambda m: m.register_forward_hook(lambda mod, a, y: y * 2)),
    "forward pre-hook": lambda: _with(nn.Linear(6, 6), lambda m: m.register_forward_pre_hook(lambda mod, a: (a[0] + 1,))),
    "frozen half": lambda: _with(nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6)), lambda m: m[0].requires_grad_(False)),
    "sequence of layers": lambda: nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 6)),
    "batch norm": lambda: nn.BatchNorm1d(4),
    "batch norm of a stack": lambda: nn.Sequential(nn.Conv1d(4, 5, 3), nn.BatchNorm1d(5), nn.ReLU()),
    "transformer layer": lambda: nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True),
    "transformer layer, norm first": lambda: nn.TransformerEncoderLayer(6, 3, 8, 0.0, F.gelu, norm_first=True, batch_first=True),
    "lstm": lambda: Recurrent(nn.LSTM),
    "lstm, both ways": lambda: Recurrent(nn.LSTM, bidirectional=True, num_layers=2),
    "gru": lambda: Recurrent(nn.GRU),
    "rnn": lambda: Recurrent(nn.RNN, nonlinearity="relu"),
    "prelu by channel": lambda: nn.Sequential(nn.Conv1d(4, 3, 1), nn.PReLU(3)),
    "bilinear pool": lambda: nn.Sequential(nn.Linear(6, 4), nn.AdaptiveMaxPool1d(2), nn.Flatten()),
    "embedding bag of bits": lambda: nn.Sequential(nn.Hardswish(), nn.Linear(6, 6), nn.Softplus()),
}  # fmt: skip
