"""Values out of range (class targets, indices, 64-bit numbers) raise an error with the value and
the user's line.
"""

import pathlib
import re

import poptorch
import pytest
import torch
import torch.nn.functional as F
from torch import nn

HERE = r"[^ (]*" + re.escape(pathlib.Path(__file__).name) + r":\d+"


class Model(nn.Module):
    def __init__(self, loss, dtype=torch.float32):
        super().__init__()
        self.fc = nn.Linear(3, 3).to(dtype)
        self.loss = loss

    def forward(self, x, target):
        return self.loss(self.fc(x), target)


def _refused(model, *given, train=True, options=None):
    make = poptorch.trainingModel if train else poptorch.inferenceModel
    with pytest.raises(poptorch.Error) as raised:
        make(model, options)(*given)
    return raised.value.message


CLASS_LOSSES = {
    "cross_entropy": F.cross_entropy,
    "weighted": lambda y, t: F.cross_entropy(y, t, weight=torch.ones(3)),
    "smoothed": lambda y, t: F.cross_entropy(y, t, label_smoothing=0.1),
    "nll_loss": lambda y, t: F.nll_loss(y.sigmoid(), t),
    "of images": lambda y, t: F.nll_loss(y.sigmoid()[None].transpose(1, 2), t[None]),
    "a sum": lambda y, t: F.cross_entropy(y, t, reduction="sum"),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("name", CLASS_LOSSES)
@pytest.mark.parametrize("target", [3, -1])
def test_a_target_that_is_no_class(name, dtype, target):
    text = _refused(
        Model(CLASS_LOSSES[name], dtype), torch.ones(2, 3, dtype=dtype), torch.tensor([0, target])
    )
    assert re.search(rf"target {target} is not in \[0, 3\).*\({HERE}\)", text)


def test_ignored_targets_are_no_error():
    model = poptorch.trainingModel(Model(F.cross_entropy))
    assert model(torch.ones(2, 3), torch.tensor([0, -100])).isfinite()


@pytest.mark.parametrize("targets", [[[1, 9]], [[1, -2]]])
def test_a_ctc_target_that_is_no_class(targets):
    def loss(y, target):
        return F.ctc_loss(y.log_softmax(-1)[:, None], target, torch.tensor([4]), torch.tensor([2]))

    text = _refused(Model(loss), torch.ones(4, 3), torch.tensor(targets), train=False)
    assert re.search(rf"target {targets[0][1]} of sequence 0 is not in \[0, 3\).*\({HERE}", text)


def test_what_pads_ctc_targets_is_not_read():
    def loss(y, target):
        return F.ctc_loss(y.log_softmax(-1)[:, None], target, torch.tensor([4]), torch.tensor([1]))

    model = poptorch.inferenceModel(Model(loss))
    assert model(torch.ones(4, 3), torch.tensor([[1, -1]])).isfinite()


def test_a_trained_loss_that_is_not_reduced():
    def loss(y, target):
        return F.cross_entropy(y, target, reduction="none")

    text = _refused(Model(loss), torch.ones(2, 3), torch.tensor([0, 1]))
    assert re.search(rf"cross_entropy_loss \({HERE}\) has reduction='none': f32\[2\]", text)
    assert "reduction='mean'" in text


def test_unreduced_losses_may_be_reduced_and_marked():
    def loss(y, target):
        each = F.cross_entropy(y, target, reduction="none")
        return each, poptorch.identity_loss(each * each, "mean")

    each, total = poptorch.trainingModel(Model(loss))(torch.ones(2, 3), torch.tensor([0, 1]))
    torch.testing.assert_close(total, (each * each).mean())


X = torch.arange(12.0).reshape(3, 4)
INDEXED = {
    "gather": lambda x, i: x.gather(0, i[None]),
    "index": lambda x, i: x[i],
    "index_select": lambda x, i: x.index_select(0, i),
    "index_add": lambda x, i: x.index_add(0, i, x[:1]),
    "index_put": lambda x, i: torch.index_put(x, (i,), x[:1]),
    "scatter": lambda x, i: x.scatter(0, i[None], 1.0),
    "one_hot": lambda x, i: F.one_hot(i.long(), 3),
    "take": lambda x, i: torch.take(x, i * 4),
    "bincount": lambda x, i: torch.bincount(i, minlength=3),
}


@pytest.mark.parametrize("name", INDEXED)
def test_indices_are_checked_where_that_is_asked_for(name):
    function = INDEXED[name]
    inside, outside = torch.tensor([2], dtype=torch.int32), torch.tensor([3], dtype=torch.int32)
    poptorch.inferenceModel(function)(X, outside)  # unchecked
    options = poptorch.Options()
    options.Emulator.checkIndices(True)
    wrapped = poptorch.inferenceModel(function, options)
    wrapped(X, inside)
    with pytest.raises(poptorch.Error) as raised:
        wrapped(X, outside)
    assert re.search(rf"index \d+ is not in \[0, \d+\).*\({HERE}\)", raised.value.message)


def test_embedding_is_always_checked():
    table = nn.Embedding(5, 2)
    text = _refused(nn.Sequential(table), torch.tensor([7]), train=False)
    assert "index 7 is outside a table of 5 rows" in text and "in module '0'" in text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (torch.tensor([[1, 2], [3, 2**40]]), r"1099511627776 at \[1, 1\], as Long"),
        (torch.tensor([-(2**31) - 1]), r"-2147483649 at \[0\], as Long"),
        (torch.tensor([1e300], dtype=torch.float64), r"1e\+300 at \[0\], as Double"),
    ],
)
def test_numbers_of_64_bits(value, shown):
    text = _refused(lambda x: x * 1, value, train=False)
    assert re.search(rf"input 0 holds {shown}", text)
    text = _refused(lambda x: x + value.to(x.device), torch.ones(1), train=False)
    assert re.search(rf"a constant \({HERE}\) holds {shown}", text)
    model = nn.Module()
    model.register_buffer("table", value)
    model.forward = lambda x: x + model.table
    text = _refused(model, torch.ones(1), train=False)
    assert re.search(rf"table holds {shown}", text)


