"""PyTorch's own table of operators, OpInfo, as a source of cases: a sample that eager torch can
compute must come out the same, gradients too, or be refused with an error of ours, no bare one.
"""

import poptorch
import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

SAMPLES = 3  # of an operator, spread over its table

# What has no values to compare, with the reason.
WITHOUT_VALUES = {
    "memory that nobody has written": ("empty", "empty_like", "empty_permuted", "empty_strided",
        "new_empty", "new_empty_strided"),
    "random numbers, which are the device's own": ("bernoulli", "exponential", "geometric",
        "log_normal", "multinomial", "normal", "pca_lowrank", "rand_like", "randint",
        "randint_like", "randn", "randn_like", "svd_lowrank", "uniform", "cauchy",
        "nn.functional.alpha_dropout", "nn.functional.dropout", "nn.functional.dropout2d",
        "nn.functional.dropout3d", "nn.functional.feature_alpha_dropout",
        "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
        "nn.functional.multi_head_attention_forward", "nn.functional.rrelu",
        "nn.functional.scaled_dot_product_attention"),
    "statistics beside the result, in forms of their own": ("_batch_norm_with_update",
        "_native_batch_norm_legit", "native_batch_norm", "native_layer_norm"),
    "torch's own error": ("cov", "sparse.mm", "tensor_split"),
    "64-bit unsigned integers become 32-bit ones": ("hash_tensor",),
    "the number of bins is minlength": ("bincount",),
    "CUDA's alone": ("jiterator_2inputs_2outputs", "jiterator_4inputs_with_extra_args",
        "jiterator_binary", "jiterator_binary_return_by_ref", "jiterator_unary"),
}  # fmt: skip
LEFT_OUT = {name for names in WITHOUT_VALUES.values() for name in names}
DTYPES = (torch.float32, torch.int32, torch.bool)
NARROWED = {
    torch.int64: torch.int32,
    torch.float64: torch.float32,
    torch.complex128: torch.complex64,
}


def _cases():
    for info in op_db:
        name = ".".join(filter(None, (info.name, info.variant_test_name)))
        if info.name not in LEFT_OUT and any(dtype in info.dtypes for dtype in DTYPES):
            yield pytest.param(info, id=name)


class Sample(torch.nn.Module):
    """An operator whose tensors among its arguments are the inputs."""

    def __init__(self, op, sample):
        super().__init__()
        self.op = op
        leaves, self.spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        self.places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.inputs = [leaves[i].clone() for i in self.places]
        self.leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]

    def forward(self, *tensors):
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        first, args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.op(first, *args, **kwargs)


def _eager(model):
    """Results as a list of tensors; None where eager torch has none to compare with."""
    try:
        results = pytree.tree_leaves(model(*(t.clone() for t in model.inputs)))
    except (RuntimeError, NotImplementedError, ValueError, TypeError, IndexError):
        return None
    dense = all(isinstance(r, torch.Tensor) and r.layout == torch.strided for r in results)
    return results if dense else None


def _samples(info, dtype):
    samples = list(info.sample_inputs("cpu", dtype, requires_grad=False))
    for sample in samples[:: max(1, len(samples) // SAMPLES)]:
        model = Sample(info.op, sample)
        if model.inputs and all(t.numel() > 0 for t in model.inputs):
            yield model


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("info", list(_cases()))
def test_as_eager(info):
    dtype = next(d for d in DTYPES if d in info.dtypes)
    options = poptorch.Options().showCompilationProgressBar(False)
    for model in _samples(info, dtype):
        expected = _eager(model)
        if expected is None:
            continue
        try:
            wrapped = poptorch.inferenceModel(model, options)
            found = pytree.tree_leaves(wrapped(*model.inputs))
        except poptorch.Error:
            continue  # refused by name
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.dtype in (theirs.dtype, NARROWED.get(theirs.dtype))
            ours = ours.to(theirs.dtype)
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5, equal_nan=True)


class Weighted(torch.nn.Module):
    """A sample whose floating-point inputs are parameters; the loss weighs every element apart."""

    def __init__(self, sample):
        super().__init__()
        self.sample = sample
        self.trained = [i for i, t in enumerate(sample.inputs) if t.is_floating_point()]
        self.weights = torch.nn.ParameterList(sample.inputs[i].clone() for i in self.trained)
        self.rest = [t for t in sample.inputs if not t.is_floating_point()]

    def forward(self, *rest):
        weights, others = iter(self.weights), iter(rest)
        results = self.sample(
            *(next(weights if t.is_floating_point() else others) for t in self.sample.inputs)
        )
        loss = 0.0
        for result in pytree.tree_leaves(results):
            if result.is_floating_point():
                ramp = torch.linspace(0.5, 1.5, result.numel()).reshape(result.shape)
                loss = loss + (result * ramp).sum()
        return poptorch.identity_loss(loss, "none") if isinstance(loss, torch.Tensor) else loss


def _eager_gradients(model):
    """None where eager torch has no finite gradients to compare with."""
    try:
        loss = model(*model.rest)
        if not isinstance(loss, torch.Tensor) or not loss.requires_grad:
            return None
        loss.backward()
    except (RuntimeError, NotImplementedError, ValueError, TypeError, IndexError):
        return None
    gradients = [torch.zeros_like(w) if w.grad is None else w.grad for w in model.weights]
    finite = all(t.isfinite().all() for t in (*gradients, *model.weights))
    return gradients if finite else None


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "info",
    [c for c in _cases() if c.values[0].supports_autograd and DTYPES[0] in c.values[0].dtypes],
)
def test_gradients_as_eager(info):
    options = poptorch.Options().showCompilationProgressBar(False)
    for sample in _samples(info, torch.float32):
        expected = _eager_gradients(Weighted(sample)) if Weighted(sample).trained else None
        if expected is None:
            continue
        model = Weighted(sample)
        before = [w.detach().clone() for w in model.weights]
        try:
            wrapped = poptorch.trainingModel(
                model, options, torch.optim.SGD(model.parameters(), lr=1.0)
            )
            wrapped(*model.rest)
        except poptorch.Error:
            continue  # refused by name
        wrapped.copyWeightsToHost()
        for start, weight, gradient in zip(before, model.weights, expected, strict=True):
            allowed = 1e-4 * (1 + gradient.abs().max()) + 1e-6 * start.abs().max()
            assert ((start - weight.detach()) - gradient).abs().max() <= allowed
