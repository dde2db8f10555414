"""The classes of wrapped models and of their tensors.

A training wrapper changes the class of its model and of the model's tensors. Reading one on the
host first fetches the values that training changed on the device. Copies and pickles have the
original classes.
"""

import copy
import copyreg
import functools
import weakref
from collections.abc import Iterable
from typing import Any, cast

import torch
from poptorch._impl.weights.newest import tensors_of
from poptorch._impl.weights.replica_groups import Grouped
from poptorch._impl.wrapper.state import Wrapper, wrapper_state
from poptorch_core import Error

_TENSOR: Any = torch.Tensor  # type checkers do not know its descriptors
# Writing requires_grad reads no values, but a compiled program depends on the old flag.
_WRITE_FLAG = {torch.Tensor.requires_grad_, _TENSOR.requires_grad.__set__}


# Reading one of these attributes of a wrapped model usually precedes a look at its weights.
_LEADS_TO_WEIGHTS = frozenset(("forward", "_parameters", "_buffers"))

# `.data` shares memory but not the version counter: a wrapped tensor returns detach() instead.
_READ_DATA = _TENSOR.data.__get__
_WRITE_DATA = _TENSOR.data.__set__

# The methods by which models define how they are copied.
_COPYING = ("__copy__", "__deepcopy__")
# A torch.fx.GraphModule has a class for itself, which must define these to be callable.
_OF_GRAPHS = ("_wrapped_call",)


class _FetchOnRead:
    """Mixed into the class of a tensor: every read, even of the shape, first fetches new values."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            if function in _WRITE_FLAG:
                for kind in types:
                    if "_poptorch_watch" in kind.__dict__:
                        kind._poptorch_watch.flags_touched = True
            else:
                for kind in types:
                    weights = kind.__dict__.get("_poptorch_weights")
                    if weights is not None:
                        weights.root().sync_host()
                        if function == _WRITE_DATA:
                            weights.root().memory_was_replaced()
            if function == _READ_DATA:
                return args[0].detach()
            return function(*args, **(kwargs or {}))

    def __deepcopy__(self, memo):
        made = copy.deepcopy(_plain(self), memo)
        memo[id(self)] = made
        return made

    def __repr__(self):
        return repr(_plain(self))

    def __reduce_ex__(self, protocol):
        return _plain(self).__reduce_ex__(protocol)


def _plain(tensor: Any) -> torch.Tensor:
    """Returns a tensor of the original class on the same storage, with current values."""
    type(tensor).__dict__["_poptorch_weights"].root().sync_host()
    with torch._C.DisableTorchFunctionSubclass():
        data = tensor.detach()
        original = _original_class(type(tensor))
        if issubclass(original, torch.nn.Parameter):
            return original(data, tensor.requires_grad)
        return data.requires_grad_(tensor.requires_grad)


def original_name(obj: object) -> str:
    """Returns the name of the class that an object has outside of a wrapper."""
    return _original_class(type(obj)).__name__


def _original_class(kind: type) -> type:
    """Returns the class that `kind` replaces; `kind` itself unless a training wrapper made it."""
    return kind.__dict__.get("_poptorch_original", kind)


def _tensor_class(original: type, wrapper: Wrapper) -> type:
    state = wrapper_state(wrapper)
    fields = {
        "_poptorch_original": original,
        "_poptorch_wrapper": weakref.ref(wrapper),
        "_poptorch_weights": state.weights,
        "_poptorch_watch": state.watch,
    }
    if not issubclass(original, torch.nn.Parameter):
        return type("PoptorchBuffer", (_FetchOnRead, original), fields)
    fields["_poptorch_groupings"] = state.wrapped.groupings
    return type("PoptorchParameter", (_FetchOnRead, Grouped, original), fields)


def is_wrapped(model: torch.nn.Module) -> bool:
    """Returns whether a training wrapper holds the model."""
    return "_poptorch_original" in type(model).__dict__


def registerWrapperType(wrapper_type: type) -> None:
    """Makes isWrapped() return True for objects of the class.

    Args:
        wrapper_type: A class whose first base is the unwrapped class.
    """
    _wrapper_types.append(wrapper_type)


_wrapper_types: list[type] = []


def isWrapped(obj: object) -> bool:
    """Returns whether a training wrapper holds a model or tensor.

    Objects of classes of registerWrapperType() count as wrapped, too.
    """
    return type(obj) is not _plain_class(obj)


def unwrapIfWrapped(obj: Any) -> Any:
    """Returns an unwrapped object with the same attributes; `obj` itself if it is not wrapped."""
    if not isWrapped(obj):
        return obj
    if isinstance(obj, torch.Tensor):
        return _plain(obj)
    if is_wrapped(obj):
        return shallow_copy(obj)
    made: Any = object.__new__(_plain_class(obj))
    made.__dict__.update(obj.__dict__)
    return made


def _plain_class(value: object) -> type:
    kind = type(value)
    return kind.__bases__[0] if kind in _wrapper_types else _original_class(kind)


def wrapper_of(obj: torch.nn.Module | torch.Tensor) -> Any:
    """Returns the training wrapper that holds the model or tensor, or None."""
    held = type(obj).__dict__.get("_poptorch_wrapper")
    return None if held is None else held()


def wrap(model: torch.nn.Module, wrapper: Wrapper) -> None:
    """Changes the class of the model, its parameters and its buffers.

    Adds destroy() and copyWeightsToHostIfNeeded() to the model; reading a tensor fetches it.
    """
    if is_wrapped(model):
        raise RuntimeError(
            "Model has already been wrapped in 'poptorch.trainingModel'. Call model.destroy() on "
            "the model to unwrap before wrapping again."
        )
    wrap_tensors(tensors_of(model), wrapper)
    wrap_class(model, wrapper)


def wrap_class(model: torch.nn.Module, wrapper: Wrapper) -> None:
    """Changes the class of the model alone."""
    original = type(model)
    weights = wrapper_state(wrapper).weights
    held = weakref.ref(wrapper)

    def destroy(self):
        """Frees the device of the training wrapper and unwraps this model."""
        if (alive := held()) is not None:
            alive.destroy()
        else:
            unwrap(self)

    def copy_weights_to_host_if_needed(self):
        """Fetches the newest weights; returns whether the host's were stale."""
        return weights.root().sync_host()

    def get_attribute(self, name):
        if name in _LEADS_TO_WEIGHTS:
            weights.root().sync_host()
        return original.__getattribute__(self, name)

    def plain(self):
        """Returns a shallow copy of the model with the original class and current values."""
        weights.root().sync_host()
        made: Any = object.__new__(original)  # a torch.fx class would create another class
        made.__dict__.update(self.__dict__)
        return made

    def reduce_ex(self, protocol):
        make, arguments, *rest = cast(tuple, plain(self).__reduce_ex__(protocol))
        if (
            make is vars(copyreg)["__newobj__"]
        ):  # pickle requires that it creates the object's own class
            make = object.__new__
        return make, arguments, *rest

    def copied_plain(name):
        def method(self, *memo):
            unwrapped = plain(self)
            made = getattr(original, name)(unwrapped, *memo)
            for known in memo:  # keeps `unwrapped` alive as long as the memo has its id
                known.setdefault(id(known), []).append(unwrapped)
            return made

        return method

    own = {name: copied_plain(name) for name in _COPYING if hasattr(original, name)}
    own |= {name: vars(original)[name] for name in _OF_GRAPHS if name in vars(original)}
    model.__class__ = type(
        f"Poptorch{original.__name__}",
        (original,),
        {
            "_poptorch_original": original,
            "_poptorch_wrapper": held,
            "destroy": destroy,
            "copyWeightsToHostIfNeeded": copy_weights_to_host_if_needed,
            "__getattribute__": get_attribute,
            "__reduce_ex__": reduce_ex,
            **own,
        },
    )


