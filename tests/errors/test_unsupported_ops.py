"""One error lists all unsupported ops of a model, with places and counts."""

import re

import poptorch
import pytest
import torch
from torch import nn

HERE = r"\S*test_unsupported_ops\.py:\d+"
BEHIND = r"The trace ended there: later ops were not examined."
LISTED = r"Unsupported ops found in compiled model: \[aten::hash_tensor, aten::_to_sparse\]\."


class Model(nn.Module):
    def __init__(self, end=None):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.end = end

    def forward(self, x, target=None):
        for _ in range(3):
            x = x + torch.hash_tensor(x)
        x = self.fc(x)
        y = x + torch.hash_tensor(x)
        y = y + x.to_sparse().sum()
        if self.end is not None:
            self.end(x)
        return y if target is None else (y, nn.functional.mse_loss(y, target))


def message_of(wrapper, *inputs):
    with pytest.raises(poptorch.Error) as error:
        wrapper(*inputs)
    return error.value.message


@pytest.mark.parametrize("kind", [poptorch.inferenceModel, poptorch.trainingModel])
def test_one_error_lists_all(kind):
    inputs = torch.randn(2, 2, 4).unbind() if kind is poptorch.trainingModel else [torch.ones(2, 4)]
    first, hashes, sparse, *rest = message_of(kind(Model()), *inputs).splitlines()
    assert rest == []
    assert re.fullmatch(LISTED, first)
    assert re.fullmatch(
        rf"  aten::hash_tensor \({HERE}, 3 times; {HERE}\): .* needs integers of 64 bits.*", hashes
    )
    assert re.fullmatch(rf"  aten::_to_sparse \({HERE}\): .* Keep it dense\.", sparse)


def test_what_ends_the_trace_stands_behind_them():
    model = Model(end=lambda x: torch.nonzero(x))
    text = message_of(poptorch.inferenceModel(model), torch.ones(2, 4))
    assert re.match(LISTED, text)
    assert re.search(
        rf"\n  The trace ended at another one: .* aten::nonzero .*{HERE}.*{BEHIND}$", text
    )


ENDS = {
    "value": lambda x: x.sum().item(),
    "shape": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "quantised": lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
    "view": lambda x: x.view(torch.int32),
}


@pytest.mark.parametrize("name", ENDS)
def test_what_ends_the_trace_says_so(name):
    def model(x):
        ENDS[name](x)
        return torch.hash_tensor(x)

    text = message_of(poptorch.inferenceModel(model), torch.ones(2, 4))
    assert re.search(rf"{HERE}.*{BEHIND}$", text) and text.count(BEHIND) == 1
    assert "hash_tensor" not in text


def test_what_python_refuses_stands_behind_them_too():
    def end(x):
        torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    wrapped = poptorch.trainingModel(Model(end))
    text = message_of(wrapped, *torch.randn(2, 2, 4).unbind())
    assert re.match(LISTED, text)
    assert re.search(rf"\n  The trace ended at another one: \[torch.cond\] .*{BEHIND}$", text)


def test_a_mistake_does_not_say_so():
    text = message_of(poptorch.inferenceModel(lambda x: x @ x), torch.ones(2, 4))
    assert BEHIND not in text


def test_stand_ins_have_no_values():
    model = Model(end=lambda x: torch.hash_tensor(x).item())
    text = message_of(poptorch.inferenceModel(model), torch.ones(2, 4))
    assert re.search("ended at another one: .* the value of a tensor is needed on the host", text)


def test_an_error_of_the_program_is_its_own():
    def end(_):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        poptorch.inferenceModel(Model(end))(torch.ones(2, 4))


def test_one_op_alone_has_its_own_words():
    text = message_of(poptorch.inferenceModel(lambda x: x.to_sparse()), torch.ones(2, 4))
    assert re.fullmatch(rf"\[aten::_to_sparse\] .* Keep it dense\. \({HERE}\)", text)
