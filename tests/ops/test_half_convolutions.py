"""Convolutions of half types sum in float32 and round once, in float16 with eager torch's sums."""

import copy

import poptorch
import pytest
import torch
from torch import nn

FORWARD = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


def made(kind, dtype, channels=(16, 32), kernel=3, batch=4, length=12, **settings):
    """Returns the layer's results here, in eager torch's loops and in float64.

    Some hosts have float16 convolutions of oneDNN, which sum in another order than the loops.
    """
    torch.manual_seed(1)
    layer = kind(*channels, kernel, **settings).to(dtype)
    dimensions = int(kind.__name__[-2])
    x = torch.randn(batch, channels[0], *[length] * dimensions).to(dtype)
    with torch.no_grad(), torch.backends.mkldnn.flags(enabled=False):
        eager, exact = copy.deepcopy(layer)(x), copy.deepcopy(layer).double()(x.double())
    return poptorch.inferenceModel(layer)(x), eager, exact


def assert_rounded_once(ours, exact):
    rounded = exact.to(ours.dtype)
    bits = 11 if ours.dtype == torch.float16 else 8
    step = torch.ldexp(torch.ones(()).double(), torch.frexp(rounded.double()).exponent - bits)
    assert ((ours.double() - exact).abs() <= 0.5 * step + 2e-6).all()


@pytest.mark.shared
@pytest.mark.parametrize("groups", [1, 4, 16])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("padding", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("kind", FORWARD)
def test_float16_is_as_in_eager_torch(kind, padding, stride, groups):
    settings = {"padding": 2, "padding_mode": padding, "stride": stride, "groups": groups}
    size = {"kernel": 3, "batch": 2, "length": 6}
    if kind is not nn.Conv3d:
        size = {"kernel": 5, "length": 50 if kind is nn.Conv1d else 12}
    ours, eager, exact = made(kind, torch.float16, **size, **settings)
    torch.testing.assert_close(ours, eager, rtol=0, atol=1e-4)
    assert_rounded_once(ours, exact)


@pytest.mark.parametrize(
    "settings",
    [
        {"channels": (16, 33), "batch": 10, "kernel": 5, "length": 17},
        {"channels": (3, 5), "kernel": 2, "bias": False},  # 6 products: two beyond a multiple of 4
        {"channels": (1, 7), "kernel": 3},  # 3 products: fewer than four
        {"channels": (16, 16), "kernel": 1},
        {"channels": (6, 4), "kernel": 4, "dilation": 2},
        {"channels": (16, 8), "batch": 1, "kernel": 7},
    ],
)
@pytest.mark.parametrize("kind", FORWARD[:2])
def test_float16_of_other_shapes(kind, settings):
    ours, eager, _ = made(kind, torch.float16, stride=2, padding=2, **settings)
    torch.testing.assert_close(ours, eager, rtol=0, atol=1e-4)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kernel", [1, 2, 3, 5])  # fewer than four products, and some beyond
@pytest.mark.parametrize("kind", FORWARD)
def test_depthwise_float16_is_as_in_eager_torch(kind, kernel, bias):
    settings = {"channels": (40, 40), "groups": 40, "padding": kernel // 2, "bias": bias}
    ours, eager, exact = made(kind, torch.float16, kernel=kernel, batch=2, length=7, **settings)
    torch.testing.assert_close(ours, eager, rtol=0, atol=1e-4)
    assert_rounded_once(ours, exact)


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("kind", FORWARD + TRANSPOSED)
def test_bfloat16_is_rounded_once(kind, groups):
    ours, _, exact = made(kind, torch.bfloat16, stride=2, padding=1, groups=groups)
    assert_rounded_once(ours, exact)


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("kind", TRANSPOSED)
def test_transposed_float16_is_rounded_once(kind, groups):
    """Eager torch rounds each product here, so that its result is less exact."""
    ours, _, exact = made(kind, torch.float16, stride=2, padding=1, groups=groups)
    assert_rounded_once(ours, exact)


def test_large_convolutions_are_rounded_once():
    ours, _, exact = made(nn.Conv2d, torch.float16, (64, 64), batch=8, length=24, padding=1)
    assert_rounded_once(ours, exact)
