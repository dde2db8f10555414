"""Cases of products, convolutions, norms, losses and indexing; see cases_ops.py."""

import numpy as np
import popxl
from cases_ops import Case, ints, rand, softmax
from popxl import ops


def spread(pad, x, fill):
    """Places rows two apart and columns three apart, with a row or column of `fill` above, below
    and to the right."""
    n, c, h, w = x.shape
    x = pad(x.reshape(n, c, h, 1, w, 1), (0, 2, 0, 0, 0, 1), value=fill).reshape(n, c, 2 * h, 3 * w)
    return pad(x[:, :, : 2 * h - 1, : 3 * w - 2], (0, 1, 1, 1), value=fill)


def _torch(expression):
    """Returns a function of x, y, z, w in torch."""

    def run(*tensors):
        import torch

        names = dict(zip("xyzw", tensors, strict=False))
        known = {"torch": torch, "F": torch.nn.functional, "spread": spread}
        return eval(expression, {**known, **names})

    return run


def _by_torch(function):
    """Returns the same in NumPy."""

    def run(*arrays):
        import torch

        return function(*[torch.from_numpy(a.copy()) for a in arrays]).numpy()

    return run


def _layer(name, op, inputs, expression, tolerance=2e-5):
    function = _torch(expression)
    return Case(name, op, inputs, _by_torch(function), function, tolerance)


T, W = rand(2, 4, 7, 6), rand(6, 4, 3, 2)
N, C = rand(2, 6, 5), rand(6)
PROBS, LABELS = softmax(rand(5, 3), -1), ints(5, low=0, high=3)
ROWS, PLACES = rand(4, 3), ints(2, 5, low=0, high=4)


def numpy_nll(reduce, ignore=None):
    def run(p, y):
        losses = -np.log(np.take_along_axis(p, y[..., None], -1))[..., 0]
        counted = y != ignore if ignore is not None else np.ones(y.shape, bool)
        losses = np.where(counted, losses, 0)
        return {"mean": losses.sum() / counted.sum(), "sum": losses.sum(), "none": losses}[reduce]

    return run


def with_rows(function):
    """Returns a copy of x after `function` changed it in place."""

    def run(x, *rest):
        x = x.copy()
        function(x, *rest)
        return x

    return run


def grouped(x, i):
    return np.stack([np.take(a, b, 0) for a, b in zip(x, i, strict=True)])


def scattered(at, start):
    def run(x, i):
        out = np.full((5, 3), start, np.float32)
        getattr(np, at).at(out, i, x)
        return np.where(np.isin(np.arange(5), i)[:, None], out, 0)

    return run


def wrapped(x, start, size):
    return np.take(x, np.arange(start, start + size) % x.shape[0], 0)


