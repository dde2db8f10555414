"""Masks, positions, indexing and assignment as models write them.

Each is a function of x [2, 4, 6], w [6, 6] and, where named, of m, a mask [2, 4], and i, numbers of
rows [2, 4].
"""

import torch
import torch.nn.functional as F

LOWEST = -1e4


def _causal(n):
    return torch.tril(torch.ones(n, n))


def _sliding(n, width):
    rows, columns = torch.arange(n)[:, None], torch.arange(n)[None]
    return (rows - columns).abs() < width


def _banded(x, w):
    scores = x @ w @ x.transpose(1, 2)
    keep = torch.triu(torch.tril(torch.ones(4, 4), 1), -1).bool()
    return scores.masked_fill(~keep, LOWEST).softmax(-1) @ x


def _fill_last(x, w):
    y = (x @ w).clone()
    y[:, -1, ::2] = 0
    return y


def _add_to_slice(x, w):
    y = x @ w
    y[:, 1:3] += x[:, :2]
    return y * y


def _swap_halves(x, w):
    y = torch.empty_like(x)
    y[..., :3], y[..., 3:] = x[..., 3:], x[..., :3]
    return y @ w


def _running_rows(x, w):
    rows = []
    state = x[:, 0]
    for step in range(4):
        state = torch.tanh(state @ w + x[:, step])
        rows.append(state)
    return torch.stack(rows, 1)


def _buffer_of_steps(x, w):
    out = torch.zeros(2, 4, 6)
    for step in range(4):
        out[:, step] = x[:, step] @ w
    return out.cumsum(1)


def _pad_then_unfold(x, w):
    return F.pad(x @ w, (1, 1)).unfold(2, 3, 1).mean(-1)


def _relative_positions(x, w):
    rows = torch.arange(4)
    distance = (rows[:, None] - rows[None]).abs().clamp(max=2)
    return (
        x
        @ w[distance][:, :, 0]
        .softmax(-1)[None, 0, :, None]
        .expand(2, 4, 6)
        .transpose(1, 2)[:, :, :1]
    )


def _bias_by_distance(x, w):
    rows = torch.arange(4)
    bias = -(rows[:, None] - rows[None]).abs().to(x.dtype) * 0.25
    return ((x @ w) @ x.transpose(1, 2) + bias).softmax(-1) @ x


def _rotate(x, w):
    a, b = (x @ w).chunk(2, -1)
    angle = torch.arange(4.0)[:, None] / torch.tensor([1.0, 10.0, 100.0])
    c, s = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    return torch.cat([a * c - b * s, a * s + b * c], -1)


def _rotate_interleaved(x, w):
    pairs = (x @ w).reshape(2, 4, 3, 2)
    return torch.stack((-pairs[..., 1], pairs[..., 0]), -1).flatten(-2)


def _sinusoids(x, w):
    position = torch.arange(4.0).unsqueeze(1)
    rate = torch.exp(torch.arange(0, 6, 2) * -0.5)
    table = torch.zeros(4, 6)
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate)
    return (x + table.to(x.dtype)) @ w


