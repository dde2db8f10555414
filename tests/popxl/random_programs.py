"""Makes random programs as data, and runs them in PopXL and in NumPy.

A program is a body: a list of steps on a growing list of 3 x 3 tensors. In the NumPy run, views are
NumPy's views, and by-reference arguments are the arrays themselves.
"""

import random
from dataclasses import dataclass

import numpy as np
import popxl
from popxl import ops

SIZE = 3
SHAPE = (SIZE, SIZE)


def np_softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# Values stay small: products are squashed, so that long programs do not overflow.
UNARY = {
    "tanh": (ops.tanh, np.tanh),
    "negate": (ops.negate, np.negative),
    "abs": (ops.abs, np.abs),
    "relu": (ops.relu, lambda x: np.maximum(x, 0)),
    "sin": (ops.sin, np.sin),
    "softmax": (lambda t: ops.softmax(t, -1), np_softmax),
    "transpose": (ops.transpose, lambda x: x.T.copy()),
    "row means": (
        lambda t: t - ops.mean(t, 0, keepdims=True),
        lambda x: x - x.mean(0, keepdims=True),
    ),
    "reversed": (lambda t: ops.slice(t, step=-1, axis=0), lambda x: x[::-1].copy()),
}
BINARY = {
    "add": (lambda a, b: (a + b) * 0.5, lambda a, b: (a + b) * np.float32(0.5)),
    "sub": (lambda a, b: (a - b) * 0.5, lambda a, b: (a - b) * np.float32(0.5)),
    "mul": (ops.mul, np.multiply),
    "maximum": (ops.maximum, np.maximum),
    "matmul": (lambda a, b: ops.tanh(a @ b), lambda a, b: np.tanh(a @ b)),
    "concat": (
        lambda a, b: ops.concat([a[:1], b[1:]], 0),
        lambda a, b: np.concatenate([a[:1], b[1:]], 0),
    ),
}
INTO = {
    "relu_": (ops.relu_, lambda x: np.copyto(x, np.maximum(x, 0))),
    "scale_": (
        lambda t: ops.var_updates.accumulator_scale_(t, 0.5),
        lambda x: np.copyto(x, x * np.float32(0.5)),
    ),
}
INTO_FROM = {
    "scaled_add_": (
        lambda a, b: ops.scaled_add_(a, b, 0.5, 0.25),
        lambda a, b: np.copyto(a, np.float32(0.5) * a + np.float32(0.25) * b),
    ),
    "add small_": (
        lambda a, b: ops.scaled_add_(a, ops.tanh(b), b=0.125),
        lambda a, b: np.copyto(a, a + np.float32(0.125) * np.tanh(b)),
    ),
    "moving average_": (
        lambda a, b: ops.var_updates.accumulate_moving_average_(a, b, 0.75),
        lambda a, b: np.copyto(a, np.float32(0.75) * a + np.float32(0.25) * b),
    ),
}
VIEWS = {
    "T_": (ops.transpose_, lambda x: x.T),
    "slice_": (lambda t: ops.slice_(t, [0, 0], list(SHAPE)), lambda x: x[:, :]),
}


TABLES = {
    "unary": UNARY,
    "binary": BINARY,
    "into": INTO,
    "into from": INTO_FROM,
    "view": VIEWS,
}
KINDS = [*TABLES, "binary", "call", "loop"]


@dataclass
class Body:
    by_ref: list[bool]  # of the inputs
    steps: list[tuple]  # (kind, name or (Body, rounds), operands)
    outputs: list[int]


def make_body(rng, input_count, length, depth, outputs=None):
    """Makes a random body; bodies that it calls are one level deeper."""
    by_ref = [rng.random() < 0.4 for _ in range(input_count)]
    steps, count = [], input_count
    for _ in range(length):
        kind = rng.choice(
            ["unary", "binary", "binary", "into", "into from", "view", "call", "loop"]
        )
        if kind in ("call", "loop") and depth == 0:
            kind = "binary"
        if kind in ("call", "loop"):
            results = rng.randint(1, 2)
            body = make_body(
                rng, results + rng.randint(0, 2), rng.randint(2, 5), depth - 1, results
            )
            if kind == "loop":  # carried values are passed by value
                body.by_ref[:results] = [False] * results
            operands = [rng.randrange(count) for _ in body.by_ref]
            steps.append((kind, (body, rng.randint(1, 3)), operands))
            count += results
            continue
        operands = [rng.randrange(count) for _ in range(1 + (kind in ("binary", "into from")))]
        steps.append((kind, rng.choice(list(TABLES[kind])), operands))
        count += kind not in ("into", "into from")
    wanted = outputs or 2
    return Body(by_ref, steps, [rng.randrange(count) for _ in range(wanted)])


