"""After a call, the caller's tensors have the values that forward wrote into its inputs."""

import copy
from typing import NamedTuple

import poptorch
import pytest
import torch
from torch import nn


def _as_eager(function, *given, options=None):
    """Runs both on copies of the inputs, and compares the results and the copies."""
    ours, eager = copy.deepcopy(given), copy.deepcopy(given)
    expected = function(*eager)
    found = poptorch.inferenceModel(function, options)(*ours)
    torch.testing.assert_close(found, expected, check_dtype=False)
    torch.testing.assert_close(ours, eager)


def adds(x):
    x += 1
    return x * 2


def fills_a_slice(x):
    x[1:, ::2] = 7
    return x.sum()


def through_a_view(x):
    x.reshape(-1)[2:5].mul_(-1)
    return x + 0


def masked(x):
    x.masked_fill_(x > 0, 3)
    return x.abs()


def without_result(x):
    x.zero_()


def every_other(x):
    x[::2] += 1
    x[1::2] = 0
    return x * 1


def put(x):
    x.index_put_((x > 0,), torch.tensor(7).to(x))
    return x * 1


def through_data(x):
    x.data.add_(2)
    return x * 1


def unsqueezed(x):
    x.unsqueeze_(0).mul_(2)
    return x * 1


def returns_it(x):
    return x.add_(1)


@pytest.mark.parametrize(
    "function",
    [
        adds,
        fills_a_slice,
        through_a_view,
        masked,
        returns_it,
        without_result,
        every_other,
        put,
        through_data,
    ],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32], ids=str)
def test_input_is_written(function, dtype):
    _as_eager(function, (torch.arange(12).reshape(3, 4) - 4).to(dtype))


def test_values_of_a_tensor_that_takes_another_shape():
    x = torch.ones(2, 3)
    poptorch.inferenceModel(unsqueezed)(x)
    torch.testing.assert_close(x, torch.full((2, 3), 2.0))


def test_nested_inputs():
    def function(held, others):
        held["a"].fill_(3)
        others[0][0] = 7
        others[1].copy_(held["b"])
        return held["b"] + 1

    held = {"a": torch.zeros(2), "b": torch.ones(2)}
    for kind in (list, tuple):
        _as_eager(function, held, kind([torch.zeros(2, 2), torch.zeros(2)]))


class Pair(NamedTuple):
    left: torch.Tensor
    right: dict


def test_deeply_nested_inputs_by_keyword():
    def function(pair, *, others):
        pair.left.zero_()
        pair.right["x"][1][0].add_(others[0])
        others[1]["y"].mul_(2)

    pair = Pair(torch.ones(2), {"x": (torch.zeros(1), [torch.ones(3)])})
    others = [torch.ones(3), {"y": torch.ones(2)}]
    assert poptorch.inferenceModel(function)(pair, others=others) is None
    assert pair.left.tolist() == [0, 0] and pair.right["x"][1][0].tolist() == [2, 2, 2]
    assert others[0].tolist() == [1, 1, 1] and others[1]["y"].tolist() == [2, 2]


def test_wide_and_strided_inputs():
    def function(wide, strided):
        wide.add_(1)
        strided.mul_(3)
        return wide + 0

    wide, strided = torch.arange(4), torch.arange(12.0).reshape(3, 4).t()
    poptorch.inferenceModel(function)(wide, strided)
    assert wide.tolist() == [1, 2, 3, 4]
    assert strided.tolist() == (torch.arange(12.0).reshape(3, 4).t() * 3).tolist()


def test_unwritten_inputs_are_left_alone():
    def function(x, y):
        x.add_(y)
        return x + y

    x, y = torch.ones(2), torch.ones(2)
    before = y._version
    poptorch.inferenceModel(function)(x, y)
    assert y._version == before


@pytest.mark.parametrize("mode", [poptorch.OutputMode.All, poptorch.OutputMode.Final])
def test_all_micro_batches_are_written(mode):
    options = poptorch.Options().deviceIterations(3).replicationFactor(2)
    options.outputMode(mode)
    x = torch.arange(12.0).reshape(12, 1)
    poptorch.inferenceModel(adds, options)(x)
    torch.testing.assert_close(x, torch.arange(12.0).reshape(12, 1) + 1)


class Trained(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))

    def forward(self, x):
        x.mul_(self.w)
        return x, poptorch.identity_loss((x * x).sum(), "none")


def test_in_training_with_anchors():
    options = poptorch.Options()
    options.anchorTensor("gradient", "Gradient___w")
    wrapped = poptorch.trainingModel(Trained(), options, torch.optim.SGD([torch.zeros(1)], lr=0.1))
    wrapped.setOptimizer(torch.optim.SGD(wrapped.model.parameters(), lr=0.1))
    x = torch.tensor([[1.0, 2.0, 3.0]])
    for _ in range(2):
        weights = wrapped.model.w.detach().clone()
        given = x.clone()
        result, _ = wrapped(given)
        torch.testing.assert_close(given, x * weights)
        torch.testing.assert_close(result, x * weights)
        gradient = wrapped.getAnchoredTensor("gradient")
        torch.testing.assert_close(gradient.flatten(), (2 * weights * x * x)[0])


def test_memory_that_inputs_share_is_refused():
    wrapped = poptorch.inferenceModel(lambda x, y: x.add_(y))
    x = torch.ones(3)
    with pytest.raises(poptorch.Error, match="writes input 0, which shares memory with input 1"):
        wrapped(x, x)
    with pytest.raises(poptorch.Error, match="several elements share memory"):
        poptorch.inferenceModel(adds)(torch.ones(3).expand(2, 3))


def test_shared_inputs_of_replicas_are_refused():
    options = poptorch.Options().replicationFactor(2)
    options.inputReplicaGrouping(2, poptorch.CommGroupType.Consecutive)
    refused = "forward writes input 0 in place, but groups of replicas share the inputs"
    with pytest.raises(poptorch.Error, match=refused):
        poptorch.inferenceModel(adds, options)(torch.ones(2, 3))


def test_copies_in_a_loop_do_not_write_through():
    def function(x):
        (y,) = poptorch.for_loop(2, lambda t: t.add_(1), [x])
        return y

    x = torch.zeros(3)
    result = poptorch.inferenceModel(function)(x)
    assert x.tolist() == [0, 0, 0] and result.tolist() == [2, 2, 2]


def test_copies_in_a_branch_do_not_write_through():
    def function(x):
        x += 1
        (y,) = poptorch.cond(x.sum() > 0, lambda t: t.add_(1), [x], lambda t: t.sub_(1), [x])
        x *= 2
        return y

    x = torch.zeros(3)
    result = poptorch.inferenceModel(function)(x)
    assert x.tolist() == [2, 2, 2] and result.tolist() == [2, 2, 2]


def test_constants_have_every_micro_batch():
    options = poptorch.Options().deviceIterations(4)
    result = poptorch.inferenceModel(lambda x: torch.full((2, 3), 5.0), options)(torch.ones(4, 1))
    torch.testing.assert_close(result, torch.full((8, 3), 5.0))


def test_bits_that_torch_applies_late():
    wrapped = poptorch.inferenceModel(lambda x: x * 2)
    x = torch.tensor([1.0, -2.0])
    for _ in range(2):
        assert wrapped(x).tolist() == [2, -4]
        assert wrapped(torch._neg_view(x)).tolist() == [-2, 4]
