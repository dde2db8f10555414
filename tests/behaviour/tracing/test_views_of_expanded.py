"""Writes through views of tensors that repeat elements: allowed where the view has each once."""

import poptorch
import pytest
import torch
from torch import nn
from tracer_case import compare_inference, compare_training, seeded

X = seeded(lambda: torch.randn(3, 4))


class Model(nn.Module):
    """`function` gets a value that depends on a weight and on the input."""

    def __init__(self, function):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 4))
        self.function = function

    def forward(self, x):
        return self.function(x * self.weight)


def row_of_rows(h):
    b = (h * 1)[:1].expand(3, 4)
    b[1].mul_(h[2])
    return b * 1, h * 2


def slice_of_rows(h):
    b = h[:1].expand(3, 4)
    b[1:2, ::2].add_(h[1:2, 1::2])
    return b * 1, h * 2


def column_of_columns(h):
    b = h[:, :1].expand(3, 4)
    b[:, 2].mul_(3)
    return b * 1, h * 2


def new_dimension(h):
    b = h.expand(2, 3, 4)
    b[1].copy_(h.flip(0) * 2)
    return b * 1, h * 2


def assigned(h):
    b = (h * 1)[0].expand(5, 4)
    b[4] = h[1] * h[2]
    return b.sum(0), h * 2


def transposed(h):
    b = (h * 1)[:1].expand(3, 4).t()
    b[:, 1].mul_(h[2])
    return b * 1, h * 2


def twice_expanded(h):
    b = (h * 1)[:1, :1].expand(3, 1).unsqueeze(-1).expand(3, 1, 2)
    b[2, :, 0].mul_(h[1, :1])
    return b * 1, h * 2


def narrowed(h):
    b = h[:1].expand(3, 4).narrow(0, 1, 1)
    b.exp_()
    return b * 1, h * 2


def windows(h):
    b = (h * 1).unfold(1, 2, 1)
    b[:, 0].mul_(h[:, 1:3])
    return b * 1, h * 2


def overlapping_rows(h):
    h = h * 1
    h.as_strided((3, 2), (1, 1))[:, 0].mul_(2)
    return h * h


FUNCTIONS = [
    row_of_rows,
    slice_of_rows,
    column_of_columns,
    new_dimension,
    assigned,
    transposed,
    twice_expanded,
    narrowed,
    windows,
    overlapping_rows,
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_in_training(function):
    compare_training(Model(function), X)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_in_inference(function):
    compare_inference(Model(function), X)


@pytest.mark.parametrize(
    "write",
    [
        lambda h: h[:1].expand(3, 4).mul_(2),
        lambda h: h[:1].expand(3, 4)[1:].mul_(2),
        lambda h: h[:, :1].expand(3, 4)[0, 1:].zero_(),
        lambda h: h.expand(2, 3, 4).copy_(torch.ones(2, 3, 4)),
        lambda h: (h * 1).as_strided((3, 2), (1, 1)).mul_(2),
    ],
)
def test_views_that_repeat_elements_are_refused(write):
    with pytest.raises(poptorch.Error, match=r"Clone it first\. \(\S*test_views_of_expanded"):
        poptorch.inferenceModel(Model(write))(X)
