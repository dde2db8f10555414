"""Operators that run by torch's own kernels: on halves those of torch compute in float32."""

import poptorch
import pytest
import torch


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *tensors):
        return self.function(*tensors)


def run(function, *tensors):
    options = poptorch.Options().showCompilationProgressBar(False)
    return poptorch.inferenceModel(Function(function), options)(*tensors)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_results_are_rounded_once(dtype):
    a, b = torch.randn(2, 5, 300).to(dtype)
    once = torch.cdist(a.float(), b.float()).to(dtype)
    result = run(torch.cdist, a, b)
    assert result.dtype == dtype
    torch.testing.assert_close(result, once, rtol=0, atol=0)


def test_neighbours_are_those_of_the_type():
    x = torch.randn(9).bfloat16()
    result = run(torch.nextafter, x, torch.zeros_like(x))
    torch.testing.assert_close(result, torch.nextafter(x, torch.zeros_like(x)), rtol=0, atol=0)


def test_operators_of_other_libraries_take_halves():
    library = torch.library.Library("poptorch_tests", "FRAGMENT")
    library.define("of_halves(Tensor x) -> Tensor")

    def of_halves(x):
        torch._check(x.dtype == torch.float16, lambda: "of_halves takes float16 alone")
        return x * 2

    library.impl("of_halves", of_halves, "CompositeExplicitAutograd")
    x = torch.randn(4).half()
    result = run(lambda x: torch.ops.poptorch_tests.of_halves(x) + 1, x)
    torch.testing.assert_close(result, x * 2 + 1, rtol=0, atol=0)
    library._destroy()


def test_unread_results_may_be_of_any_type():
    x = torch.randn(6, 40)
    values = run(lambda x: torch.cummax(x, 1)[0] * 2, x)
    places = run(lambda x: torch.cummax(x, 1)[1] * 2, x)
    expected = torch.cummax(x, 1)
    torch.testing.assert_close(values, expected[0] * 2, rtol=0, atol=0)
    torch.testing.assert_close(places.long(), expected[1] * 2)
