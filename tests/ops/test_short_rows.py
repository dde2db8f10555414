"""Ops along short rows: values, special values, and bits that do not depend on the other rows.

Kernels transpose blocks of 64 rows of at most 64 elements, so lengths and counts here lie on both
sides of these sizes.
"""

import poptorch
import pytest
import torch
from torch.nn import functional

LENGTHS = (1, 2, 3, 10, 24, 63, 64, 65)
COUNTS = (1, 17, 131)
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def numbers_in(x):
    """Returns a class for each row, some of them ignored."""
    return torch.where(torch.arange(len(x)) % 5 == 4, -100, torch.arange(len(x)) % x.shape[-1])


FUNCTIONS = {
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(-1),
    "prod": lambda x: x.prod(-1),
    "max": lambda x: x.amax(-1),
    "min": lambda x: x.amin(-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "cumsum": lambda x: x.cumsum(-1),
    "layer_norm": lambda x: functional.layer_norm(x, x.shape[-1:]),
    "minus_first": lambda x: x - x[:, :1],
    "times_norm": lambda x: x * x.norm(dim=-1, keepdim=True) + 1,
    "scaled_rows": lambda x: x * x[:, :1] * x[:1] + x,
    "cross_entropy": lambda x: functional.cross_entropy(x, numbers_in(x), reduction="none"),
}


def rows_of(count, length, dtype):
    generator = torch.Generator().manual_seed(1000 * count + length)
    return torch.randn(count, length, generator=generator).to(dtype)


class Gradient(torch.nn.Module):
    """Returns a function's gradient, for weights that differ by element."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        x = x.detach().requires_grad_()
        y = self.function(x)
        weights = torch.linspace(1, 2, y.numel()).reshape(y.shape).to(y.dtype)
        return torch.autograd.grad(y, x, weights)[0]


def assert_near(ours, exact, dtype):
    """Compares with float64: a rounding of the result, and the sums of rows in float32."""
    epsilon = torch.finfo(dtype).eps
    scale = 3 * exact.abs().amax() if exact.isfinite().all() else 1
    torch.testing.assert_close(
        ours.double(), exact, rtol=epsilon, atol=float(scale) * 2e-6 + epsilon / 64, equal_nan=True
    )


@pytest.mark.shared
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_are_those_of_float64(name, length, dtype):
    for count in COUNTS:
        x = rows_of(count, length, dtype)
        if name == "prod":
            x = 1 + x / 64
        ours = poptorch.inferenceModel(FUNCTIONS[name])(x)
        exact = FUNCTIONS[name](x.double())
        if name in ("times_norm", "scaled_rows") and dtype != torch.float32:  # each op rounds
            eager = FUNCTIONS[name](x)
            torch.testing.assert_close(ours.float(), eager.float(), rtol=0.02, atol=0.02)
        else:
            assert_near(ours, exact, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [3, 10, 63])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "cross_entropy", "layer_norm"])
def test_gradients_are_those_of_float64(name, length, dtype):
    x = rows_of(131, length, dtype)
    ours = poptorch.inferenceModel(Gradient(FUNCTIONS[name]))(x)
    exact = Gradient(FUNCTIONS[name])(x.double())
    bound = 4e-5 if dtype == torch.float32 else 8 * torch.finfo(dtype).eps
    scale = max(1.0, float(exact.abs().max()))  # the weights' scale, or more
    torch.testing.assert_close(ours.double(), exact, rtol=bound, atol=bound * scale)


@pytest.mark.shared
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [2, 10, 63])
@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - {"scaled_rows"}))  # which reads row 0
def test_a_row_has_the_same_bits_alone(name, length, dtype):
    x = rows_of(131, length, dtype)
    function = FUNCTIONS[name]
    together = poptorch.inferenceModel(function)(x)
    for count, first in ((1, 0), (64, 64), (3, 128)):
        if name == "cross_entropy" and first:
            continue  # its classes follow the places of rows
        alone = poptorch.inferenceModel(function)(x[first : first + count].clone())
        assert torch.equal(alone, together[first : first + count])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [2, 24, 65])
@pytest.mark.parametrize(
    "name", ["softmax", "log_softmax", "sum", "max", "min", "logsumexp", "cumsum"]
)
def test_special_values_are_as_in_eager_torch(name, length, dtype):
    x = rows_of(70, length, dtype)
    for row, values in enumerate(([torch.nan], [torch.inf], [-torch.inf], [torch.inf, -torch.inf])):
        x[row, : len(values)] = torch.tensor(values).to(dtype)
    x[4] = -torch.inf
    ours, eager = poptorch.inferenceModel(FUNCTIONS[name])(x), FUNCTIONS[name](x.double())
    torch.testing.assert_close(ours.double(), eager, rtol=0.02, atol=0.02, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduce", [torch.sum, torch.amax, torch.amin, torch.mean])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 15, 16])
def test_columns_of_narrow_tables(width, reduce, dtype):
    for rows in (1, 15, 16, 33, 5000):
        x = rows_of(rows, width, dtype)
        ours = poptorch.inferenceModel(lambda x: reduce(x, 0))(x)
        assert_near(ours, reduce(x.double(), 0), dtype)


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool, torch.int8])
@pytest.mark.parametrize("length", [2, 3, 10, 127, 128])
def test_integers_are_chosen_by_a_number_of_their_row(dtype, length):
    x = (rows_of(131, length, torch.float32) * 3).to(dtype)
    function = lambda x: torch.where(x[:, :1] > 0, x, x[:1])  # noqa: E731
    assert torch.equal(poptorch.inferenceModel(function)(x), function(x))