def test_numbers_that_fit_into_32_bits():
    wrapped = poptorch.inferenceModel(lambda x: x + (2**31 - 2))
    assert wrapped(torch.tensor([1, -(2**31)])).tolist() == [2**31 - 1, -2]


def test_a_python_number_of_64_bits():
    text = _refused(lambda x: x + 2**33, torch.tensor([1]), train=False)
    assert re.search(rf"the number 8589934592 needs 64 bits.*\({HERE}\)", text)


def test_results_of_64_bits():
    text = _refused(torch.hash_tensor, torch.ones(3), train=False)
    assert "its result needs integers of 64 bits" in text


def test_arithmetic_in_float64_is_warned_about(capfd):
    def function(x):
        y = x.double()
        return (y + 1).float(), y.sin().float(), x.float()

    poptorch.inferenceModel(function)(torch.ones(2))
    said = [line for line in capfd.readouterr().err.splitlines() if "float64 is computed" in line]
    assert len(said) == 2
    for line, op in zip(said, ("add", "sin"), strict=True):
        assert re.search(rf"aten::{op}\] float64 is computed in float32.*\({HERE}\)", line)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x + 1 if torch.equal(x, y) else x,
        lambda x, y: x.tensor_split(torch.tensor([1, 2]) + y.long()[:2]),
    ],
)
def test_decisions_by_value(function):
    text = _refused(function, torch.ones(4), torch.ones(4), train=False)
    assert "not known while the model is traced" in text and re.search(HERE, text)


def test_tensors_of_other_shapes_are_not_equal():
    wrapped = poptorch.inferenceModel(lambda x, y: x + 1 if torch.equal(x, y) else x)
    assert wrapped(torch.ones(2), torch.ones(3)).tolist() == [1, 1]
