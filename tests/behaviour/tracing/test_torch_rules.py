"""Tests rules of torch's operators that models rely on, and their replacements."""

import poptorch
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import DynamicOutputShapeException

NAN, INF = float("nan"), float("inf")
SUMMED = torch.tensor([1.5, 2.5, 3.5])


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "sum", "prod"])
@pytest.mark.parametrize("dtype", [torch.int32, torch.float16, torch.float32], ids=str)
def test_sums_take_the_type_of_their_out(name, dtype):
    def function(x, out):
        getattr(torch, name)(x, 0, out=out)
        return out * 1

    shape = (3,) if name.startswith("cum") else ()
    ours, eager = torch.zeros(shape, dtype=dtype), torch.zeros(shape, dtype=dtype)
    found, expected = poptorch.inferenceModel(function)(SUMMED, ours), function(SUMMED, eager)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(ours, eager)


OUT = {
    "max.dim": (lambda x, *out: torch.max(x, 1, out=out or None), 2),
    "min.dim": (lambda x, *out: torch.min(x, 1, out=out or None), 2),
    "max.other": (lambda x, *out: torch.max(x, x.flip(0), out=out[0] if out else None), 1),
    "min.other": (lambda x, *out: torch.min(x, x.flip(0), out=out[0] if out else None), 1),
    "kthvalue": (lambda x, *out: torch.kthvalue(x, 2, 1, out=out or None), 2),
    "topk": (lambda x, *out: torch.topk(x, 2, out=out or None), 2),
    "searchsorted": (
        lambda x, *out: torch.searchsorted(x[0], x, out=out[0] if out else None),
        1,
    ),
    "softmax": (lambda x, *out: torch.softmax(x, 1, out=out[0] if out else None), 1),
}


@pytest.mark.parametrize("name", OUT)
def test_results_are_written_into_out(name):
    function, count = OUT[name]
    x = torch.tensor([[0.0, 1.0, 3.0, 7.0], [6.0, 2.0, 5.0, 0.5]])
    results = function(x)
    expected = [results] if count == 1 else list(results)

    def model(x, *out):
        function(x, *out)

    out = [torch.zeros_like(result) for result in expected]
    poptorch.inferenceModel(model)(x, *out)
    torch.testing.assert_close(out, expected)


PRODUCTS = {
    "addmv": ((2,), (2, 3), (3,)),
    "addmm": ((2, 2), (2, 3), (3, 2)),
    "baddbmm": ((2, 2, 2), (2, 2, 3), (2, 3, 2)),
    "addr": ((2, 3), (2,), (3,)),
}


@pytest.mark.parametrize("bad", [NAN, INF])
@pytest.mark.parametrize(("alpha", "beta"), [(0, 2), (2, 0), (0, 0), (2, 3)])
@pytest.mark.parametrize("name", PRODUCTS)
def test_what_is_weighed_with_0_has_no_part(name, alpha, beta, bad):
    added, left, right = (torch.ones(shape) for shape in PRODUCTS[name])
    expected = getattr(torch, name)(added, left, right, alpha=alpha, beta=beta)
    if alpha == 0:
        left.view(-1)[0] = right.view(-1)[0] = bad
    if beta == 0:
        added.view(-1)[0] = bad
    for suffix in ("", "_"):

        def function(x, a, b, suffix=suffix):
            return getattr(x.clone(), name + suffix)(a, b, alpha=alpha, beta=beta)

        torch.testing.assert_close(poptorch.inferenceModel(function)(added, left, right), expected)


