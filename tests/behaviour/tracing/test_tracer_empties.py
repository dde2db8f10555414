"""Operations on tensors without elements inside a model give torch's results."""

import poptorch
import pytest
import torch
from torch import nn
from tracer_case import compare_inference, compare_training, seeded

X = torch.arange(12.0).reshape(3, 4)


def growing_list(x):
    rows = torch.empty(0, 4)
    for i in range(3):
        rows = torch.cat([rows, x[i : i + 1] * i])
    return rows


CASES = {
    "sum": lambda x: x[:0].sum() + x,
    "mean": lambda x: x[:, :0].mean(),
    "prod": lambda x: x[:0].prod(0) * x,
    "cat": lambda x: torch.cat([x[:0], x, torch.empty(0)]),
    "growing_list": growing_list,
    "inner_size_0": lambda x: x[:, :0] @ torch.ones(0, 2),
    "index": lambda x: x[torch.tensor([], dtype=torch.long)].sum(1).sum() + x,
    "index_add": lambda x: x.index_add(0, torch.tensor([], dtype=torch.long), torch.ones(0, 4)),
    "write": lambda x: x.clone().index_fill_(0, torch.tensor([], dtype=torch.long), 3.0),
    "views": lambda x: x[:0].reshape(0, 2, 2).transpose(1, 2).flatten().sum() + x,
    "shift_of_nothing": lambda x: x[:0].roll(2, 0).sum() + x,
    "returned": lambda x: (x[:, :0], x + 1),
    "linear": lambda x: nn.functional.linear(x[:0], torch.ones(2, 4)).sum() + x,
    "any": lambda x: x[:0].bool().any() | x[:0].bool().all(),
}


@pytest.mark.parametrize("function", CASES.values(), ids=CASES.keys())
def test_in_inference(function):
    compare_inference(function, X)


class Model(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.function = function

    def forward(self, x):
        return self.function(self.fc(x))


@pytest.mark.parametrize("name", ["cat", "growing_list", "index_add", "inner_size_0", "sum"])
def test_in_training(name):
    def function(h):
        return h + CASES[name](h).sum()

    compare_training(seeded(lambda: Model(function)), X)


def test_state_without_elements():
    model = seeded(lambda: Model(lambda h: h))
    model.register_buffer("nothing", torch.empty(0, 4))
    model.function = lambda h: torch.cat([model.nothing, h])
    compare_inference(model, X)


def test_inputs_are_refused():
    wrapped = poptorch.inferenceModel(lambda x: x * 2)
    with pytest.raises(poptorch.Error, match=r"Zero-sized tensors are unsupported \(Got shape"):
        wrapped(torch.empty(0, 3))


def test_sizes_that_values_decide_are_refused():
    wrapped = poptorch.inferenceModel(lambda x, n: x.repeat_interleave(n, 0))
    with pytest.raises(poptorch.Error, match="output shape is determined at runtime"):
        wrapped(X, torch.tensor([1, 2, 0]))