PRODUCTS = [
    _layer("matmul", ops.matmul, [rand(3, 4), rand(4, 5)], "x @ y"),
    _layer("matmul of batches", ops.matmul, [rand(2, 3, 4), rand(4, 5)], "x @ y"),
    _layer("matmul of vectors", ops.matmul, [rand(4), rand(4)], "x @ y"),
    _layer("matrix by vector", ops.matmul, [rand(3, 4), rand(4)], "x @ y"),
    _layer("vector by matrices", ops.matmul, [rand(4), rand(2, 4, 3)], "x @ y"),
    Case(
        "matmul to float",
        lambda x, y: ops.matmul(x, y, output_type=popxl.float32),
        [rand(2, 3).astype(np.float16), rand(3, 2).astype(np.float16)],
        lambda x, y: x.astype(np.float32) @ y.astype(np.float32),
    ),
    _layer("conv", lambda x, w: ops.conv(x, w), [T, W], "F.conv2d(x, y)"),
    _layer(
        "conv with everything",
        lambda x, w: ops.conv(x, w, (2, 1), (1, 2, 1, 2), (1, 2), 2),
        [T, rand(6, 2, 3, 2)],
        "F.conv2d(x, y, None, (2, 1), (1, 2), (1, 2), 2)",
    ),
    _layer(
        "conv with uneven padding",
        lambda x, w: ops.conv(x, w, padding=(0, 1, 2, 0)),
        [T, W],
        "F.conv2d(F.pad(x, (1, 0, 0, 2)), y)",
    ),
    _layer(
        "conv of the same size",
        lambda x, w: ops.conv(x, w, pad_type="same_upper"),
        [T, W],
        "F.conv2d(F.pad(x, (0, 1, 1, 1)), y)",
    ),
    _layer(
        "conv_transpose",
        lambda x, w: ops.conv_transpose(x, w, (2, 2), (1, 0, 1, 0), output_padding=(1, 0)),
        [T, rand(4, 3, 3, 2)],
        "F.conv_transpose2d(x, y, None, 2, (1, 0), (1, 0))",
    ),
    _layer(
        "conv_transpose with uneven padding",
        lambda x, w: ops.conv_transpose(x, w, padding=(0, 1, 1, 0)),
        [T, rand(4, 3, 3, 2)],
        "F.conv_transpose2d(x, y)[:, :, :-1, 1:]",
    ),
    _layer(
        "average_pool",
        lambda x: ops.average_pool(x, (3, 2), (2, 2), (1, 0, 1, 0)),
        [T],
        "F.avg_pool2d(x, (3, 2), 2, (1, 0), count_include_pad=False)",
    ),
    _layer(
        "average_pool with uneven padding",
        lambda x: ops.average_pool(x, (2, 3), padding=(0, 1, 1, 0)),
        [T],
        "F.avg_pool2d(F.pad(x, (1, 0, 0, 1)), (2, 3), 1)"
        " / F.avg_pool2d(F.pad(x * 0 + 1, (1, 0, 0, 1)), (2, 3), 1)",
    ),
    _layer(
        "average_pool with dilations",
        lambda x: ops.average_pool(x, (2, 2), (2, 1), dilation=(2, 1), ceil_mode=True),
        [T],
        "torch.stack([F.pad(x, (0, 0, 0, 9))[:, :, 2 * i:2 * i + 3:2].sum(2)"
        " / min(2, len(range(2 * i, x.shape[2], 2))) for i in range(-(-(x.shape[2] - 3) // 2) + 1)]"
        ", 2).unfold(3, 2, 1).mean(4)",
    ),
    _layer(
        "max_pool",
        lambda x: ops.max_pool(x, (3, 2), (2, 2), (1, 0, 1, 0)),
        [T],
        "F.max_pool2d(x, (3, 2), 2, (1, 0))",
    ),
    _layer(
        "max_pool with uneven padding",
        lambda x: ops.max_pool(x, (2, 2), padding=(0, 1, 0, 0)),
        [T],
        "F.max_pool2d(F.pad(x, (1, 0), value=-9e9), 2, 1)",
    ),
    _layer(
        "average_pool of elements apart",
        lambda x: ops.average_pool(x, (3, 2), (2, 1), (1, 0, 1, 1), in_dilations=(2, 3)),
        [T],
        "spread(F.pad, x, 0.0).unfold(2, 3, 2).unfold(3, 2, 1).sum((4, 5)) / spread("
        "F.pad, x * 0 + 1, 0.0).unfold(2, 3, 2).unfold(3, 2, 1).sum((4, 5)).clamp(min=1)",
    ),
    _layer(
        "max_pool of elements apart",
        lambda x: ops.max_pool(
            x, (3, 3), (2, 1), (1, 0, 1, 1), in_dilations=(2, 3), storage_order="column"
        ),
        [T],
        "F.max_pool2d(spread(F.pad, x, -9e9), 3, (2, 1))",
    ),
    _layer(
        "average_pool with zeros around",
        lambda x: ops.average_pool(x, (2, 2), out_pads=(1, 0, 0, 2)),
        [T],
        "F.pad(F.avg_pool2d(x, 2, 1), (0, 2, 1, 0))",
    ),
    _layer(
        "max_pool of lines with zeros around",
        lambda x: ops.max_pool(x, (2,), (2,), out_pads=(2, 1), in_dilations=(2,), dilation=(2,)),
        [rand(2, 3, 7)],
        "F.pad(F.max_pool1d(x, 2, 1)[:, :, :], (2, 1))",
    ),
    _layer(
        "max_pool past the end",
        lambda x: ops.max_pool(x, (3, 2), (2, 2), (0, 0, 0, 1), ceil_mode=True),
        [T],
        "F.max_pool2d(F.pad(x, (0, 1), value=-9e9), (3, 2), 2, ceil_mode=True)[..., :3]",
    ),
    _layer(
        "interpolate",
        lambda x: ops.interpolate(x, (1, 1, 2, 2), "nearest", "floor", "asymmetric"),
        [T],
        "F.interpolate(x, scale_factor=2)",
    ),
    _layer(
        "interpolate lines",
        lambda x: ops.interpolate(x, (1.0, 1.0, 2.0, 1.5), "linear"),
        [T],
        "F.interpolate(x, scale_factor=(2.0, 1.5), mode='bilinear')",
    ),
    _layer(
        "interpolate curves",
        lambda x: ops.interpolate(x, (1.0, 1.0, 2.0, 1.5), "cubic"),
        [T],
        "F.interpolate(x, scale_factor=(2.0, 1.5), mode='bicubic')",
        1e-4,
    ),
]

NORMS = [
    _layer(
        "group_norm",
        lambda x, w, b: ops.group_norm(x, w, b, 3),
        [N, C, rand(6)],
        "F.group_norm(x, 3, y, z)",
        1e-4,
    ),
    _layer(
        "layer_norm",
        ops.layer_norm,
        [rand(2, 5, 6), C, rand(6)],
        "F.layer_norm(x, (6,), y, z)",
        1e-4,
    ),
    Case(
        "batch_norm_inference",
        ops.batch_norm_inference,
        [N, C, rand(6), rand(6), rand(6, low=0.1)],
        lambda x, s, b, m, v: (
            (x - m[:, None]) / np.sqrt(v[:, None] + 1e-5) * s[:, None] + b[:, None]
        ),
        tolerance=1e-4,
    ),
]

