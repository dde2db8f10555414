"""Tests the operators of torch_scatter and torch_spline_conv, as those packages declare them.

Where a package is not installed, its declarations are here: tracing needs nothing else. The
expected results are computed with torch's own operators.
"""

import itertools

import poptorch
import pytest
import torch
from op_case import case, distinct, normal, run_case, uniform

DECLARED = {
    "torch_scatter": [
        *(f"scatter_{how}(Tensor _0, Tensor _1, int _2, Tensor? _3, int? _4) -> Tensor _0"
          for how in ("sum", "mean", "mul")),
        *(f"scatter_{how}(Tensor _0, Tensor _1, int _2, Tensor? _3, int? _4) -> (Tensor, Tensor)"
          for how in ("min", "max")),
    ],
    "torch_spline_conv": [
        "spline_basis(Tensor _0, Tensor _1, Tensor _2, int _3) -> (Tensor, Tensor)",
        "spline_weighting(Tensor _0, Tensor _1, Tensor _2, Tensor _3) -> Tensor _0",
    ],
}  # fmt: skip
INDEX = [2, 0, 0, 4, 2, 0]
GROUPS = 6


@pytest.fixture(scope="module", autouse=True)
def declared():
    libraries = []
    for package, schemas in DECLARED.items():
        library = torch.library.Library(package, "FRAGMENT")
        libraries.append(library)
        for schema in schemas:
            name = schema.partition("(")[0]
            if not hasattr(getattr(torch.ops, package), name):
                library.define(schema.removesuffix(" _0"))
    yield


def grouped(how, dim, index=INDEX):
    """Returns a function that runs the op in a model, and the expected computation outside."""

    def function(x):
        at = torch.tensor(index, dtype=torch.int64, device=x.device)
        if poptorch.isRunningOnIpu():
            return getattr(torch.ops.torch_scatter, f"scatter_{how}")(x, at, dim, None, GROUPS)
        moved = x.movedim(dim, 0)
        parts, places = [], []
        for group in range(GROUPS):
            members = [i for i, g in enumerate(index) if g == group]
            rows = moved[members]
            if how in ("min", "max"):
                chosen = getattr(rows, how)(0) if members else None
                parts.append(chosen.values if members else torch.zeros_like(moved[0]))
                none = torch.full_like(moved[0], len(index), dtype=torch.int64)
                places.append(torch.tensor(members)[chosen.indices] if members else none)
            elif how == "mean":
                parts.append(rows.sum(0) / max(len(members), 1))
            else:
                parts.append(rows.prod(0) if how == "mul" else rows.sum(0))
        values = torch.stack(parts).movedim(0, dim)
        return (values, torch.stack(places).movedim(0, dim)) if places else values

    return function


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("how", ["sum", "mean", "mul", "min", "max"])
def test_groups(how, dim):
    shape = [3, 3]
    shape[dim] = len(INDEX)
    inputs = distinct(*shape) if how in ("min", "max") else uniform(0.5, 2.0, *shape)
    run_case(case(f"scatter_{how}", grouped(how, dim), inputs))


def test_indices_of_every_element_and_equal_elements():
    x = torch.tensor([[3.0, 1.0, 3.0], [2.0, 2.0, 5.0]])
    at = torch.tensor([[0, 0, 0], [2, 2, 0]])
    model = poptorch.inferenceModel(
        lambda x, at: torch.ops.torch_scatter.scatter_max(x, at, 1, None, 3)
    )
    values, places = model(x, at)
    assert values.tolist() == [[3, 0, 0], [5, 0, 2]]
    assert places.tolist() == [[0, 3, 3], [2, 3, 0]]  # the first of equal elements


@pytest.mark.parametrize(("out", "size", "text"), [(True, 6, "`out`"), (False, None, "dim_size")])
def test_what_is_refused(out, size, text):
    def forward(x, at):
        given = torch.zeros_like(x) if out else None
        return torch.ops.torch_scatter.scatter_max(x, at, 0, given, size)

    with pytest.raises(poptorch.Error, match=text):
        poptorch.inferenceModel(forward)(torch.randn(6), torch.tensor(INDEX))


def piece(v, k, degree):
    """De Boor's recursion on integer knots: piece k of those that cover a place."""

    def spline(t, degree):
        if degree == 0:
            return ((t >= 0) & (t < 1)).to(t.dtype)
        left = t / degree * spline(t, degree - 1)
        return left + (degree + 1 - t) / degree * spline(t - 1, degree - 1)

    return spline(v + degree - k, degree)


def basis(degree, sizes, is_open):
    def function(pseudo):
        size = torch.tensor(sizes, device=pseudo.device)
        if poptorch.isRunningOnIpu():
            opened = torch.tensor(is_open, dtype=torch.uint8, device=pseudo.device)
            return torch.ops.torch_spline_conv.spline_basis(pseudo, size, opened, degree)
        columns, weights = [], []
        for choice in itertools.product(range(degree + 1), repeat=len(sizes)):
            value, number, stride = torch.ones(len(pseudo)), torch.zeros(len(pseudo)).long(), 1
            for d, k in enumerate(reversed(choice)):  # the first dimension runs fastest
                place = pseudo[:, d] * (sizes[d] - degree * is_open[d])
                first = place.detach().floor()
                value = value * piece(place - first, k, degree)
                number = number + (first.long() + k) % sizes[d] * stride
                stride *= sizes[d]
            columns.append(value)
            weights.append(number)
        return torch.stack(columns, 1), torch.stack(weights, 1)

    return function


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_spline_bases(degree):
    run_case(case("spline_basis", basis(degree, [5, 4], [1, 0]), uniform(0.05, 0.95, 7, 2)))


def weighting(x, weight, values):
    at = torch.tensor([[0, 2], [1, 1], [3, 0]], device=x.device)
    if poptorch.isRunningOnIpu():
        return torch.ops.torch_spline_conv.spline_weighting(x, weight, values, at)
    return torch.einsum("es,ei,esio->eo", values, x, weight[at])


def test_spline_weighting():
    run_case(case("spline_weighting", weighting, normal(3, 4), normal(5, 4, 2), normal(3, 2)))
