"""Replacements for functions of torch that read values of tensors, which a trace lacks."""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from poptorch._impl.weights import members
from poptorch_core import _torch
from torch.jit._state import _python_cu
from torch.nn import functional as F
from torch.nn.modules import transformer


def replacements() -> Iterator[tuple[Any, str, Callable]]:
    """Yields (holder, name, replacement)."""
    for name in ("tolist", "numpy", "__array__"):
        yield torch.Tensor, name, _of_known_values(getattr(torch.Tensor, name))
    yield torch.Tensor, "new", _new(torch.Tensor.new)
    yield torch.Tensor, "new_tensor", _new_tensor(torch.Tensor.new_tensor)
    if torch.__version__ >= "2.15":
        yield torch.Tensor, "__setitem__", _without_numbers(torch.Tensor.__setitem__)
    yield transformer, "_detect_is_causal_mask", _is_causal_as_told
    yield F, "gaussian_nll_loss", _counted(_of_any_variance(F.gaussian_nll_loss))
    for name in ("multilabel_soft_margin_loss", "triplet_margin_with_distance_loss"):
        yield F, name, _counted(getattr(F, name))
    for name in ("kl_div", "mse_loss", "l1_loss", "huber_loss"):
        yield F, name, _counted_where_composed(getattr(F, name))


@contextlib.contextmanager
def scripts_op_by_op(model: torch.nn.Module | None) -> Iterator[None]:
    """Makes TorchScript run op by op in the body.

    After two runs, TorchScript fuses ops into pieces with separate gradients, which a trace does
    not see. This clears such pieces and prevents new ones.
    """
    jit: Any = torch.jit  # its stubs lack most of these names
    scripts: Any = _python_cu
    functions = list(scripts.get_functions())
    for _, module in [] if model is None else members.named_modules(model):
        if isinstance(module, jit.RecursiveScriptModule):  # loaded ones are not in get_functions()
            functions += [module._c._get_method(name) for name in module._c._method_names()]
    for function in functions:
        with contextlib.suppress(RuntimeError):  # it has not been compiled, so has no cache
            function._debug_flush_compilation_cache()
    with jit.optimized_execution(False):
        yield


def _of_known_values(plain: Callable) -> Callable:
    """Makes a method read the tensor's value if that is known in the trace."""

    def read(tensor: torch.Tensor, *arguments: Any, **keywords: Any) -> Any:
        is_of_device = _torch.is_traced(tensor) or tensor.device.type == "ipu"
        known = _torch.known(tensor) if is_of_device else None
        if known is None:
            return plain(tensor, *arguments, **keywords)
        return _torch.call_untraced(functools.partial(plain, known, *arguments, **keywords))

    return read


def _new(plain: Callable) -> Callable:
    """Replaces Tensor.new: distributions create tensors by it, from sizes or data."""

    def new(tensor: torch.Tensor, *arguments: Any, **keywords: Any) -> torch.Tensor:
        if tensor.device.type != "ipu":
            return plain(tensor, *arguments, **keywords)
        if len(arguments) == 1 and isinstance(arguments[0], (list, tuple, torch.Tensor)):
            if not isinstance(arguments[0], torch.Size):
                return tensor.new_tensor(arguments[0])
        return tensor.new_empty(*arguments or (0,))

    return new


def _new_tensor(plain: Callable) -> Callable:
    """Replaces Tensor.new_tensor, where torch derives the device from dispatch keys."""

    def new_tensor(tensor: torch.Tensor, data: Any, **keywords: Any) -> torch.Tensor:
        if tensor.device.type != "ipu":
            return plain(tensor, data, **keywords)
        dtype = keywords.pop("dtype", None) or tensor.dtype
        device = keywords.pop("device", None) or tensor.device
        if isinstance(data, torch.Tensor):
            made = data.detach().to(device, dtype, copy=True)
            return made.requires_grad_(keywords.get("requires_grad", False))
        return torch.tensor(data, dtype=dtype, device=device, **keywords)

    return new_tensor


def _without_numbers(plain: Callable) -> Callable:
    """Replaces x[i] = v for a v without dimensions: torch 2.15 looks at its memory and at x's."""

    def set_item(tensor: torch.Tensor, index: Any, value: Any) -> None:
        is_number = isinstance(value, torch.Tensor) and value.dim() == 0
        plain(tensor, index, value.view(1) if is_number else value)

    return set_item


def _is_causal_as_told(_mask, is_causal: bool | None = None, size: int | None = None) -> bool:
    """Replaces torch's check of a mask's values, which only chooses a kernel."""
    return is_causal is True


def _of_any_variance(plain: Callable) -> Callable:
    """Skips the check for negative variances, for which eager torch raises an error."""

    def loss(*arguments: Any, **keywords: Any) -> torch.Tensor:
        with mock.patch.object(torch, "any", lambda _: False):
            return plain(*arguments, **keywords)

    return loss


def _counted_where_composed(plain: Callable) -> Callable:
    """Counts a loss as one if weights or reduction="batchmean" make torch compose it in Python."""
    counted = _counted(plain)
    signature = functools.cache(lambda: inspect.signature(plain))  # few traces need it

    def loss(*arguments: Any, **keywords: Any) -> torch.Tensor:
        given = signature().bind(*arguments, **keywords).arguments
        is_composed = given.get("weight") is not None or given.get("reduction") == "batchmean"
        return (counted if is_composed else plain)(*arguments, **keywords)

    return loss


def _counted(plain: Callable) -> Callable:
    """Makes a loss that torch composes in Python count as a loss, like loss operators."""

    def loss(*arguments: Any, **keywords: Any) -> torch.Tensor:
        result = plain(*arguments, **keywords)
        is_number = result.dim() == 0 and result.device.type == "ipu"
        return torch.ops.poptorch.identity_loss(result, "none") if is_number else result

    return loss
