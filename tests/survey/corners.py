"""Corner cases of functions: values at which a composition, a dtype or a derivative differed from
torch.

Each was wrong once.
"""

import torch
import torch.nn.functional as F

INF, NAN = float("inf"), float("nan")
HALF = torch.float16


def t(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype)


def _scaled(function):
    """Returns float16 tensors whose squares leave the range of float16."""
    return function, t([300.0, -400.0], [30.0, 40.0], dtype=HALF)


# name: (function, tensors...)
CORNERS = {
    "rms_norm of small halves": (lambda x: F.rms_norm(x, (2,)), t([1e-3, 2e-3], dtype=HALF)),
    "rms_norm of large halves": _scaled(lambda x: F.rms_norm(x, (2,))),
    "normalize of large halves": _scaled(F.normalize),
    "cosine_similarity of large halves": _scaled(lambda x: F.cosine_similarity(x, x.flip(0))),
    "norm of large halves": _scaled(torch.norm),
    "vector_norm of high order": _scaled(lambda x: torch.linalg.vector_norm(x, 12, -1)),
    "std of large halves": _scaled(lambda x: x.std(1)),
    "var of large halves": _scaled(lambda x: (x / 4).var(1)),
    "hypot of large halves": _scaled(lambda x: torch.hypot(x, x.flip(0))),
    "pairwise_distance of large halves": _scaled(lambda x: F.pairwise_distance(x, x.flip(0))),
    "atan2 of large halves": _scaled(lambda x: torch.atan2(x, x.flip(0))),
    "tanh near 1 in halves": (torch.tanh, t(2.5, 3.0, -3.5, dtype=HALF)),
    "exp2 of halves": (torch.exp2, t(-8.3, 3.3, 7.7, dtype=HALF)),
    "cube of halves": (lambda x: x**3, t(3.3, -7.7, 11.1, dtype=HALF)),
    "div, truncated, of halves": (lambda a, b: torch.div(a, b, rounding_mode="trunc"),
        t(2999.0, -5.0, dtype=HALF), t(1000.5, 3.0, dtype=HALF)),
    "round among other steps, of halves": (lambda x: (x / 3).round() * 0.5 + x,
        t(1.0, 4.4, -7.7, 100.0, dtype=HALF)),
    "floor among other steps, of halves": (lambda x: (x / 3).floor().clamp(-2, 9) - x.trunc(),
        t(1.0, 4.4, -7.7, 100.0, dtype=HALF)),
    "std of equal values": (lambda x: x.std(), t(2.0, 2.0, 2.0)),
    "std_mean of equal values": (lambda x: torch.std_mean(x, 0), t([2.0, 1.0], [2.0, 3.0])),
    "atan2 at the origin": (torch.atan2, t(0.0, 1.0, 0.0), t(0.0, 0.0, -2.0)),
    "div by zero, truncated": (lambda a, b: torch.div(a, b, rounding_mode="trunc"),
        t(1.0, 5.0, -3.0), t(0.0, 2.0, INF)),
    "div by zero, floored": (lambda a, b: torch.div(a, b, rounding_mode="floor"),
        t(1.0, 5.0, -3.0), t(2.0, 0.5, 4.0)),
    **{f"norm of order {p} with zeros": (
        lambda x, p=p: torch.linalg.vector_norm(x, p, dim=1),
        t([0.0, 0.0], [3.0, 0.0], [-1.0, 2.0])) for p in (0, 0.5, 1, 1.5, 2, 3, INF, -INF)},
    "norm of infinite order with nan": (lambda x: torch.linalg.vector_norm(x, -INF, dim=1),
        t([NAN, 1.0], [2.0, -2.0])),
    "normalize of order 0.5": (lambda x: F.normalize(x, p=0.5), t([0.0, 2.0], [1.0, -3.0])),
    "xlogy at zero": (torch.xlogy, t(0.0, 0.0, 0.0, 1.0), t(0.0, -1.0, NAN, 0.5)),
    "relu6 at its kinks": (F.relu6, t(0.0, 6.0, 3.0, -1.0)),
    "hardtanh at its kinks": (F.hardtanh, t(-1.0, 1.0, 0.5)),
    "hardswish at its kinks": (F.hardswish, t(-3.0, 3.0, 0.0, 5.0)),
    "hardsigmoid at its kinks": (F.hardsigmoid, t(-3.0, 3.0, 0.0, 5.0)),
    "clamp between tensors": (torch.clamp, t(1.0, 2.0, 5.0, 0.0, NAN), t(1.0, 3.0, 4.0, 1.0, 0.0),
        t(2.0, 4.0, 4.5, 0.5, 1.0)),
    "clamp_min by a tensor": (torch.clamp_min, t(1.0, 2.0, NAN), t(1.0, 3.0, 0.0)),
    "maximum with nan and ties": (torch.maximum, t(1.0, NAN, 2.0), t(1.0, 0.0, 3.0)),
    "max of all with nan": (torch.max, t(1.0, NAN, 2.0, NAN)),
    "max of all with ties": (torch.max, t(1.0, 2.0, 2.0)),
    "floor of infinite gradients": (lambda x: torch.floor(x) / x.detach(), t(0.0, 1.5)),
    "remainder's gradient": (torch.remainder, t(7.5, -7.5, 3.0), t(2.0, 2.0, -INF)),
    "nan_to_num": (torch.nan_to_num, t(NAN, INF, -INF, 1.0)),
    "prelu with an infinite slope": (F.prelu, t(1.0, -1.0), t(INF)),
    "prelu of a scalar": (F.prelu, t(-2.0)[0], t(0.25)),
    "safe softmax": (lambda x: torch.ops.aten._safe_softmax(x, 1), t([-INF, -INF], [1.0, 2.0])),
    "index_fill of a row named twice": (lambda x, v: x.index_fill(0, torch.tensor([0, 0]), v),
        t(1.0, 2.0, 3.0), t(5.0)[0]),
    "embedding, gradients by frequency": (lambda w: F.embedding(
        torch.tensor([1, 1, 0, 1]), w, scale_grad_by_freq=True), t([1.0, 2.0], [3.0, 4.0])),
    "max_pool2d of nan": (lambda x: F.max_pool2d(x, 2), t([[[NAN, 1.0], [NAN, 2.0]]])),
    "margin_ranking_loss at its kink": (F.margin_ranking_loss, t(1.0, 2.0), t(1.0, 1.0),
        t(1.0, -1.0)),
    "nuclear norm of equal values": (lambda x: torch.linalg.matrix_norm(x, "nuc"),
        t([2.0, 2.0], [2.0, 2.0])),
    "hypot of huge values": (torch.hypot, t(1e30, 3e-30, 0.0, INF), t(1e30, 4e-30, 0.0, NAN)),
    "std of huge values": (lambda x: x.std(), t(1e30, -1e30, 5e29)),
    "kl_div of negative targets": (F.kl_div, t(-1.0, -2.0, -3.0), t(-0.5, 0.0, NAN)),
    "xlogy of negative values": (torch.xlogy, t(1.0, -2.0, 0.0), t(-1.0, 3.0, -2.0)),
    "threshold of nan": (lambda x: F.threshold(x, 0.5, 7.0), t(NAN, 0.5, 1.0, -1.0)),
    "addmv with alpha 0": (lambda b, m, v: torch.addmv(b, m, v, alpha=0),
        t(1.0, 2.0), t([NAN, 1.0], [INF, 2.0]), t(1.0, 1.0)),
    "addmm with beta 0": (lambda b, m, v: torch.addmm(b, m, v, beta=0),
        t([NAN, INF]), t([1.0, 1.0], [3.0, 2.0]), t([1.0, 1.0], [2.0, 2.0])),
    **{f"bucketize, unsorted, right={r}": (
        lambda v, b, r=r: torch.bucketize(v, b, right=r),
        t(0.0, 1.0, 2.5, NAN, 9.0), t(3.0, 1.0, 2.0, 5.0, NAN)) for r in (False, True)},
    "bucketize of large integers": (torch.bucketize, t(16777217, dtype=torch.int32),
        t(16777216, 16777217, 16777218, dtype=torch.int32)),
    "hardtanh of integers": (lambda x: F.hardtanh(x, -1, 2), t(-5, 1, 7, dtype=torch.int32)),
    "relu6 of integers": (F.relu6, t(-5, 3, 9, dtype=torch.int32)),
    "scatter_reduce amax of truth values": (lambda x, s: x.scatter_reduce(
        0, torch.tensor([0, 1]), s, "amax", include_self=False),
        t(True, True, False, dtype=torch.bool), t(False, True, dtype=torch.bool)),
    "all over no dimensions": (lambda x: torch.all(x, dim=()), t([1, 0], [2, 3], dtype=torch.int32)),
    "any over no dimensions": (lambda x: torch.any(x, dim=()), t([1, 0], [2, 3], dtype=torch.int32)),
    "any of bytes": (torch.any, t(0, 2, dtype=torch.uint8)),
    "assignment by a mask of bytes": (lambda x, m: (y := x * 1, y.__setitem__(m, 9.0), y * y)[2],
        t(1.0, 2.0, 3.0), t(1, 0, 1, dtype=torch.uint8)),
    "max_pool2d of integers": (lambda x: F.max_pool2d(x, 2),
        torch.arange(24, dtype=torch.int32).reshape(2, 3, 2, 2)),
    "sum of an image of integers": (lambda x: x.sum((0, 2, 3)),
        torch.arange(48, dtype=torch.int32).reshape(2, 3, 2, 4)),
    "statistics of native_layer_norm": (lambda x: torch.native_layer_norm(x, (2,), None, None, 1e-5),
        t([1.0, 2.0], [3.0, 5.0])),
    "statistics of native_batch_norm": (lambda x: torch.native_batch_norm(
        x, None, None, torch.zeros(2), torch.ones(2), False, 0.1, 1e-5), t([1.0, 2.0], [3.0, 5.0])),
}  # fmt: skip
