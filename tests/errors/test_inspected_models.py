"""Values that are not a model or its inputs are refused by plan, explain and estimate."""

import poptorch
import pytest
import torch

CALLS = {
    "plan": lambda model, inputs: poptorch.plan(model, inputs, num_ipus=2),
    "explain": poptorch.explain,
    "estimate": poptorch.estimate,
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("model", ["a name", torch.nn.ReLU], ids=["text", "class"])
def test_something_that_is_not_a_model(name, model):
    with pytest.raises(poptorch.Error, match=rf"\[{name}\] expected a module .* Pass the model"):
        CALLS[name](model, torch.zeros(2, 4))


@pytest.mark.parametrize("name", CALLS)
def test_options_in_the_place_of_inputs(name):
    with pytest.raises(poptorch.Error, match=rf"\[{name}\] expected the arguments of one micro-b"):
        CALLS[name](torch.nn.ReLU().eval(), poptorch.Options())


def test_a_plan_of_a_function():
    with pytest.raises(poptorch.Error, match="got a function, which has no parts to divide"):
        CALLS["plan"](torch.relu, torch.zeros(2, 4))