def _overlap(roots, operands, by_ref):
    """Returns whether a by-reference operand shares memory with another by-reference one."""
    written = [roots[o] for o, r in zip(operands, by_ref, strict=True) if r]
    return len(set(written)) != len(written)


def fix_references(body):
    """Passes values by value that would be passed by reference twice."""
    roots = list(range(len(body.by_ref)))
    for kind, name, operands in body.steps:
        if kind in ("call", "loop"):
            inner = name[0]
            while _overlap(roots, operands, inner.by_ref):
                inner.by_ref[inner.by_ref.index(True)] = False
            fix_references(inner)
            roots += [len(roots) + i for i in range(len(inner.outputs))]
        elif kind == "view":
            roots.append(roots[operands[0]])
        elif kind in ("unary", "binary"):
            roots.append(len(roots))
    return body


def run_numpy(body, arrays):
    """Returns the outputs; arrays passed by reference are changed."""
    values = [a if r else a.copy() for a, r in zip(arrays, body.by_ref, strict=True)]
    for kind, name, operands in body.steps:
        given = [values[i] for i in operands]
        if kind == "call":
            values += run_numpy(name[0], given)
        elif kind == "loop":
            inner, rounds = name
            carried = [a.copy() for a in given[: len(inner.outputs)]]
            held = [a if r else a.copy() for a, r in zip(given, inner.by_ref, strict=True)][
                len(carried) :
            ]
            for _ in range(rounds):
                carried = run_numpy(inner, [*carried, *held])
            values += carried
        else:
            result = TABLES[kind][name][1](*given)
            if kind not in ("into", "into from"):
                values.append(result)
    return [values[i].copy() for i in body.outputs]


def write_popxl(body, tensors):
    """Makes the body's ops in the current graph; returns its outputs."""
    values = list(tensors)
    for kind, name, operands in body.steps:
        given = [values[i] for i in operands]
        if kind in ("call", "loop"):
            inner, rounds = name
            graph = make_graph(inner)
            if kind == "call":
                values += ops.call(graph, *given)
            else:
                values += ops.repeat(graph, rounds, *given)
        else:
            result = TABLES[kind][name][0](*given)
            if kind not in ("into", "into from"):
                values.append(result)
    return [values[i] for i in body.outputs]


def make_graph(body):
    graph = popxl.gir().create_empty_graph("body")
    with graph:
        inputs = [
            popxl.graph_input(SHAPE, popxl.float32, f"x{i}", by_ref=r)
            for i, r in enumerate(body.by_ref)
        ]
        for output in write_popxl(body, inputs):
            popxl.graph_output(output)
    return graph


def compare(seed):
    """Runs one random program twice, on the same variables: in PopXL and in NumPy."""
    rng = random.Random(seed)
    body = make_body(rng, 3, rng.randint(4, 12), 2)
    body.by_ref = [True, True, False]  # two variables and a stream
    fix_references(body)
    numbers = np.random.default_rng(seed)
    state = [numbers.uniform(-1, 1, SHAPE).astype(np.float32) for _ in range(2)]
    data = [numbers.uniform(-1, 1, SHAPE).astype(np.float32) for _ in range(2)]

    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        variables = [popxl.variable(a, name=f"v{i}") for i, a in enumerate(state)]
        stream = popxl.h2d_stream(SHAPE, popxl.float32, "x")
        outs = []
        for output in write_popxl(body, [*variables, ops.host_load(stream)]):
            outs.append(popxl.d2h_stream(SHAPE, popxl.float32))
            ops.host_store(outs[-1], output)
    with popxl.Session(ir) as session:
        for x in data:
            got = session.run({stream: x})
            right = run_numpy(body, [*state, x])
            for out, expected in zip(outs, right, strict=True):
                np.testing.assert_allclose(got[out], expected, rtol=2e-3, atol=2e-4)
        for variable, expected in zip(variables, state, strict=True):
            found = session.get_tensor_data(variable)
            np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-4)
