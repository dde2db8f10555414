"""Makes a Case of each sample of PyTorch's tables OpInfo and ModuleInfo.

A table is walked in a fixed order with a fixed seed, so that a case is found again by its key.
"""

import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from specials import SPECIALS
from torch.testing._internal import common_utils
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.utils import _pytree as pytree

# For every sample the tables search the stack for a unittest.TestCase, and read the sources of all
# frames: half of the survey's time. The survey has no TestCase.
common_utils.extract_test_fn = lambda: None

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.bool)

# Entries that do not run, with the reason.
LEFT_OUT = {
    "memory that nobody has written": {"empty", "empty_like", "empty_permuted", "empty_strided",
        "new_empty", "new_empty_strided"},
    "CUDA's alone": {"jiterator_2inputs_2outputs", "jiterator_4inputs_with_extra_args",
        "jiterator_binary", "jiterator_binary_return_by_ref", "jiterator_unary"},
    "no weights before a first call": {"LazyConv1d", "LazyConv2d", "LazyConv3d",
        "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d"},
}  # fmt: skip

# These draw random numbers: only shape and dtype are compared.
RANDOM = {
    "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal",
    "normal.in_place", "normal.number_mean", "pca_lowrank", "rand_like", "randint", "randint_like",
    "randn", "randn_like", "svd_lowrank", "uniform", "nn.functional.alpha_dropout",
    "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d",
    "nn.functional.feature_alpha_dropout.with_train",
    "nn.functional.feature_alpha_dropout.without_train", "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d", "nn.functional.rrelu",
    "nn.functional.multi_head_attention_forward", "nn.functional.scaled_dot_product_attention",
    "module Dropout", "module AlphaDropout", "module FeatureAlphaDropout", "module Dropout1d",
    "module Dropout2d", "module Dropout3d", "module RReLU", "module FractionalMaxPool2d",
    "module FractionalMaxPool3d", "module Transformer", "module TransformerEncoderLayer",
    "module TransformerDecoderLayer", "module TransformerEncoder", "module MultiheadAttention",
}  # fmt: skip


# These choose among equal elements in any order.
PICKS = {"topk", "sort", "argsort"}


@dataclass
class Case:
    """A function of tensors. `tensors` are its inputs, in order; `held`: the module's tensors."""

    key: str
    function: Callable[..., Any]
    tensors: list[torch.Tensor]
    held: torch.nn.Module | None = None
    is_elementwise: bool = False
    is_random: bool = False
    trains: bool = True
    picks: bool = False  # results are chosen elements and places: ties may differ
    precision: torch.dtype | None = None
    floats: list[int] = field(default_factory=list)  # the tensors that get gradients

    def __post_init__(self) -> None:
        self.floats = [
            i for i, t in enumerate(self.tensors) if t.is_floating_point() and self.trains
        ]


def _seed(text: str) -> None:
    number = zlib.crc32(text.encode())
    torch.manual_seed(number)
    random.seed(number)


def _name(info) -> str:
    return ".".join(filter(None, (info.name, info.variant_test_name)))


def names() -> list[str]:
    """Yields every entry of both tables."""
    left_out = set().union(*LEFT_OUT.values())
    ops = [_name(info) for info in op_db if info.name not in left_out]
    modules = [info.name.removeprefix("nn.") for info in module_db]
    return ops + [f"module {name}" for name in modules if name not in left_out]


def _function_of(call, arguments) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    leaves, spec = pytree.tree_flatten(arguments)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    tensors = [leaves[i].detach().clone() for i in places]
    others = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]

    def function(*given):
        filled = list(others)
        for place, tensor in zip(places, given, strict=True):
            filled[place] = tensor
        args, kwargs = pytree.tree_unflatten(filled, spec)
        return call(*args, **kwargs)

    return function, tensors


def _op_cases(info, dtype: torch.dtype) -> Iterator[Case]:
    name = _name(info)
    _seed(name)
    is_elementwise = hasattr(info, "domain") or hasattr(info, "lhs_make_tensor_kwargs")
    shared = {
        "is_elementwise": is_elementwise,
        "is_random": name in RANDOM,
        "picks": name in PICKS,
        "trains": info.supports_autograd and dtype.is_floating_point,
    }
    for number, sample in enumerate(info.sample_inputs("cpu", dtype)):
        key = f"{name} {str(dtype)[6:]} {number}"
        arguments = ((sample.input, *sample.args), sample.kwargs)
        function, tensors = _function_of(info.op, arguments)
        yield Case(key, function, tensors, **shared)
        for special, transform in SPECIALS.items():
            changed = transform(name, tensors)
            if changed is not None:
                yield Case(f"{key} {special}", function, changed, **shared)
        in_place = info.inplace_variant
        if in_place is not None and not sample.broadcasts_input:
            function, tensors = _function_of(_on_copy(in_place), arguments)
            yield Case(f"{key} in_place", function, tensors, **shared)
            function, tensors = _function_of(in_place, arguments)
            yield Case(f"{key} input_in_place", function, tensors, **(shared | {"trains": False}))


def _on_copy(in_place):
    def call(x, *args, **kwargs):
        x = x.clone()
        in_place(x, *args, **kwargs)
        return x

    return call


def _module_cases(info, dtype: torch.dtype) -> Iterator[Case]:
    name = f"module {info.name.removeprefix('nn.')}"
    for training in (True, False):
        _seed(name)
        inputs = info.module_inputs_func(
            info, device="cpu", dtype=dtype, requires_grad=False, training=training
        )
        for number, given in enumerate(inputs):
            made, call = given.constructor_input, given.forward_input
            _seed(f"{name} {number}")
            module = info.module_cls(*made.args, **made.kwargs)
            module = module.to(dtype).train(training)
            key = f"{name} {str(dtype)[6:]} {number} {'train' if training else 'eval'}"
            function, tensors = _function_of(module, (call.args, call.kwargs))
            yield Case(
                key,
                function,
                tensors,
                module,
                is_random=name in RANDOM and training,
                trains=info.supports_gradgrad or training,
            )


def cases(name: str, dtype: torch.dtype) -> Iterator[Case]:
    """Yields the cases of an entry in one dtype; none if it does not support the dtype."""
    if name.startswith("module "):
        for info in module_db:
            if info.name.removeprefix("nn.") == name.removeprefix("module "):
                if dtype in info.dtypes:
                    yield from _module_cases(info, dtype)
        return
    for info in op_db:
        if _name(info) == name and dtype in info.dtypes:
            yield from _op_cases(info, dtype)


def find(key: str) -> Case:
    """Returns the case of a key: the entry's name, the dtype, the sample's number, the change."""
    entry, dtype = next(
        (name, dtype)
        for name in names()
        for dtype in DTYPES
        if key.startswith(f"{name} {str(dtype)[6:]} ")
    )
    return next(case for case in cases(entry, dtype) if case.key == key)
