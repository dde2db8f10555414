"""Ops that compute in steps take a launch, exchange and two syncs in each step."""

import poptorch
import pytest
import torch
from poptorch_core import _core

SYNC = next(value for name, value, *_ in _core.cost_constants() if name == "sync")


class Applied(torch.nn.Module):
    """Applies a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def steps_of(model, *inputs):
    """Returns the steps of the op with the most syncs: two a step, one of the first less."""
    options = poptorch.Options().useOfflineIpuTarget(2)
    wrapped = poptorch.inferenceModel(model, options)
    wrapped.compile(*inputs)
    ops = wrapped.report()["ops"]
    for op in ops:
        terms = ("arithmetic_cycles", "vertex_cycles", "exchange_cycles", "sync_cycles")
        assert abs(sum(op[term] for term in terms) - op["cycles"]) <= 4
    return max(op["sync_cycles"] / op["count"] for op in ops) / SYNC / 2


def recurrent(kind):
    return lambda n: (kind(4, 8), torch.empty(n, 2, 4))


def applied(function, *shape):
    return lambda n: (
        Applied(function), torch.empty([n if size is None else size for size in shape])
    )  # fmt: skip


class Ctc(torch.nn.Module):
    """The loss of two sequences of four labels."""

    def forward(self, x, targets):
        lengths = torch.full((2,), len(x)), torch.full((2,), 4)
        return torch.nn.functional.ctc_loss(x.log_softmax(-1), targets, *lengths)


def ctc(n):
    return Ctc(), torch.empty(n, 2, 5), torch.ones(2, 4, dtype=torch.int32)


def beams(n):
    def decode(x, lengths):
        return poptorch.ctc_beam_search_decoder(x, lengths, beam_width=4)

    return Applied(decode), torch.empty(n, 2, 5), torch.full((2,), n, dtype=torch.int32)


# Steps of an op for each element of the dimension that grows.
LINEAR = {
    "lstm": (recurrent(torch.nn.LSTM), 2),
    "gru": (recurrent(torch.nn.GRU), 2),
    "ctc_loss": (ctc, 1),
    "ctc_beam_search": (beams, 1),
    "fps": (lambda n: (Applied(lambda x: poptorch.fps(x, [0, n], 0.5)), torch.empty(n, 3)), 0.5),
    "cholesky": (applied(torch.linalg.cholesky, None, None), 2),
    "solve_triangular": (
        applied(lambda x: torch.linalg.solve_triangular(x, x, upper=False), None, None), 1
    ),
    "eigh": (applied(torch.linalg.eigvalsh, None, None), 4),
}  # fmt: skip


@pytest.mark.parametrize("name", LINEAR)
def test_steps_grow_with_the_length(name):
    make, each = LINEAR[name]
    found = [steps_of(*make(n)) for n in (64, 128)]
    assert found[1] - found[0] == pytest.approx(64 * each)


@pytest.mark.parametrize("function", [lambda x: x.cumsum(-1), lambda x: x.logcumsumexp(-1)])
def test_a_long_scan_doubles_its_distance_in_each_step(function):
    found = [steps_of(*applied(function, 1, None)(n)) for n in (2**17, 2**18)]
    assert found[1] - found[0] == 1


def test_a_long_sort_merges_in_steps():
    found = [steps_of(*applied(lambda x: x.sort(-1).values, 1, None)(n)) for n in (2**17, 2**18)]
    assert found[1] - found[0] == 18


def test_short_rows_are_scanned_on_their_tiles():
    assert steps_of(*applied(lambda x: x.cumsum(-1), None, 8)(1472)) <= 1


def test_a_gradient_takes_the_steps_of_the_loss_again_and_in_reverse():
    class Trained(Ctc):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(5, 5)

        def forward(self, x, targets):
            return super().forward(self.layer(x), targets)

    _, *inputs = ctc(128)
    wrapped = poptorch.trainingModel(Trained(), poptorch.Options().useOfflineIpuTarget(2))
    wrapped.compile(*inputs)
    syncs = {op["op"]: op["sync_cycles"] for op in wrapped.report()["ops"]}
    assert syncs["aten_vjp"] - syncs["aten"] == pytest.approx(2 * SYNC * 127)
