"""Indices on inner axes read and write what eager torch does, with gradients, without moving x."""

import poptorch
import pytest
import torch

X = torch.arange(120.0).reshape(2, 3, 4, 5)
FIRST, SECOND = torch.tensor([1, 0, -1]), torch.tensor([2, -2, 0])

READS = {
    "second axis": lambda x, i, j: x[:, i],
    "last axis": lambda x, i, j: x[..., j],
    "two neighbours": lambda x, i, j: x[:, i, j],
    "the last two": lambda x, i, j: x[:, :, i, j],
    "a matrix of indices": lambda x, i, j: x[:, i.view(3, 1), j],
    "apart": lambda x, i, j: x[:, i, :, j],
    "beside a new axis": lambda x, i, j: x[:, None, i],
}

WRITES = {
    "index_copy": lambda x, v, i, j: x.index_copy(2, j % 4, v[:, :, :3]),
    "index_copy of the last axis": lambda x, v, i, j: x.index_copy(-1, j % 5, v[..., :3]),
    "second axis": lambda x, v, i, j: x.index_put((torch.arange(2).view(2, 1), i), v[:, :3]),
    "two neighbours": lambda x, v, i, j: put(x, (slice(None), i, j), v[:, 0, :3]),
    "the last axis": lambda x, v, i, j: put(x, (..., j), v[..., :3]),
    "apart": lambda x, v, i, j: put(x, (slice(None), i, slice(None), j), v[0, 0, 0, 0]),
    "a number in a row": lambda x, v, i, j: put(x, 1, v[0, 0, 0, 0]),
    "a number in a slice": lambda x, v, i, j: put(x, (..., slice(1, 3)), v[0, 0, 0, 0]),
    "a number at a mask": lambda x, v, i, j: put(x, x > 60, v[0, 0, 0, 0]),
    "increased": lambda x, v, i, j: increased(x, i, j, v[:, 0, :3]),
}


def put(x, where, value):
    x = x * 1
    x[where] = value
    return x


def increased(x, i, j, value):
    return torch.ops.aten.index_put(x, [None, i, j], value, True)


class Used(torch.nn.Module):
    """Sums squares of what `use` returns, so that each element has its own gradient."""

    def __init__(self, use, *values):
        super().__init__()
        self.use = use
        self.values = torch.nn.ParameterList(torch.nn.Parameter(v.clone()) for v in values)

    def forward(self, i, j):
        y = self.use(*self.values, i, j)
        return y, poptorch.identity_loss(y.square(), reduction="sum")


def check(use, *values):
    ours, eager = Used(use, *values), Used(use, *values)
    wrapped = poptorch.trainingModel(
        ours, optimizer=poptorch.optim.SGD(ours.parameters(), lr=0.125)
    )
    optimiser = torch.optim.SGD(eager.parameters(), lr=0.125)
    y, loss = eager(FIRST, SECOND)
    loss.backward()
    optimiser.step()
    found = wrapped(FIRST, SECOND)
    assert torch.equal(found[0], y)
    wrapped.copyWeightsToHost()
    for ours_value, eager_value in zip(ours.values, eager.values, strict=True):
        torch.testing.assert_close(ours_value.data, eager_value.data)


@pytest.mark.parametrize("name", READS)
def test_reads(name):
    check(READS[name], X)


@pytest.mark.parametrize("name", WRITES)
def test_writes(name):
    check(WRITES[name], X, torch.randn(2, 3, 4, 5))


class Cache(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 2, 8, 4))

    def forward(self, k, position):
        self.keys.index_copy_(2, position, k)
        return self.keys.sum(2), self.keys[:, :, position]


def test_a_cache_grows_by_a_row_in_each_call():
    ours, eager = poptorch.inferenceModel(Cache()), Cache()
    for position in (0, 3, 7, 3):
        arguments = torch.randn(1, 2, 1, 4), torch.tensor([position])
        for found, expected in zip(ours(*arguments), eager(*arguments), strict=True):
            torch.testing.assert_close(found, expected)


def test_a_position_outside_the_axis_writes_nothing():
    ours = poptorch.inferenceModel(Cache())
    total, row = ours(torch.randn(1, 2, 1, 4), torch.tensor([8]))
    assert not total.any()
    assert not row.any()


def test_a_position_outside_the_axis_is_refused_where_indices_are_checked():
    options = poptorch.Options()
    options.Emulator.checkIndices(True)
    ours = poptorch.inferenceModel(Cache(), options)
    with pytest.raises(poptorch.Error, match=r"8 .*not in \[0, 8\)"):
        ours(torch.randn(1, 2, 1, 4), torch.tensor([8]))