XW = {
    "causal attention": lambda x, w: (x @ w @ x.mT).masked_fill(_causal(4) == 0, LOWEST).softmax(-1) @ x,
    "causal by addition": lambda x, w: (x @ w @ x.mT + (1 - _causal(4)) * LOWEST).softmax(-1) @ x,
    "causal by infinity": lambda x, w: (x @ w @ x.mT).masked_fill(_causal(4) == 0, float("-inf")).softmax(-1) @ x,
    "sliding window": lambda x, w: (x @ w @ x.mT).masked_fill(~_sliding(4, 2), LOWEST).softmax(-1) @ x,
    "banded": _banded,
    "where causal": lambda x, w: torch.where(_causal(4).bool(), x @ w @ x.mT, LOWEST).softmax(-1) @ x,
    "upper triangle": lambda x, w: torch.triu(x @ w @ x.mT, 1),
    "diagonal": lambda x, w: torch.diagonal(x @ w @ x.mT, dim1=1, dim2=2),
    "diag_embed": lambda x, w: torch.diag_embed((x @ w)[:, 0]),
    "without the diagonal": lambda x, w: (x @ w @ x.mT) * (1 - torch.eye(4)),
    "fill of a slice": _fill_last,
    "addition to a slice": _add_to_slice,
    "halves swapped": _swap_halves,
    "recurrence by hand": _running_rows,
    "steps into a buffer": _buffer_of_steps,
    "pad then unfold": _pad_then_unfold,
    "distances as bias": _bias_by_distance,
    "rotary positions": _rotate,
    "interleaved rotary positions": _rotate_interleaved,
    "sinusoids": _sinusoids,
    "first and last": lambda x, w: torch.cat([x[:, :1], x[:, -1:]], 1) @ w,
    "every other row": lambda x, w: x[:, ::2] @ w,
    "rows reversed": lambda x, w: x.flip(1) @ w,
    "rows by a list": lambda x, w: x[:, [3, 0, 0]] @ w,
    "rows and columns by lists": lambda x, w: (x @ w)[:, [0, 3], [1, 5]],
    "negative numbers": lambda x, w: (x @ w)[:, [-1, -4], -2],
    "new axes": lambda x, w: (x[:, None] * x[:, :, None]).sum(-1),
    "ellipsis": lambda x, w: (x @ w)[..., 0, :],
    "assignment by list": lambda x, w: (x @ w).index_put((torch.tensor([0, 1]), torch.tensor([2, 3])), x[0, :2]),
    "accumulated by list": lambda x, w: (x @ w)[0].index_put((torch.tensor([1, 1]),), x[0, :2], accumulate=True),
    "top of each row": lambda x, w: (x @ w).topk(2, -1).values,
    "gather of the best": lambda x, w: x.gather(1, (x @ w).argmax(1, keepdim=True)),
    "straight through one-hot": lambda x, w: (h := (x @ w).softmax(-1)) + (F.one_hot(h.argmax(-1), 6) - h).detach(),
    "threshold of the k-th": lambda x, w: torch.where(x >= x.topk(3, -1).values[..., -1:], x @ w, 0.0),
    "sorted": lambda x, w: (x @ w).sort(-1, descending=True)[0],
    "ranks": lambda x, w: x.argsort(-1).argsort(-1).to(x.dtype) * (x @ w),
    "median of rows": lambda x, w: (x @ w).median(1).values,
    "clamped by the k-th": lambda x, w: torch.minimum(x @ w, x.kthvalue(4, -1, keepdim=True).values),
    "repeated rows": lambda x, w: x.repeat_interleave(2, 1) @ w,
    "rolled rows": lambda x, w: x @ w + x.roll(1, 1),
    "shifted windows": lambda x, w: x.roll((-1, 2), (1, 2)).reshape(2, 2, 2, 6) @ w,
}  # fmt: skip

XWM = {
    "masked mean": lambda x, w, m: ((x @ w) * m[..., None]).sum(1) / m.sum(1, keepdim=True).clamp(min=1),
    "key padding": lambda x, w, m: (x @ w @ x.mT).masked_fill(~m[:, None], LOWEST).softmax(-1) @ x,
    "padding and causal": lambda x, w, m: (x @ w @ x.mT).masked_fill(~(m[:, None] & (_causal(4) > 0)), LOWEST).softmax(-1),
    "mask as float": lambda x, w, m: (x @ w @ x.mT + (1.0 - m[:, None].to(x.dtype)) * LOWEST).softmax(-1),
    "where": lambda x, w, m: torch.where(m[..., None], x @ w, x),
    "masked_fill in place": lambda x, w, m: (x @ w).masked_fill_(m[..., None], 0.5),
    "assignment by mask": lambda x, w, m: (y := (x @ w), y.__setitem__(m, 2.0), y * y)[2],
    "largest of the masked": lambda x, w, m: (x @ w).masked_fill(~m[..., None], float("-inf")).amax(-1),
    "loss where it counts": lambda x, w, m: (F.mse_loss(x @ w, x, reduction="none") * m[..., None]).sum() / m.sum(),
    "lengths from the mask": lambda x, w, m: (x @ w) / m.sum(1)[:, None, None].clamp(min=1),
    "positions from the mask": lambda x, w, m: (x @ w) * (m.cumsum(1) * m)[..., None],
    "any and all": lambda x, w, m: (x @ w) * m.any(1)[:, None, None] + m.all(1)[:, None, None],
    "xor of masks": lambda x, w, m: torch.where((m ^ m.roll(1, 1))[..., None], x, x @ w),
    "mask times loss": lambda x, w, m: F.binary_cross_entropy_with_logits((x @ w).mean(-1), m.to(x.dtype)),
    "probabilities renormalised": lambda x, w, m: (p := (x @ w).softmax(1) * m[..., None]) / p.sum(1, keepdim=True).clamp(min=1e-4),
}  # fmt: skip