LOSSES = [
    Case(
        f"nll_loss {reduce} {ignore}",
        lambda p, y, r=reduce, i=ignore: ops.nll_loss(p, y, i, r),
        [PROBS, LABELS],
        numpy_nll(reduce, ignore),
        _torch(
            f"F.nll_loss(x.log(), y.long(), reduction={reduce!r}, "
            f"ignore_index={-100 if ignore is None else ignore})"
        ),
    )
    for reduce in ("mean", "sum", "none")
    for ignore in (None, 1)
] + [
    Case(
        "nll_loss of logarithms",
        lambda p, y: ops.nll_loss(p, y, log_prob=True),
        [np.log(PROBS), LABELS],
        lambda p, y: numpy_nll("mean")(np.exp(p), y),
    ),
]

INDEXING = [
    Case(
        "gather",
        ops.gather,
        [ROWS, PLACES],
        lambda x, i: np.take(x, i, 0),
        _torch("x[y.long()]"),
    ),
    Case(
        "gather along axis 1",
        lambda x, i: ops.gather(x, i, axis=1),
        [rand(3, 4, 2), PLACES],
        lambda x, i: np.take(x, i, 1),
    ),
    Case(
        "gather past the end",
        lambda x, i: ops.gather(x, i, zero_OOR=True),
        [ROWS, np.int32([0, 9])],
        lambda x, i: np.stack([x[0], 0 * x[0]]),
    ),
    Case("tied_gather", ops.tied_gather, [ROWS, PLACES], lambda x, i: np.take(x, i, 0)),
    Case(
        "groupedgather",
        lambda x, i: ops.groupedgather(x, i, axis=1, group_size=2),
        [rand(2, 4, 3), PLACES],
        grouped,
    ),
    Case(
        "scatter",
        ops.scatter,
        [ROWS, np.int32([[3, 1, 0]]), rand(1, 3)],
        with_rows(lambda x, i, v: np.put_along_axis(x, i, v, 0)),
        _torch("x.scatter(0, y.long(), z)"),
    ),
    Case(
        "scatter_reduce sum",
        lambda x, i: ops.scatter_reduce(x, i, "sum", axis_size=5),
        [ROWS, np.int32([4, 0, 4, 1])],
        scattered("add", 0),
        _torch("torch.zeros(5, 3).index_add(0, y.long(), x)"),
    ),
    Case(
        "scatter_reduce max",
        lambda x, i: ops.scatter_reduce(x, i, "max", axis_size=5),
        [ROWS, np.int32([4, 0, 4, 1])],
        scattered("maximum", -99),
    ),
    Case(
        "scatter_reduce min onto values",
        lambda x, i, v: ops.scatter_reduce(x, i, "min", v),
        [ROWS, np.int32([2, 0, 2, 1]), rand(3, 3)],
        lambda x, i, v: with_rows(lambda o, x, i: np.minimum.at(o, i, x))(v, x, i),
    ),
    Case(
        "grouped_scatter_reduce",
        lambda x, i: ops.grouped_scatter_reduce(x, i, "sum", axis=1, axis_size=5, group_size=2),
        [rand(2, 4, 3), np.int32([[4, 0, 4, 1], [2, 2, 2, 3]])],
        lambda x, i: np.stack([scattered("add", 0)(a, b) for a, b in zip(x, i, strict=True)]),
    ),
    Case(
        "dynamic_slice",
        lambda x, i: ops.dynamic_slice(x, i, [0], [2], True),
        [ROWS, np.int32([3])],
        lambda x, i: wrapped(x, 3, 2),
    ),
    Case(
        "dynamic_slice of two axes",
        lambda x, i: ops.dynamic_slice(x, i, [0, 1], [2, 1], True),
        [ROWS, np.uint32([1, 2])],
        lambda x, i: x[1:3, 2:3],
    ),
    Case(
        "dynamic_update",
        lambda x, i, v: ops.dynamic_update(x, i, v, [0, 1], [2, 2], True),
        [ROWS, np.int32([1, 0]), rand(2, 2)],
        with_rows(lambda x, i, v: x.__setitem__((slice(1, 3), slice(0, 2)), v)),
    ),
    Case(
        "dynamic_update_",
        lambda x, i, v: ops.dynamic_update_(x, i, v, [0], [2], True),
        [ROWS, np.int32([2]), rand(2, 3)],
        with_rows(lambda x, i, v: x.__setitem__(slice(2, 4), v)),
    ),
    Case(
        "onehot",
        lambda t, v: ops.onehot(t, 4, v, -1),
        [np.int32([1, -1, 0]), np.float32([-1, 2])],
        lambda t, v: np.where(np.eye(4)[t % 4], v[1], v[0]).astype(np.float32),
    ),
    Case(
        "onehot in front",
        lambda t, v: ops.onehot(t, 3, v, 0),
        [np.int32([[1, 2, 0]]), np.float32([0, 1])],
        lambda t, v: np.eye(3, dtype=np.float32)[t].transpose(2, 0, 1),
    ),
]
