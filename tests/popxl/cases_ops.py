"""Cases of PopXL ops: one row per op, with its call, its inputs, and NumPy's result.

`torch` names the same function in torch where gradients are compared as well.
"""

import inspect
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import popxl
import torch
from popxl import ops
from popxl.ops import elementwise

_random = np.random.default_rng(11)


def rand(*shape, low=-2.0, high=2.0):
    return _random.uniform(low, high, shape).astype(np.float32)


def ints(*shape, low=-5, high=6):
    return _random.integers(low, high, shape).astype(np.int32)


@dataclass
class Case:
    name: str
    op: Any  # of tensors
    inputs: list
    numpy: Any  # of arrays: an array, or several
    torch: Any = None  # of torch tensors, to compare gradients with
    tolerance: float = 2e-5
    dtypes: list = field(default_factory=list)  # of the results, where NumPy's differ

    def __str__(self):
        return self.name


def _torch(name):
    return lambda *x: getattr(__import__("torch"), name)(*x)


def _functional(name, **more):
    return lambda *x: getattr(__import__("torch").nn.functional, name)(*x, **more)


X, Y, POSITIVE = rand(3, 4), rand(3, 4), rand(3, 4, low=0.2, high=3.0)
EDGES = np.float32([0.0, -1.5, np.inf, -np.inf, np.nan, 2.5])
INTS, DIVISORS = ints(3, 4), np.where(ints(3, 4) == 0, 2, ints(3, 4, low=1)).astype(np.int32)
BITS, MORE = ints(3, 4) > 0, ints(3, 4) > 0


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def _plain():
    """Makes cases of functions of one tensor that torch and NumPy, or torch alone, name equally."""
    for name, op in vars(elementwise).items():
        function = getattr(torch, name, None)
        if "_" in (name[0], name[-1]) or not function or not inspect.isfunction(op):
            continue
        if list(inspect.signature(op).parameters) != ["t"]:
            continue
        domains = (X, POSITIVE, POSITIVE + 1)
        values = next(d for d in domains if function(torch.tensor(d)).isfinite().all())
        result = function(torch.tensor(values, requires_grad=True))
        numpy = getattr(np, name, None) or (lambda x, f=function: f(torch.tensor(x)).numpy())
        inputs = [values if result.is_floating_point() else EDGES]
        yield Case(name, op, inputs, numpy, function if result.requires_grad else None)


ELEMENTWISE = [
    *_plain(),
    Case("sign", ops.sign, [EDGES], lambda x: np.nan_to_num(np.sign(x), nan=0)),
    Case("sign ints", ops.sign, [INTS], np.sign),
    Case("negate", ops.negate, [X], np.negative, _torch("neg")),
    Case("exp_", ops.exp_, [X], np.exp),
    Case("logical_not", ops.logical_not, [BITS], np.logical_not),
    Case("logical_not ints", ops.logical_not, [INTS], np.logical_not),
    Case(
        "clip",
        lambda x: ops.clip(x, -0.5, 0.7),
        [X],
        lambda x: np.clip(x, -0.5, 0.7),
        lambda x: x.clamp(-0.5, 0.7),
    ),
    Case("clip below", lambda x: ops.clamp(x, 0.1), [X], lambda x: np.maximum(x, 0.1)),
    Case("increment_mod", lambda x: ops.increment_mod(x, 3, 7), [INTS], lambda x: (x + 3) % 7),
    Case("increment_mod_", lambda x: ops.increment_mod_(x, 3, 7), [INTS], lambda x: (x + 3) % 7),
    Case("identity", ops.identity, [X], lambda x: x, lambda x: x * 1),
    Case("detach_", ops.detach_, [X], lambda x: x),
    Case("cast", lambda x: ops.cast(x, popxl.int32), [X], lambda x: x.astype(np.int32)),
    Case("cast half", lambda x: ops.cast(x, popxl.float16), [X], lambda x: x.astype(np.float16)),
    Case("relu_", ops.relu_, [X], lambda x: np.maximum(x, 0)),
    Case("gelu", ops.gelu, [X], gelu, _functional("gelu", approximate="tanh")),
    Case("gelu_", ops.gelu_, [X], gelu),
    Case(
        "geluerf",
        ops.geluerf,
        [X],
        lambda x: 0.5 * x * (1 + np.vectorize(__import__("math").erf)(x / np.sqrt(2))),
        _functional("gelu"),
    ),
    Case("swish", ops.swish, [X], lambda x: x / (1 + np.exp(-x)), _functional("silu")),
    Case("swish_", ops.swish_, [X], lambda x: x / (1 + np.exp(-x))),
    Case(
        "softmax",
        lambda x: ops.softmax(x, -1),
        [X],
        lambda x: softmax(x, -1),
        lambda x: x.softmax(-1),
    ),
    Case(
        "softmax of the first axis",
        lambda x: ops.softmax(x, 0),
        [X],
        lambda x: softmax(x, 0),
        lambda x: x.softmax(0),
    ),
]

