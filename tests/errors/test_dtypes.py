"""An argument whose dtype torch refuses is refused here too."""

import poptorch
import pytest
import torch
from torch.nn import functional

X = torch.randn(4, 3)
LINE = r"\(\S*test_dtypes\.py:\d+\)"


@pytest.mark.parametrize(
    "call",
    [
        lambda x, i: functional.embedding(i, x),
        lambda x, i: torch.gather(x, 0, i.reshape(1, 2)),
        lambda x, i: x.index_select(0, i),
        lambda x, i: x[i],
        lambda x, i: torch.take(x, i),
        lambda x, i: x.scatter(0, i.reshape(1, 2), 1.0),
        lambda x, i: x.scatter_add(0, i.reshape(1, 2), x[:1, :2]),
        lambda x, i: x.index_add(0, i, x[:2]),
        lambda x, i: x.index_fill(0, i, 1.0),
        lambda x, i: x.index_copy(0, i, x[:2]),
        lambda x, i: x.index_put((i,), x[:2]),
        lambda x, i: functional.one_hot(i, 3),
        lambda x, i: torch.bincount(i, minlength=3),
    ],
)
def test_floats_are_no_indices(call):
    wrong = torch.tensor([0.0, 1.0])
    text = rf"indices are whole numbers, but got f32\[.*\]\. Pass integers: .* {LINE}"
    with pytest.raises(poptorch.Error, match=text):
        poptorch.inferenceModel(call)(X, wrong)
    with pytest.raises((RuntimeError, IndexError)):  # torch refuses as well
        call(X, wrong)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, mask: torch.where(mask, x, 0.0),
        lambda x, mask: x.masked_fill(mask, 0.0),
        lambda x, mask: x.clone().masked_fill_(mask, 0.0),
        lambda x, mask: x.masked_scatter(mask, x),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32])
def test_masks_are_boolean(call, dtype):
    mask = torch.ones(4, 3, dtype=dtype)
    with pytest.raises(poptorch.Error, match=rf"boolean.*, but got .* {LINE}"):
        poptorch.inferenceModel(call)(X, mask)
    with pytest.raises(RuntimeError):
        call(X, mask)


@pytest.mark.parametrize(
    "call",
    [
        lambda y: y.mean(),
        lambda y: y.norm(),
        lambda y: y.softmax(1),
        lambda y: y.log_softmax(1),
        lambda y: functional.binary_cross_entropy(y.float(), y),
        lambda y: functional.binary_cross_entropy_with_logits(y.float(), y),
    ],
)
def test_some_functions_take_floats_alone(call):
    ones = torch.ones(4, 3, dtype=torch.int32)
    with pytest.raises(poptorch.Error, match=rf"needs a float dtype, but got i32\. .* {LINE}"):
        poptorch.inferenceModel(call)(ones)
    with pytest.raises((RuntimeError, NotImplementedError)):
        call(ones)


def test_bytes_are_conditions_of_where():
    mask = torch.tensor([1, 0, 1], dtype=torch.uint8)
    found = poptorch.inferenceModel(lambda x: torch.where(mask.to(x.device), x, 0.0))(X)
    assert torch.equal(found, torch.where(mask.bool(), X, 0.0))


def test_a_clamp_needs_a_bound():
    with pytest.raises(poptorch.Error, match=rf"give min, max or both\. {LINE}"):
        poptorch.inferenceModel(lambda x: x.clamp())(X)