DYNAMIC = {
    "mask": lambda x: x[x > 0],
    "bytes": lambda x: x[(x > 0).byte()],
    "nonzero": lambda x: x.nonzero(),
    "masked_select": lambda x: x.masked_select(x > 0),
    "unique": lambda x: x.unique(),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_shapes_that_depend_on_values_are_refused_as_torch_does(name):
    for kind in (poptorch.Error, DynamicOutputShapeException):
        with pytest.raises(kind, match="output shape is determined at runtime") as error:
            poptorch.inferenceModel(DYNAMIC[name])(torch.randn(3, 4))
        assert error.value in {error.value} and isinstance(error.value, poptorch.Error)


class Grouped(nn.Module):
    def __init__(self, order):
        super().__init__()
        self.norm = nn.GroupNorm(2, 6)
        self.order = order
        with torch.no_grad():
            self.norm.weight.copy_(torch.arange(6.0))
            self.norm.bias.copy_(torch.arange(6.0) / 3)

    def forward(self, x):
        """Normalises the channels in another order, and restores their order."""
        if self.order is None:
            return self.norm(x)
        norm, back = self.norm, self.order.argsort()
        y = F.group_norm(x[:, self.order], 2, norm.weight[self.order], norm.bias[self.order])
        return y[:, back]


@pytest.mark.parametrize("shape", [(3, 6, 5), (2, 6, 4, 3), (3, 6)])
def test_strided_groups_of_channels(shape):
    x = torch.randn(shape)
    options = poptorch.Options()
    options._Popart.set("groupNormStridedChannelGrouping", True)
    found = poptorch.inferenceModel(Grouped(None), options)(x)
    expected = Grouped(torch.tensor([0, 2, 4, 1, 3, 5]))(x).detach()
    torch.testing.assert_close(found, expected)
    plain = poptorch.inferenceModel(Grouped(None))(x)
    torch.testing.assert_close(plain, Grouped(None)(x).detach())


def test_backward_on_an_output():
    text = (
        r"backward\(\) cannot be called explicitly on outputs of a PopTorch model. If you're "
        "using a trainingModel, the backwards pass is performed automatically when invoking the "
        "model. If you're using an inferenceModel, you should use a trainingModel instead."
    )
    with pytest.raises(poptorch.Error, match=text):
        poptorch.inferenceModel(nn.Linear(2, 2))(torch.ones(2, 2)).sum().backward()


def _put(x, index):
    return x.index_put_((index,), torch.tensor(5.0))


def _assigned(x, index):
    x[index] = 5
    return x * 1


@pytest.mark.parametrize("function", [_put, _assigned], ids=lambda f: f.__name__)
def test_bytes_are_masks(function):
    index, x = torch.tensor([0, 1, 1], dtype=torch.uint8), torch.zeros(3)
    if function is _assigned and torch.__version__ >= "2.15":  # it fills by a boolean mask
        with pytest.raises(poptorch.Error, match="a mask is boolean, but got u8"):
            poptorch.inferenceModel(function)(x, index)
        return
    assert poptorch.inferenceModel(function)(x, index).tolist() == [0, 5, 5]
    assert x.tolist() == [0, 5, 5]


@pytest.mark.parametrize("right", [False, True])
def test_bisection_of_boundaries_out_of_order(right):
    bounds, x = torch.tensor([5.0, 1, 3, 2, 4, NAN, 0]), torch.linspace(-1, 6, 29)

    def function(x, bounds, out):
        torch.bucketize(x, bounds, right=right, out=out)

    ours, eager = torch.zeros(29, dtype=torch.int64), torch.zeros(29, dtype=torch.int64)
    assert poptorch.inferenceModel(function)(x, bounds, ours) is None
    function(x, bounds, eager)
    assert ours.dtype == torch.int64 and torch.equal(ours, eager)


LAYERS = {
    "linear": (nn.Linear(4, 3), (2, 4)),
    "conv": (nn.Conv2d(4, 4, 3), (2, 4, 5, 5)),
    "transposed": (nn.ConvTranspose1d(4, 4, 3), (2, 4, 5)),
    "batch norm": (nn.BatchNorm1d(4), (2, 4)),
    "layer norm": (nn.LayerNorm(4), (2, 4)),
    "group norm": (nn.GroupNorm(2, 4), (2, 4, 3)),
    "instance norm": (nn.InstanceNorm1d(4, affine=True), (2, 4, 3)),
}


class Cast(nn.Module):
    def __init__(self, layer, dtype):
        super().__init__()
        self.layer, self.dtype = layer, dtype

    def forward(self, x):
        y = self.layer(x.to(self.dtype))
        assert y.dtype == self.dtype
        return y


@pytest.mark.shared
@pytest.mark.parametrize("given", [torch.float32, torch.uint8], ids=str)
@pytest.mark.parametrize("weights", [torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("activations", [torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_layers_give_the_type_of_their_activations(name, activations, weights, given):
    layer, shape = LAYERS[name]
    x = (torch.rand(shape) * 4).to(given)
    expected = layer.float()(x.float()).detach()
    wrapped = poptorch.inferenceModel(Cast(layer.to(weights), activations))
    found = wrapped(x)
    wrapped.destroy()
    assert found.dtype == activations
    torch.testing.assert_close(found.float(), expected, atol=5e-2, rtol=5e-2)