BINARY = [
    Case("add", ops.add, [X, Y], np.add, _torch("add")),
    Case("add row", ops.add, [X, rand(4)], np.add, _torch("add")),
    Case("add_", ops.add_, [X, Y], np.add),
    Case("sub", ops.sub, [X, rand(3, 1)], np.subtract, _torch("sub")),
    Case("mul", ops.mul, [X, Y], np.multiply, _torch("mul")),
    Case("div", ops.div, [X, POSITIVE], np.divide, _torch("div")),
    Case("div ints", ops.div, [INTS, DIVISORS], np.floor_divide),
    Case("fmod", ops.fmod, [X, POSITIVE], np.fmod),
    Case("fmod ints", ops.fmod, [INTS, DIVISORS], np.fmod),
    Case("pow", ops.pow, [POSITIVE, Y], np.power, _torch("pow"), 1e-4),
    Case("pow of a number", lambda x: ops.pow(x, 3.0), [X], lambda x: x**3, lambda x: x**3, 1e-4),
    Case(
        "maximum",
        lambda *x: ops.maximum(*x),
        [X, Y, POSITIVE],
        lambda a, b, c: np.max([a, b, c], 0),
    ),
    Case("maximum of two", ops.maximum, [X, Y], np.maximum, _torch("maximum")),
    Case("equal", ops.equal, [INTS, DIVISORS], np.equal),
    Case("greater", ops.greater, [X, Y], np.greater),
    Case("logical_and", ops.logical_and, [BITS, MORE], np.logical_and),
    Case("logical_or ints", ops.logical_or, [INTS, DIVISORS], np.logical_or),
    Case("where", ops.where, [BITS, X, Y], np.where, _torch("where")),
    Case(
        "scaled_add",
        lambda x, y: ops.scaled_add(x, y, 2.0, -0.5),
        [X, Y],
        lambda x, y: 2 * x - 0.5 * y,
        lambda x, y: 2 * x - 0.5 * y,
    ),
    Case(
        "scaled_add by tensors",
        lambda x, y, a, b: ops.scaled_add(x, y, a, b),
        [X, Y, rand(), rand()],
        lambda x, y, a, b: a * x + b * y,
        lambda x, y, a, b: a * x + b * y,
    ),
    Case(
        "scaled_add_ of another dtype",
        lambda x, y: ops.scaled_add_(x, y, b=0.5),
        [X, Y.astype(np.float16)],
        lambda x, y: x + np.float32(0.5) * y.astype(np.float32),
    ),
]

OPERATORS = [
    Case("+ number", lambda x: 1 + x + 2.5, [X], lambda x: x + 3.5),
    Case("- number", lambda x: 1 - (x - 2.0), [X], lambda x: 3 - x),
    Case("* /", lambda x: 2 * x / 4, [X], lambda x: x / 2),
    Case("number / x", lambda x: 1.0 / x, [POSITIVE], lambda x: 1 / x),
    Case("**", lambda x: 2.0 ** (x**2.0), [X], lambda x: 2 ** (x**2), tolerance=1e-4),
    Case("%", lambda x: x % 1.0, [X], lambda x: np.fmod(x, 1)),
    Case("@", lambda x, y: x @ y.T, [X, Y], lambda x, y: x @ y.T),
    Case("& | ~", lambda x, y: (x & y) | ~x, [BITS, MORE], lambda x, y: (x & y) | ~x),
    Case("array + x", lambda x: X + x, [Y], lambda x: X + x),
    Case("[int]", lambda x: x[1], [X], lambda x: x[1]),
    Case("[-1]", lambda x: x[-1, 2], [X], lambda x: x[-1, 2]),
    Case("[slice]", lambda x: x[1:, :-1], [X], lambda x: x[1:, :-1]),
    Case("[step]", lambda x: x[:, 1::2], [X], lambda x: x[:, 1::2]),
    Case("[ints]", lambda x: x[np.int32([2, 0])], [X], lambda x: x[[2, 0]]),
    Case("[mask]", lambda x, m: x[m], [X, BITS], lambda x, m: np.where(m, x, 0)),
    Case("diag", lambda x: x.diag(), [X], np.diag),
]

