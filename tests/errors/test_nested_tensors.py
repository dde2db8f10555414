"""Nested tensors are refused by name, with the user's line and a remedy."""

import poptorch
import pytest
import torch
from torch import nested

X = torch.arange(12.0).reshape(3, 4)
ROWS = [X, X[:1]]
STRIDED = nested.nested_tensor(ROWS)
JAGGED = nested.nested_tensor(ROWS, layout=torch.jagged)

USES = {
    "made": lambda x: nested.nested_tensor([x, x[:1]]).to_padded_tensor(0),
    "made of tensors": lambda x: nested.as_nested_tensor([x, x[:1]]).to_padded_tensor(0),
    "made jagged": lambda x: nested.nested_tensor([x, x[:1]], layout=torch.jagged).values(),
    "made of values": lambda x: nested.nested_tensor_from_jagged(x, torch.tensor([0, 2, 3])),
    "narrowed": lambda x: nested.narrow(x, 1, 0, torch.tensor([1, 2, 3]), layout=torch.jagged),
    "operand": lambda x: (STRIDED * x.sum()).to_padded_tensor(0),
    "operand of a list": lambda x: torch.cat([STRIDED, x]),
    "jagged operand": lambda x: (JAGGED * x.sum()).values(),
    "by torch's own operator": lambda x: torch._nested_tensor_from_mask(x[None], x[None, :, 0] > 1),
}


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize("name", USES)
def test_in_forward(name):
    text = r"(?s)nested tensors are not supported.*Pad.*lengths or a mask"
    with pytest.raises(poptorch.Error, match=text) as caught:
        poptorch.inferenceModel(Model(USES[name]))(X)
    assert "test_nested_tensors.py:" in str(caught.value), str(caught.value)


@pytest.mark.parametrize("given", [STRIDED, JAGGED], ids=["strided", "jagged"])
def test_as_an_input(given):
    with pytest.raises(poptorch.Error, match=r"x is a nested tensor.*to_padded_tensor"):
        poptorch.inferenceModel(Model(lambda x: x * 1))(given)


def test_on_the_host_they_work_after_a_refusal():
    with pytest.raises(poptorch.Error):
        poptorch.inferenceModel(Model(USES["made"]))(X)
    assert nested.nested_tensor(ROWS).to_padded_tensor(0).shape == (2, 3, 4)
    assert (JAGGED * 2).values().shape == (4, 4)