def wrap_again(model: torch.nn.Module, wrapper: Wrapper) -> None:
    """Wraps a model that destroy() has unwrapped, perhaps only in part."""
    wrap_tensors(tensors_of(model), wrapper)
    if not is_wrapped(model):
        wrap_class(model, wrapper)


def wrap_tensors(tensors: Iterable[torch.Tensor], wrapper: Wrapper) -> None:
    """Changes the classes of tensors, unless a wrapper holds them already."""
    tensor_class = functools.cache(lambda kind: _tensor_class(kind, wrapper))
    for tensor in tensors:
        if _original_class(type(tensor)) is type(tensor):
            tensor.__class__ = tensor_class(type(tensor))


def unwrap(model: torch.nn.Module) -> None:
    """Restores the original classes of the model and its tensors."""
    if is_wrapped(model):
        for tensor in tensors_of(model):
            unwrap_tensor(tensor)
        unwrap_class(model)


def unwrap_class(model: torch.nn.Module) -> None:
    """Restores the original class of the model alone."""
    if is_wrapped(model):
        model.__class__ = _original_class(type(model))
        if isinstance(model, torch.fx.GraphModule):
            model.recompile()  # the class still has the code of the wrapped model's graph


def unwrap_tensor(tensor: torch.Tensor) -> None:
    """Restores the original class of a tensor."""
    tensor.__class__ = _original_class(type(tensor))


def shallow_copy(model: torch.nn.Module) -> torch.nn.Module:
    """Copies modules and attributes (such as `training`), but shares every tensor."""
    copies: dict[int, torch.nn.Module] = {}

    def visit(module):
        if isinstance(module, torch.jit.ScriptModule):
            return module
        if id(module) not in copies:
            kind = _original_class(type(module))
            made: torch.nn.Module = object.__new__(kind)
            copies[id(module)] = made
            made.__dict__.update(module.__dict__)
            made.__dict__["_modules"] = {
                name: child if child is None else visit(child)
                for name, child in module._modules.items()
            }
        return copies[id(module)]

    made = visit(model)
    if made is model:
        raise Error(
            "[model] a torch.jit.ScriptModule cannot be wrapped by itself: make it a submodule of "
            "an nn.Module, or wrap the module that was scripted."
        )
    return made