XWI = {
    "embedding": lambda x, w, i: F.embedding(i, w) + x,
    "embedding, padded": lambda x, w, i: F.embedding(i, w, padding_idx=0) * x,
    "rows of a table": lambda x, w, i: w[i] * x,
    "gather along rows": lambda x, w, i: (x @ w).gather(2, i[..., None].expand(2, 4, 3)),
    "index_select": lambda x, w, i: (x @ w).index_select(2, i[0]),
    "take_along_dim": lambda x, w, i: torch.take_along_dim(x @ w, i[..., None], 2),
    "one-hot product": lambda x, w, i: F.one_hot(i.long(), 6).to(x.dtype) @ w,
    "log-probability of a token": lambda x, w, i: (x @ w).log_softmax(-1).gather(-1, i[..., None]).squeeze(-1),
    "cross entropy": lambda x, w, i: F.cross_entropy((x @ w).flatten(0, 1), i.flatten().long()),
    "smoothed cross entropy": lambda x, w, i: F.cross_entropy((x @ w).flatten(0, 1), i.flatten().long(), label_smoothing=0.1),
    "ignored tokens": lambda x, w, i: F.cross_entropy((x @ w).flatten(0, 1), i.flatten().long(), ignore_index=1),
    "cross entropy of sequences": lambda x, w, i: F.cross_entropy((x @ w).transpose(1, 2), i.long()),
    "nll of a mixture": lambda x, w, i: F.nll_loss(torch.log((x @ w).softmax(-1) + 1e-3).flatten(0, 1), i.flatten().long()),
    "scatter_add by token": lambda x, w, i: torch.zeros(2, 6, 6).scatter_add(1, i[..., None].expand(2, 4, 6).long(), (x @ w).float()),
    "scatter of probabilities": lambda x, w, i: torch.zeros(2, 4, 6).scatter(2, i[..., None].long(), 1.0) * x,
    "index_add": lambda x, w, i: torch.zeros(6, 6, dtype=x.dtype).index_add(0, i[0], x[0]) @ w,
    "mean by segment": lambda x, w, i: torch.zeros(6, 6).index_add(0, i[0], x[0].float()) / torch.zeros(6).index_add(0, i[0], torch.ones(4)).clamp(min=1)[:, None],
    "copy of rows": lambda x, w, i: w.index_copy(0, torch.tensor([1, 3]), x[0, :2]) @ x[0].T,
    "a token's row written": lambda x, w, i: torch.scatter(x @ w, 2, i[..., None].long(), x[..., :1]),
    "bins": lambda x, w, i: (x @ w)[0] * torch.bincount(i[0], minlength=6).to(x.dtype),
    "focal": lambda x, w, i: (-(1 - (p := (x @ w).softmax(-1).gather(-1, i[..., None].long()))) ** 2 * p.clamp(min=1e-4).log()).mean(),
    "contrastive": lambda x, w, i: F.cross_entropy(F.normalize(x[0] @ w, dim=-1) @ F.normalize(x[1], dim=-1).T / 0.5, torch.arange(4)),
}  # fmt: skip
