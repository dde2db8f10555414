"""Tests host tensors that a traced model uses and that are not inputs, parameters or buffers."""

import poptorch
import pytest
import torch
from torch import nn

THREE = torch.tensor(3)
ROW = torch.tensor([1.0, 2.0, 3.0])
HELD = [torch.tensor([2, 5])]
LONG = torch.arange(8.0)

X = torch.arange(12.0).reshape(3, 4)


def _counts(x):
    seen = torch.LongTensor([0, 0])
    seen[1] += 4
    seen += 1
    return x * int(seen.sum())


def _writes(x):
    table = torch.FloatTensor([1, 2, 3])
    table[table > 1] = 0.5
    return x * table.sum().item() + table[1:].tolist()[0]


VALUES = {
    "item": lambda x: x * THREE.item(),
    "int": lambda x: x * int(THREE),
    "if": lambda x: x + 1 if THREE > 2 else x - 1,
    "truth": lambda x: x + 1 if (ROW == 2).any() else x - 1,
    "arithmetic": lambda x: x * ((THREE * 2 + 1) % 4).item(),
    "slice": lambda x: x.flatten()[THREE : THREE + 2],
    "range": lambda x: sum(x[i % 3] for i in range(THREE)),
    "size": lambda x: x.reshape(THREE, -1) * x.new_full((THREE, 1), 2.0),
    "plain list": lambda x: x[:, HELD[0][0] :] * HELD[0].float().mean().item(),
    "tolist": lambda x: x * sum(ROW.tolist()),
    "numpy": lambda x: x * float(ROW.numpy().sum()),
    "views": lambda x: x * ROW[1:].reshape(2, 1).sum().item(),
    "dynamic shape": lambda x: x * ROW[ROW > 1].numel() + len(torch.nonzero(ROW)),
    "matrix": lambda x: x * (LONG.reshape(2, 4) @ LONG[:4]).max().item(),
    "equal": lambda x: x + torch.equal(ROW, ROW.clone()) + torch.allclose(ROW, ROW + 1),
    "without dimensions": lambda x: x * THREE + ROW.sum(),
    "number": lambda x: torch.add(x, 1, alpha=THREE.item()),
    "to the device": lambda x: x[:, :3] * ROW.to(x.device) + (ROW * 2).to(x),
    "copied": lambda x: x[:, :3].clone().copy_(ROW) + x[:, :3],
    "legacy constructor": _counts,
    "written on the host": _writes,
    "gradient": lambda x: x * (ROW.clone().requires_grad_() * 2).sum().item(),
    "printed": lambda x: x * len(str(ROW)),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_are_known(name):
    function = VALUES[name]
    found = poptorch.inferenceModel(function)(X)
    torch.testing.assert_close(found, function(X), check_dtype=False)


MIXED = {
    "closure": lambda x: x[:, :3] + ROW,
    "computed": lambda x: x[:, :3] + ROW * 2,
    "left": lambda x: ROW * x[:, :3],
    "plain list": lambda x: x[:, :2] * HELD[0],
    "written": lambda x: ROW.clone().add_(x[0, :3]),
    "copied to": lambda x: ROW.clone().copy_(x[0, :3]),
    "stacked": lambda x: torch.stack([x[0, :3], ROW]),
    "in a loop": lambda x: poptorch.for_loop(2, lambda y: y + ROW, [x[0, :3]]),
    "into a loop": lambda x: poptorch.for_loop(2, lambda y: y * 2, [ROW]),
}


@pytest.mark.parametrize("name", MIXED)
def test_mixing_is_refused(name):
    text = r"Expected an IPU tensor but got tensor\(device=cpu, shape=\[\d\], dtype=\w+\)"
    with pytest.raises(poptorch.Error, match=text):
        poptorch.inferenceModel(MIXED[name])(X)


def test_what_the_host_computes_stays_there():
    def model(x):
        y = ROW * 2
        assert y.device.type == "cpu" and y[1:].device.type == "cpu"
        assert ROW.to(x.device).device.type == x.device.type
        return x, y

    with pytest.warns(UserWarning, match="Output expected to be on the IPU but is on cpu"):
        _, y = poptorch.inferenceModel(model)(X)
    assert y.tolist() == [2, 4, 6]


class Held(nn.Module):
    """Has attributes that are neither parameters nor buffers."""

    def __init__(self):
        super().__init__()
        self.row = torch.tensor([1.0, 2.0, 3.0, 4.0])
        self.count = torch.tensor(2)
        self.inner = nn.Identity()
        self.inner.table = torch.arange(4.0)

    def forward(self, x):
        self.row[1] = 7
        return x * self.row + self.inner.table[1:].sum() + self.count.item()


def test_attributes_are_constants():
    held = Held()
    wrapped = poptorch.inferenceModel(held)
    for _ in range(2):
        torch.testing.assert_close(wrapped(X), X * torch.tensor([1.0, 7, 3, 4]) + 8)
    assert held.row.tolist() == [1, 7, 3, 4]


NORM = nn.BatchNorm1d(4).eval()


class Owner:
    def __init__(self):
        self.fc = nn.Linear(4, 2)

    def method(self, x):
        return self.fc(x)


def test_modules_in_closures_are_constants():
    fc = nn.Linear(4, 3)
    with torch.no_grad():
        NORM.running_mean.copy_(torch.arange(4.0))
    held = Held()
    for function in (lambda x: fc(NORM(x)), Owner().method, held.forward, fc.forward):
        wrapped = poptorch.inferenceModel(function)
        torch.testing.assert_close(wrapped(X), function(X).detach())


class Sampled(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = torch.full((1000,), 0.5)

    def forward(self, x):
        return torch.bernoulli(self.p) + x


def test_random_numbers_are_the_devices():
    half, dist = torch.full((1000,), 0.5), torch.distributions.Normal(0.0, 1.0)

    def model(x):
        drawn = [torch.bernoulli(half), torch.rand_like(half), torch.dropout(half, 0.5, True)]
        return [x + y for y in (*drawn, dist.sample())]

    wrapped = poptorch.inferenceModel(model)
    for first, second in zip(wrapped(torch.zeros(1)), wrapped(torch.zeros(1)), strict=True):
        assert not torch.equal(first, second)


def test_attributes_as_probabilities():
    wrapped = poptorch.inferenceModel(Sampled())
    first, second = wrapped(torch.zeros(1000)), wrapped(torch.zeros(1000))
    assert not torch.equal(first, second) and 400 < first.sum() < 600
