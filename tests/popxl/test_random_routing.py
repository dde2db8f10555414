"""Random programs with tensors that are routed into a called graph afterwards agree with NumPy."""

import random
from collections.abc import Callable

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl._impl.records import of
from popxl.errors import UnsupportedError
from popxl_addons import route_tensor_into_graph

_SIZE, _TRIES = 3, 4


class Program:
    """Tensors of a main graph, each with the function of its value.

    `inner` computes (a + 1) · the routed tensors, and `outer` half of that.
    """

    def __init__(self, seed: int) -> None:
        self.choose, self.feeds, self.routed = random.Random(seed), {}, []
        self.values: dict[popxl.Tensor, Callable[[], np.ndarray]] = {}
        x = self.load()
        ir = popxl.gir()
        self.inner = ir.create_graph(lambda a: a + 1.0, x)
        self.outer = ir.create_graph(lambda a: ops.call(self.inner, a)[0] * 0.5, x)
        self.call()
        kinds = (self.load, self.unary, self.binary, self.call, self.call_outer, self.loop)
        for _ in range(self.choose.randint(3, 9)):
            self.choose.choice((*kinds, self.branch))()

    def any(self) -> popxl.Tensor:
        return self.choose.choice(list(self.values))

    def inside(self, a: np.ndarray) -> np.ndarray:
        out = a + 1
        for t in self.routed:
            out = out * self.values[t]()
        return out

    def load(self) -> popxl.Tensor:
        stream = popxl.h2d_stream((_SIZE,), popxl.float32)
        data = np.float32([self.choose.uniform(-1, 1) for _ in range(_SIZE)])
        self.feeds[stream], t = data, ops.host_load(stream)
        self.values[t] = lambda: data
        return t

    def unary(self) -> None:
        a = self.any()
        self.values[ops.tanh(a)] = lambda: np.tanh(self.values[a]())

    def binary(self) -> None:
        a, b = self.any(), self.any()
        self.values[a * b] = lambda: self.values[a]() * self.values[b]()

    def call(self) -> None:
        a = self.any()
        self.values[ops.call(self.inner, a)[0]] = lambda: self.inside(self.values[a]())

    def call_outer(self) -> None:
        a = self.any()
        self.values[ops.call(self.outer, a)[0]] = lambda: self.inside(self.values[a]()) / 2

    def loop(self) -> None:
        a = self.any()
        self.values[ops.repeat(self.outer, 2, a)[0]] = lambda: (
            self.inside(self.inside(self.values[a]()) / 2) / 2
        )

    def branch(self) -> None:
        a, b, yes = self.any(), self.any(), self.choose.random() < 0.5
        (t,) = ops.conditional(popxl.constant(yes), self.inner, self.outer, [a], [b])
        self.values[t] = lambda: self.inside(self.values[a if yes else b]()) / (1 if yes else 2)

    def route(self) -> None:
        """Routes some tensor; this is refused only if the tensor depends on a call."""
        t = self.any()
        if comes_of_a_call(t):
            with self.inner, pytest.raises(UnsupportedError, match="its value only later"):
                route_tensor_into_graph(t)
            return
        with self.inner:
            more = route_tensor_into_graph(t)
            of(self.inner).set_outputs([self.inner.outputs[0] * more])
        self.routed.append(t)


def comes_of_a_call(t: popxl.Tensor) -> bool:
    op = of(t).producer
    return op is not None and (bool(op.called) or any(comes_of_a_call(i) for i in op.inputs if i))


@pytest.mark.parametrize("seed", range(24))
def test_what_is_routed_is_as_if_it_had_been_passed(seed):
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence(False):
        program = Program(seed)
        for _ in range(_TRIES):
            program.route()
        streams = {t: addons.host_store(t) for t in program.values}
    with popxl.Session(ir, "ipu_hw") as session:
        got = session.run(program.feeds)
    for t, stream in streams.items():
        np.testing.assert_allclose(got[stream], program.values[t](), rtol=1e-3, atol=1e-5)
