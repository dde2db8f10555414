"""Computes the expected values and gradients of collectives by NumPy, from the stacked tensors of a
group.
"""

import numpy as np
import poptorch
from poptorch import distributed

GROUPS = {
    2: [(0, 1), (1, 1)],
    4: [(0, 1), (2, 1), (2, 2), (2, 0)],
    8: [(0, 1), (4, 1), (2, 2), (4, 2), (2, 0), (4, 0)],
}
PLACES = [(replicas, group) for replicas, groups in GROUPS.items() for group in groups]


def members(replicas, group):
    """The replicas of each group, in order."""
    size, stride = group[0] or replicas, group[1]
    stride = stride or replicas // size
    starts = [r for r in range(replicas) if r // stride % size == 0]
    return [[start + i * stride for i in range(size)] for start in starts]


def by_group(replicas, group, stacks, function):
    """Applies `function` to the members' parts of each stack; it returns a list of results by rank.
    Returns all, stacked."""
    out = [None] * replicas
    for of_group in members(replicas, group):
        results = function(*(stack[of_group] for stack in stacks))
        for replica, result in zip(of_group, results, strict=True):
            out[replica] = result
    return np.stack(out)


def reduced(x, op):
    """Reduces x: [members, ...] in float32, and rounds once."""
    wide = x.astype(np.float32)
    return getattr(np, op)(wide, axis=0).astype(x.dtype)


def share(x, dy, op):
    """Returns the gradients of a reduction from the sum of the gradients of its result."""
    if op == "sum":
        return [dy] * len(x)
    if op == "mean":
        return [dy / len(x)] * len(x)
    if op == "prod":
        return [dy * np.prod(np.delete(x, i, 0), axis=0) for i in range(len(x))]
    chosen = x == getattr(np, op)(x, axis=0)
    return list(dy * chosen / chosen.sum(0))


class AllReduce:
    def __init__(self, op):
        self.op = op

    def run(self, x, group):
        return distributed.all_reduce(x, self.op, group)

    def forward(self, x):
        return [reduced(x, self.op)] * len(x)

    def backward(self, x, dy):
        return share(x, dy.sum(0), self.op)


class ReduceScatter:
    def __init__(self, op, dim):
        self.op, self.dim = op, dim

    def run(self, x, group):
        return distributed.reduce_scatter(x, self.op, self.dim, group)

    def forward(self, x):
        return np.split(reduced(x, self.op), len(x), self.dim)

    def backward(self, x, dy):
        return share(x, np.concatenate(dy, self.dim), self.op)


class AllGather:
    def __init__(self, dim):
        self.dim = dim

    def run(self, x, group):
        return distributed.all_gather(x, self.dim, group)

    def forward(self, x):
        return [np.concatenate(x, self.dim)] * len(x)

    def backward(self, x, dy):
        return np.split(dy.sum(0), len(x), self.dim)


class AllToAll:
    def __init__(self, split, concat):
        self.split, self.concat = split, concat

    def run(self, x, group):
        return distributed.all_to_all(x, self.split, self.concat, group)

    def forward(self, x):
        return self.exchanged(x, self.split, self.concat)

    def backward(self, x, dy):
        return self.exchanged(dy, self.concat, self.split)

    @staticmethod
    def exchanged(x, split, concat):
        parts = [np.split(one, len(x), split) for one in x]
        return [np.concatenate([of[i] for of in parts], concat) for i in range(len(x))]


CASES = {
    **{f"all_reduce {op}": AllReduce(op) for op in ("sum", "mean", "min", "max", "prod")},
    "all_gather 0": AllGather(0),
    "all_gather -1": AllGather(-1),
    "reduce_scatter sum 0": ReduceScatter("sum", 0),
    "reduce_scatter mean 1": ReduceScatter("mean", 1),
    "reduce_scatter max -2": ReduceScatter("max", -2),
    "reduce_scatter prod 0": ReduceScatter("prod", 0),
    "all_to_all 0 0": AllToAll(0, 0),
    "all_to_all 0 -1": AllToAll(0, -1),
    "all_to_all 1 0": AllToAll(1, 0),
}


def options_of(replicas, **training):
    """Returns options with so many replicas, and with these options of training."""
    options = poptorch.Options().replicationFactor(replicas).showCompilationProgressBar(False)
    for name, value in training.items():
        getattr(options.Training, name)(value)
    return options


def infer(function, *inputs, replicas=4):
    """Returns the results of a function in each replica."""
    made = poptorch.inferenceModel(function, options_of(replicas))
    return made(*inputs)
