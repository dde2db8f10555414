"""Cases of reductions, searches, scans, softmax, losses and norms."""

import torch
import torch.nn.functional as F

from benchmarks.ops.case import FLOATS, bools, case, indices, normal, within

SHAPES = ((32, 32), (64, 1024), (1024, 4096))
IMAGES = ((2, 8, 8, 8), (8, 64, 28, 28), (16, 64, 56, 56))
NUMBERS = (*FLOATS, torch.int32)
MATRICES = [[normal(*shape)] for shape in SHAPES]
CLASSES = [[normal(a, b), indices(b, a)] for a, b in SHAPES]
VIEWED = [[normal(*shape)] for shape in IMAGES]
SCALED = [[normal(a, b), normal(b), normal(b)] for a, b in SHAPES]
CHANNELS = [[normal(*s), normal(s[1]), normal(s[1])] for s in IMAGES]
FIXED = [
    [normal(*s), normal(s[1]), normal(s[1]), normal(s[1]), within(0.5, 2, s[1])] for s in IMAGES
]


def rms_norm(x, w):
    """Normalises as language models write it."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


CASES = [
    *(case(f"{name}_{where}", lambda x, f=f, axes=axes: f(x, axes), *MATRICES, rows=name)
      for name, f in (("sum", torch.sum), ("mean", torch.mean), ("max", torch.amax),
                      ("min", torch.amin))
      for where, axes in (("rows", (1,)), ("columns", (0,)), ("all", (0, 1)))),
    case("sum_of_channels", lambda x: x.sum((0, 2, 3)), *VIEWED, rows="sum"),
    case("max_with_index", lambda x: torch.max(x, 1), *MATRICES, rows="argmax"),
    case("argmax", lambda x: torch.argmax(x, 1), *MATRICES, gradients=False, dtypes=NUMBERS),
    case("argmin", lambda x: torch.argmin(x, 1), *MATRICES, gradients=False, dtypes=NUMBERS),
    case("prod", lambda x: torch.prod(x, 1), *([within(0.9, 1.1, *s)] for s in SHAPES)),
    case("any", lambda x: torch.any(x, 1), *([bools(*s)] for s in SHAPES), dtypes=(torch.int32,)),
    case("all", lambda x: torch.all(x, 1), *([bools(*s)] for s in SHAPES), dtypes=(torch.int32,)),
    case("sum_of_bools", lambda x: x.sum(1), *([bools(*s)] for s in SHAPES), rows="sum",
         dtypes=(torch.int32,)),
    case("variance", lambda x: torch.var(x, 1), *MATRICES, rows="mean"),
    case("norm", lambda x: torch.linalg.vector_norm(x, dim=1), *MATRICES, rows="sum"),
    case("logsumexp", lambda x: torch.logsumexp(x, 1), *MATRICES),
    case("cumsum", lambda x: torch.cumsum(x, 1), *MATRICES),
    case("cumsum_of_columns", lambda x: torch.cumsum(x, 0), *MATRICES, rows="cumsum"),
    case("cumprod", lambda x: torch.cumprod(x, 1), *([within(0.9, 1.1, *s)] for s in SHAPES),
         grad="linear_recurrence"),
    case("sort", lambda x: torch.sort(x, 1), [normal(8, 64)], [normal(64, 1024)],
         [normal(256, 4096)]),
    case("topk", lambda x: torch.topk(x, 8, 1), [normal(8, 64)], [normal(64, 1024)],
         [normal(256, 4096)]),
    case("softmax", lambda x: torch.softmax(x, 1), *MATRICES, grad="softmax_grad"),
    case("softmax_of_columns", lambda x: torch.softmax(x, 0), *MATRICES, rows="softmax",
         grad="softmax_grad"),
    case("log_softmax", lambda x: torch.log_softmax(x, 1), *MATRICES, grad="log_softmax_grad"),
    case("cross_entropy", F.cross_entropy, *CLASSES, rows="softmax_cross_entropy",
         grad="softmax_cross_entropy_grad"),
    case("nll_loss", F.nll_loss, *CLASSES, grad="nll_loss_grad"),
    case("mse_loss", F.mse_loss, *([normal(*s), normal(*s)] for s in SHAPES), rows="mean"),
    case("layer_norm", lambda x, w, b: F.layer_norm(x, x.shape[1:], w, b), *SCALED,
         grad="layer_norm_grad"),
    case("rms_norm", rms_norm, *([normal(a, b), normal(b)] for a, b in SHAPES), rows="rsqrt"),
    case("group_norm", lambda x, w, b: F.group_norm(x, 4, w, b), *CHANNELS,
         grad="group_norm_grad"),
    case("batch_norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), *CHANNELS,
         grad="batch_norm_grad"),
    case("batch_norm_inference", lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b), *FIXED,
         rows="batch_norm_factors scale_shift", gradients=False),
]  # fmt: skip
