"""torch.float8_e4m3fn and float8_e5m2: casts round as torch's do, and tensors can hold them."""

import poptorch
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from tracer_case import compare_training, seeded

TYPES = [torch.float8_e4m3fn, torch.float8_e5m2]
EVERY = torch.arange(256, dtype=torch.int32).to(torch.uint8)


def codes(tensor):
    return tensor.view(torch.uint8)


def around(dtype):
    """Returns every number of the type, the midpoints between them, their neighbours, and corner
    cases."""
    values = EVERY.view(dtype).float()
    values = values[values.isfinite()].unique()
    middle = (values[1:] + values[:-1]) / 2
    corners = [0.0, -0.0, float("inf"), -float("inf"), float("nan"), 464, 465, 480, 6e4, 1e30]
    corners += [61440, -464.0, -1e30, 1e-8, -1e-8]
    beside = [middle * (1 + e) for e in (0, 1e-5, -1e-5)]
    return torch.cat([values, *beside, torch.tensor(corners)])


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("source", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_casts_round_as_torchs(dtype, source):
    x = around(dtype).to(source)
    ours, expected = poptorch.inferenceModel(lambda x: x.to(dtype))(x), x.to(dtype)
    assert ours.dtype == dtype
    numbers = ~x.isnan()
    assert torch.equal(codes(ours)[numbers], codes(expected)[numbers])
    assert torch.equal(ours.float().isnan(), expected.float().isnan())


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("target", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_every_number_is_read_as_torch_does(dtype, target):
    x = EVERY.view(dtype)
    ours, expected = poptorch.inferenceModel(lambda x: x.to(target))(x), x.to(target)
    torch.testing.assert_close(ours, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_they_are_moved_like_others(dtype):
    x = seeded(lambda: torch.randn(3, 4)).to(dtype)
    model = poptorch.inferenceModel(lambda x: x.t().reshape(2, 6)[:, 1:])
    assert torch.equal(codes(model(x)), codes(x.t().reshape(2, 6)[:, 1:]).contiguous())


class Stored(nn.Module):
    """A weight that is kept in 8 bits, and activations that pass through 8 bits."""

    def __init__(self, dtype):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("weight", torch.randn(2, 4).to(dtype))
        self.constant = torch.randn(4).to(dtype)
        self.dtype = dtype

    def forward(self, x):
        x = self.linear(x).to(self.dtype).to(x.dtype)
        return F.linear(x + self.constant.to(x.dtype), self.weight.to(x.dtype))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_they_store_weights_and_activations_in_training(dtype):
    model = seeded(lambda: Stored(dtype))
    before = codes(model.weight).clone()
    compare_training(model, seeded(lambda: torch.randn(3, 4)), steps=2)
    assert torch.equal(codes(model.weight), before)
