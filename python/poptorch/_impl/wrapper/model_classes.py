"""The classes of wrapped models and of their tensors.

A training wrapper changes the class of its model and of the model's tensors, so that reading them
on the host first fetches what training has changed on the device; copies and pickles of them are of
the original classes.
"""

import copy
import copyreg
import functools
import weakref
from typing import Any, cast

import torch
from poptorch._impl.weights.newest import tensors_of
from poptorch._impl.weights.replica_groups import Grouped
from poptorch._impl.wrapper.state import Wrapper, WrapperState, wrapper_state
from poptorch_core import Error

_TENSOR: Any = torch.Tensor  # as no checker knows it: with its descriptors
# Writing the flag tells nothing about values, but a compiled program knows the old one.
_WRITE_FLAG = {torch.Tensor.requires_grad_, _TENSOR.requires_grad.__set__}


# Who reads one of these of a wrapped model is about to look at its weights.
_LEADS_TO_WEIGHTS = frozenset(("forward", "_parameters", "_buffers"))

# `.data` shares memory, but no counter of changes: a wrapped tensor gives its detach() instead.
_READ_DATA = _TENSOR.data.__get__
_WRITE_DATA = _TENSOR.data.__set__

# How models copy themselves where they do it by themselves.
_COPYING = ("__copy__", "__deepcopy__")
# What a torch.fx.GraphModule's class, which is one object's, must have in itself to be called.
_OF_GRAPHS = ("_wrapped_call",)


class _FetchOnRead:
    """Mixed into the class of a tensor: any look at it, at its shape too, fetches the newest values
    first."""

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
    """A tensor of the original class on the same storage, with current values."""
    type(tensor).__dict__["_poptorch_weights"].root().sync_host()
    with torch._C.DisableTorchFunctionSubclass():
        data = tensor.detach()
        original = _original_class(type(tensor))
        if issubclass(original, torch.nn.Parameter):
            return original(data, tensor.requires_grad)
        return data.requires_grad_(tensor.requires_grad)


def _original_class(kind: type) -> type:
    """The class that `kind` stands for: itself unless a training wrapper made it."""
    return kind.__dict__.get("_poptorch_original", kind)


def _tensor_class(original: type, state: WrapperState) -> type:
    fields = {
        "_poptorch_original": original,
        "_poptorch_weights": state.weights,
        "_poptorch_watch": state.watch,
    }
    if not issubclass(original, torch.nn.Parameter):
        return type("PoptorchBuffer", (_FetchOnRead, original), fields)
    fields["_poptorch_groupings"] = state.wrapped.groupings
    return type("PoptorchParameter", (_FetchOnRead, Grouped, original), fields)


def is_wrapped(model: torch.nn.Module) -> bool:
    """Whether a training wrapper holds the model."""
    return "_poptorch_original" in type(model).__dict__


def registerWrapperType(wrapper_type: type) -> None:
    """From now on isWrapped() tells of objects of the class, whose first base is the plain one."""
    _wrapper_types.append(wrapper_type)


_wrapper_types: list[type] = []


def isWrapped(obj: object) -> bool:
    """Whether a training wrapper holds a model or tensor, or a registered class an object."""
    return type(obj) is not _plain_class(obj)


def unwrapIfWrapped(obj: Any) -> Any:
    """The object itself, or a plain one that shares what a wrapped one has."""
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


def wrapper_of(model: torch.nn.Module):
    """The training wrapper that holds the model, or None."""
    held = type(model).__dict__.get("_poptorch_wrapper")
    return None if held is None else held()


def wrap(model: torch.nn.Module, wrapper: Wrapper) -> None:
    """Changes the class of the model, its parameters and its buffers.

    The model gets destroy() and copyWeightsToHostIfNeeded(); reading tensors fetches them.
    """
    original = type(model)
    if is_wrapped(model):
        raise RuntimeError(
            "Model has already been wrapped in 'poptorch.trainingModel'. Call model.destroy() on "
            "the model to unwrap before wrapping again."
        )
    weights = wrapper_state(wrapper).weights
    held = weakref.ref(wrapper)

    def destroy(self):
        """Frees the device of the training wrapper and unwraps this model."""
        if (alive := held()) is not None:
            alive.destroy()
        else:
            unwrap(self)

    def copy_weights_to_host_if_needed(self):
        """Fetches the newest weights; whether the host's were stale."""
        return weights.root().sync_host()

    def get_attribute(self, name):
        if name in _LEADS_TO_WEIGHTS:
            weights.root().sync_host()
        return original.__getattribute__(self, name)

    def plain(self):
        """The same modules and attributes under the original class, with current values."""
        weights.root().sync_host()
        made: Any = object.__new__(original)  # a class of torch.fx would make one more class
        made.__dict__.update(self.__dict__)
        return made

    def reduce_ex(self, protocol):
        make, arguments, *rest = cast(tuple, plain(self).__reduce_ex__(protocol))
        if (
            make is vars(copyreg)["__newobj__"]
        ):  # pickle insists that it makes the object's own class
            make = object.__new__
        return make, arguments, *rest

    def copied_plain(name):
        def method(self, *memo):
            unwrapped = plain(self)
            made = getattr(original, name)(unwrapped, *memo)
            for known in memo:  # `unwrapped` lives as long as its id is in there
                known.setdefault(id(known), []).append(unwrapped)
            return made

        return method

    own = {name: copied_plain(name) for name in _COPYING if hasattr(original, name)}
    own |= {name: vars(original)[name] for name in _OF_GRAPHS if name in vars(original)}
    _wrap_tensors(model, wrapper)
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
    """Wraps what destroy(), which may have been cut short, has unwrapped."""
    if is_wrapped(model):
        _wrap_tensors(model, wrapper)
    else:
        wrap(model, wrapper)


def _wrap_tensors(model: torch.nn.Module, wrapper: Wrapper) -> None:
    tensor_class = functools.cache(lambda kind: _tensor_class(kind, wrapper_state(wrapper)))
    for tensor in tensors_of(model):
        if _original_class(type(tensor)) is type(tensor):
            tensor.__class__ = tensor_class(type(tensor))


def unwrap(model: torch.nn.Module) -> None:
    """Gives the model and its tensors their own classes back."""
    if is_wrapped(model):
        for tensor in tensors_of(model):
            tensor.__class__ = _original_class(type(tensor))
        model.__class__ = _original_class(type(model))
        if isinstance(model, torch.fx.GraphModule):
            model.recompile()  # the code of the class is that of the wrapped one's graph


def shallow_copy(model: torch.nn.Module) -> torch.nn.Module:
    """A model of its own modules and attributes (such as `training`) that shares every tensor."""
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
