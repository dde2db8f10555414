"""Gives wrapped models their original classes for a time, and wraps them again.

Some trainers do so before they pickle a model, or look for a model by its class. Reading the model
does not fetch weights from the device until it is wrapped again.
"""

import weakref
from typing import Any

import torch
from poptorch._impl.weights.newest import tensors_of
from poptorch._impl.wrapper import model_classes
from poptorch._impl.wrapper.state import wrapper_state
from torch.utils.weak import WeakIdKeyDictionary

# Maps an unwrapped model, parameter or buffer to a weak reference to its training wrapper.
_wrappers: Any = WeakIdKeyDictionary()


def unwrapModelIfNecessary(model: Any) -> Any:
    """Gives a wrapped model and its tensors their original classes, with current values.

    Args:
        model: A wrapped model, or a parameter or buffer of one. Other objects stay unchanged.

    Returns:
        The same object.
    """
    if not isinstance(model, (torch.nn.Module, torch.Tensor)):
        return model
    wrapper = model_classes.wrapper_of(model)
    if wrapper is not None:
        wrapper_state(wrapper).weights.root().sync_host()
        parts: list[Any] = (
            [model] if isinstance(model, torch.Tensor) else [*tensors_of(model), model]
        )
        for part in parts:
            if model_classes.wrapper_of(part) is wrapper:
                _wrappers[part] = weakref.ref(wrapper)
    if isinstance(model, torch.Tensor):
        model_classes.unwrap_tensor(model)
    else:
        model_classes.unwrap(model)
    return model


def rewrapModelIfNecessary(model: Any) -> Any:
    """Wraps a model again that unwrapModelIfNecessary() has unwrapped, with all its tensors.

    Args:
        model: An unwrapped model, parameter or buffer. Other objects stay unchanged, as does a
            model whose wrapper was destroyed.

    Returns:
        The same object.
    """
    if isinstance(model, torch.nn.Module) and model in _wrappers:
        for tensor in tensors_of(model):
            restore_wrapper(tensor)
    return restore_wrapper(model)


def restore_wrapper(obj: Any) -> Any:
    """Gives one unwrapped object its wrapped class again: the model alone, or one tensor.

    Args:
        obj: An unwrapped model, parameter or buffer. Other objects stay unchanged.

    Returns:
        The same object.
    """
    if isinstance(obj, (torch.nn.Module, torch.Tensor)):
        wrapper = _wrappers.pop(obj, _gone)()
        if wrapper is not None and not model_classes.isWrapped(obj):
            if isinstance(obj, torch.Tensor):
                model_classes.wrap_tensors([obj], wrapper)
            else:
                model_classes.wrap_class(obj, wrapper)
    return obj


def forget(model: torch.nn.Module) -> None:
    """Forgets that a model was unwrapped, because its wrapper was destroyed."""
    for part in (model, *tensors_of(model)):
        _wrappers.pop(part, None)


def _gone() -> None:
    """Stands for a weak reference to a wrapper that does not exist."""