SHAPES = [
    Case(
        "reshape",
        lambda x: ops.reshape(x, (2, -1)),
        [X],
        lambda x: x.reshape(2, 6),
        lambda x: x.reshape(2, 6),
    ),
    Case("flatten", ops.flatten, [X], np.ravel),
    Case("squeeze", ops.squeeze, [rand(1, 3, 1)], np.squeeze),
    Case("squeeze one", lambda x: ops.squeeze(x, [0]), [rand(1, 3, 1)], lambda x: x[0]),
    Case("transpose", ops.transpose, [rand(2, 3, 4)], np.transpose, lambda x: x.permute(2, 1, 0)),
    Case(
        "transpose to an order",
        lambda x: ops.transpose(x, (1, 0, 2)),
        [rand(2, 3, 4)],
        lambda x: x.transpose(1, 0, 2),
    ),
    Case(
        "concat",
        lambda x, y: ops.concat([x, y], 1),
        [X, rand(3, 2)],
        lambda x, y: np.concatenate([x, y], 1),
        lambda x, y: __import__("torch").cat([x, y], 1),
    ),
    Case("split", lambda x: ops.split(x, 2, 1), [X], lambda x: np.split(x, 2, 1)),
    Case(
        "split to sizes",
        lambda x: ops.split(x, [1, 2], 0),
        [X],
        lambda x: np.split(x, [1]),
        lambda x: x.split([1, 2]),
    ),
    Case(
        "slice",
        lambda x: ops.slice(x, 1, 3, axis=1),
        [X],
        lambda x: x[:, 1:3],
        lambda x: x[:, 1:3],
    ),
    Case("slice backwards", lambda x: ops.slice(x, [2], [0], [-1], [0]), [X], lambda x: x[2:0:-1]),
    Case("slice_", lambda x: ops.slice_(x, [1, 0], [3, 2]), [X], lambda x: x[1:3, :2]),
    Case("subsample", lambda x: ops.subsample(x, [2, 3]), [X], lambda x: x[::2, ::3]),
]

REDUCTIONS = [
    case
    for name, function, extra in [
        ("sum", np.sum, "sum"),
        ("mean", np.mean, "mean"),
        ("max", np.max, "amax"),
        ("min", np.min, "amin"),
        ("prod", np.prod, None),
        ("sumsquare", lambda x, **k: np.sum(x * x, **k), None),
        ("l1", lambda x, **k: np.sum(np.abs(x), **k), None),
        ("l2", lambda x, **k: np.sqrt(np.sum(x * x, **k)), None),
    ]
    for case in [
        Case(name, getattr(ops, name), [X], function),
        Case(
            f"{name} of an axis",
            lambda x, name=name: getattr(ops, name)(x, -1, keepdims=True),
            [X],
            lambda x, f=function: f(x, axis=-1, keepdims=True),
            extra and (lambda x, e=extra: getattr(__import__("torch"), e)(x, -1, keepdim=True)),
        ),
        Case(
            f"{name} of axes",
            lambda x, name=name: getattr(ops, name)(x, (0, 2)),
            [rand(2, 3, 2)],
            lambda x, f=function: f(x, axis=(0, 2)),
        ),
    ]
] + [
    Case("lamb_square", ops.lamb_square, [X], lambda x: np.sum(x * x)),
    Case("logsum", lambda x: ops.logsum(x, 0), [POSITIVE], lambda x: np.log(x.sum(0))),
    Case(
        "logsumexp",
        lambda x: ops.logsumexp(x, 1),
        [X],
        lambda x: np.log(np.exp(x).sum(1)),
        lambda x: x.logsumexp(1),
    ),
    Case(
        "median",
        lambda x: ops.median(x, 1),
        [rand(3, 5)],
        lambda x: (np.median(x, 1), np.argsort(x, 1)[:, 2]),
        dtypes=["float32", "int32"],
    ),
    Case(
        "median of all, kept",
        lambda x: ops.median(x, keepdims=True),
        [X],
        lambda x: (np.sort(x, None)[5].reshape(1, 1), np.argsort(x, None)[5].reshape(1, 1)),
        dtypes=["float32", "int32"],
    ),
    Case("argmin", ops.argmin, [X], lambda x: np.argmin(x, 0), dtypes=["int32"]),
    Case(
        "argmax",
        lambda x: ops.argmax(x, 1, True),
        [X],
        lambda x: np.argmax(x, 1)[:, None],
        dtypes=["int32"],
    ),
    Case("cumsum", ops.cumsum, [X], lambda x: np.cumsum(x, 0), lambda x: x.cumsum(0)),
    Case(
        "topk",
        lambda x: ops.topk(x, 2, 1, True, True),
        [X],
        lambda x: (-np.sort(-x, 1)[:, :2], np.argsort(-x, 1)[:, :2]),
        dtypes=["float32", "int32"],
    ),
    Case(
        "histogram",
        lambda x: ops.histogram(x, [-1.0, 0.0, 1.0], False),
        [X],
        lambda x: np.histogram(x, [-np.inf, -1, 0, 1, np.inf])[0],
        dtypes=["uint32"],
    ),
    Case(
        "histogram of absolutes",
        lambda x: ops.histogram(x, [0.5, 1.5], True),
        [X],
        lambda x: np.histogram(np.abs(x), [-np.inf, 0.5, 1.5, np.inf])[0],
        dtypes=["uint32"],
    ),
]
