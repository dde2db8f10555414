"""A constant argument that changed is described by its differences, never by two addresses."""

import re

import poptorch
import pytest
import torch

X = torch.ones(2)


class Model(torch.nn.Module):
    def forward(self, x, setting):
        return x * 2


class Settings:
    def __init__(self, size, kind=None):
        self.size, self.kind = size, kind


class Empty:
    pass


def double(x):
    return x * 2


def triple(x):
    return x * 3


CHANGES = {
    "attribute": (Settings(1), Settings(2), "setting.size: expected 1 but got 2"),
    "nested": (
        Settings(1, Settings(2)),
        Settings(1, Empty()),
        r"setting.kind: expected \S* \S*Settings\S* but got \S* \S*Empty",
    ),
    "without attributes": (object(), object(), "builtins.object of the first call"),
    "functions": (
        double,
        triple,
        r"expected double \(\S*test_changed_constants.py:\d+\) but got triple \(\S*:\d+\)",
    ),
    "inside": ([1, Settings(1)], [1, Settings(3)], r"setting\[1\].size: expected 1 but got 3"),
    "methods": (Settings(1).__init__, Settings(2).__init__, r"Settings.__init__ \(\S*:\d+\)"),
    "numbers": (2, 3, "expected 2 but got 3. Pass a tensor for a number"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_difference_is_named(name):
    first, second, text = CHANGES[name]
    wrapped = poptorch.inferenceModel(Model())
    wrapped(X, first)
    with pytest.raises(poptorch.Error, match=text) as caught:
        wrapped(X, second)
    assert not re.search(r"0x[0-9a-f]{4}", str(caught.value)), str(caught.value)
