"""Functions of float32 beside halves, which eager torch refuses, convert operands by one rule."""

import poptorch
import pytest
import torch
import torch.nn.functional as F

G = torch.Generator().manual_seed(0)
X = torch.randn(4, 8, generator=G)
W = torch.randn(4, 8, generator=G)
KERNEL = torch.randn(2, 1, 3, 3, generator=G)

TO_THE_FIRST = {
    "linear": (F.linear, W),
    "conv2d": (lambda x, w: F.conv2d(x[None, None], w), KERNEL),
    "conv_transpose2d": (lambda x, w: F.conv_transpose2d(x[None, None], w), KERNEL[:1]),
}
PROMOTED = {
    "matmul": (torch.matmul, W.t()),
    "attention": (lambda x, y: F.scaled_dot_product_attention(x[None], y[None], y[None]), W),
}
TYPES = [
    (torch.float32, torch.float16),
    (torch.float16, torch.float32),
    (torch.float32, torch.bfloat16),
    (torch.bfloat16, torch.float32),
]


def check(function, x, other, dtype):
    with pytest.raises(RuntimeError):
        function(x, other)
    got = poptorch.inferenceModel(function)(x, other)
    assert got.dtype == dtype
    assert torch.equal(got, poptorch.inferenceModel(function)(x.to(dtype), other.to(dtype)))


@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("name", TO_THE_FIRST)
def test_layers_convert_to_the_type_of_the_first(name, types):
    function, other = TO_THE_FIRST[name]
    check(function, X.to(types[0]), other.to(types[1]), types[0])


@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("name", PROMOTED)
def test_others_promote(name, types):
    function, other = PROMOTED[name]
    check(function, X.to(types[0]), other.to(types[1]), torch.float32)
