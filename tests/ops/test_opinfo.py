"""PyTorch's own table of operators, OpInfo, as a source of cases: every sample that eager torch can
compute must come out the same, or be refused with an error of ours, never a bare one.
"""

import poptorch
import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

SAMPLES = 6  # of an operator, spread over its table

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


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("info", list(_cases()))
def test_as_eager(info):
    dtype = next(d for d in DTYPES if d in info.dtypes)
    samples = list(info.sample_inputs("cpu", dtype, requires_grad=False))
    options = poptorch.Options().showCompilationProgressBar(False)
    for sample in samples[:: max(1, len(samples) // SAMPLES)]:
        model = Sample(info.op, sample)
        if not model.inputs or any(t.numel() == 0 for t in model.inputs):
            continue
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
