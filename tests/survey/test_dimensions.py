"""A dimension out of range gets torch's own sentence and a remedy, for every operator with one.

Each whole number among the arguments of each sample is replaced by one that is out of range. Where
eager torch then calls it a dimension, the tracer must do the same.
"""

import itertools
import warnings

import entries
import poptorch
import pytest
import torch
from torch.utils import _pytree as pytree

SAMPLES = 6  # of an entry
OUT_OF_RANGE = (-40, 30)


def _calls(info):
    """Yields (function, tensors, eager torch's sentence), one for each dimension argument."""
    seen = set()
    samples = info.sample_inputs("cpu", torch.float32)
    for sample in itertools.islice(samples, SAMPLES):
        leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        for place, leaf in enumerate(leaves):
            if isinstance(leaf, bool) or not isinstance(leaf, int) or (str(spec), place) in seen:
                continue
            seen.add((str(spec), place))
            for wrong in OUT_OF_RANGE:
                changed = [*leaves[:place], wrong, *leaves[place + 1 :]]
                arguments = pytree.tree_unflatten(changed, spec)
                function, tensors = entries._function_of(info.op, arguments)
                if tensors and all(tensor.numel() for tensor in tensors):
                    sentence = _sentence_of_eager(function, tensors)
                    if sentence.startswith("Dimension out of range"):
                        yield function, tensors, sentence


def _sentence_of_eager(function, tensors) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(*(tensor.clone() for tensor in tensors))
        except Exception as error:
            return str(error).split("\n")[0]
    return ""


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *tensors):
        return self.function(*tensors)


@pytest.mark.shared
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [n for n in entries.names() if not n.startswith("module ")])
def test_a_dimension_out_of_range_in(name):
    info = next(info for info in entries.op_db if entries._name(info) == name)
    if torch.float32 not in info.dtypes:
        return
    for function, tensors, sentence in _calls(info):
        with pytest.raises(poptorch.Error) as caught:
            poptorch.inferenceModel(Model(function))(*tensors)
        before, _, remedy = caught.value.message.partition(sentence)
        assert before.endswith("] ") and remedy.startswith(". Give one from "), caught.value.message


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.flatten(5),  # torch composes it of others
        lambda x: x.sum().amax(3),  # a tensor without dimensions
        lambda x: torch.masked.softmax(x, 9),  # torch's Python code
        lambda x: torch.select_scatter(x, x[0], 7, 0),  # by torch's own kernel
        lambda x: torch.stack([x, x], -8),
    ],
)
def test_the_message_ends_with_the_users_line(function):
    x = torch.ones(2, 3)
    with pytest.raises(poptorch.Error, match=r"Give one from -\d to \d\..*test_dimensions\.py:\d+"):
        poptorch.inferenceModel(Model(function))(x)
