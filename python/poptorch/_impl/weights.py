"""Where the newest weights are: on the host or on a wrapper's device.

Wrappers of models that share tensors share one `Weights`. A training wrapper changes the class of
its model and of the model's tensors, so that reading them on the host first fetches what training
has changed on the device; copies and pickles of them are of the original classes.
"""

import copy
import copyreg
import functools
import weakref
from typing import Any, cast

import torch
from poptorch._impl.replica_groups import Grouped
from poptorch._logging import logger
from poptorch_core import Error
from torch.utils.weak import WeakTensorKeyDictionary

# Getters and methods that tell nothing about values: they fetch nothing.
_METADATA = {
    getattr(torch.Tensor, name).__get__
    for name in (
        *("shape", "dtype", "device", "layout", "requires_grad", "grad", "grad_fn", "is_leaf"),
        *("ndim", "_version", "itemsize", "nbytes"),
    )
} | {
    getattr(torch.Tensor, name)
    for name in (
        *("size", "dim", "numel", "nelement", "stride", "storage_offset", "is_contiguous"),
        *("is_floating_point", "is_complex", "element_size", "__len__", "data_ptr"),
    )
}
# Writing the flag tells nothing about values either, but a compiled program knows the old one.
_TENSOR: Any = torch.Tensor  # as no checker knows it: with its descriptors
_WRITE_FLAG = {torch.Tensor.requires_grad_, _TENSOR.requires_grad.__set__}


# `.data` shares memory, but no counter of changes: a wrapped tensor gives its detach() instead.
_READ_DATA = _TENSOR.data.__get__
_WRITE_DATA = _TENSOR.data.__set__


class Weights:
    """Versions of the tensors that some models share.

    version: counts changes on any device or by an explicit upload.
    newest: the executor whose device has weights that the host has not, or None.
    """

    def __init__(self) -> None:
        self.version = 0
        self.newest = None
        self.merged_into: Weights | None = None
        # Views that share the tensors' counters of changes, and what those were when host and
        # device last agreed.
        self._views: list[torch.Tensor] = []
        self._counts: list[int] = []
        self._replaced = False  # a tensor's memory, by `.data = `, since then
        self._fetching = False  # counts mean nothing, also when that was cut short
        self._warned = False

    def watch(self, tensor: torch.Tensor) -> None:
        """Looks at changes of a tensor on the host from here on."""
        if tensor.is_inference():  # made under torch.inference_mode: counts nothing
            return
        with torch._C.DisableTorchFunctionSubclass():
            self._views.append(tensor.detach())
        self._counts.append(self._views[-1]._version)

    def host_is_known(self) -> None:
        """What the host holds now came from a device or went there."""
        self._counts = [view._version for view in self._views]
        self._replaced = self._fetching = False

    def memory_was_replaced(self) -> None:
        """A tensor has other memory than before, which no counter tells."""
        self._replaced = True

    def warn_about_host_changes(self) -> None:
        """Says once that the host's tensors have been written and the device has not seen it."""
        if self._warned:
            return
        if not self._replaced and self._counts == [view._version for view in self._views]:
            return
        if self._fetching:
            self.host_is_known()
            return
        self._warned = True
        logger.warning(
            "The model's parameters or buffers were changed on the host since they were last "
            "copied: the device goes on with its own. Call copyWeightsToDevice() to use the host's"
        )

    def root(self) -> "Weights":
        """The object that stands for this one since models were found to share tensors."""
        weights = self
        while weights.merged_into is not None:
            weights = weights.merged_into
        return weights

    def merge(self, other: "Weights") -> None:
        """Makes `other` and this one the same."""
        self, other = self.root(), other.root()
        if self is not other:
            self.version = max(self.version, other.version)
            self.newest = self.newest or other.newest
            self._views += other._views
            self._counts += other._counts
            other.merged_into = self

    def changed_on(self, executor) -> int:
        """The device of `executor` now has the newest weights; gives their version."""
        self.version += 1
        self.newest = executor
        return self.version

    def sync_host(self) -> bool:
        """Fetches the newest weights; False when the host had them."""
        executor, version = self.newest, self.version
        if executor is None:
            return False
        self._fetching = True
        compiled = executor._compiled
        if compiled is not None:  # else another thread's destroy() has fetched them
            compiled.executable.weights_to_host()
        self.host_is_known()
        if self.version == version:  # another thread's step may have made newer ones
            self.newest = None
        return True


# Weak in both: a `Weights` may hold an executor, and that its model, so its tensors. Executors and
# the classes of wrapped tensors keep it.
_of_tensor = WeakTensorKeyDictionary()


def weights_of(model: torch.nn.Module) -> Weights:
    """The `Weights` of a model's tensors, shared with every model that has one of them."""
    weights = Weights()
    for tensor in _tensors(model):
        reference = _of_tensor.get(tensor)
        known = reference and reference()
        if known is None:
            _of_tensor[tensor] = weakref.ref(weights)
            weights.root().watch(tensor)
        else:
            known.merge(weights)
    return weights.root()


def _tensors(model: torch.nn.Module) -> list[torch.Tensor]:
    return [*model.parameters(), *model.buffers()]


class _FetchOnRead:
    """Mixed into the class of a tensor: any look at its values fetches the newest first."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            if function in _WRITE_FLAG:
                for kind in types:
                    if "_poptorch_watch" in kind.__dict__:
                        kind._poptorch_watch.flags_touched = True
            elif function not in _METADATA:
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


def _tensor_class(original: type, executor) -> type:
    fields = {
        "_poptorch_original": original,
        "_poptorch_weights": executor._weights,
        "_poptorch_watch": executor._model_watch,
    }
    if not issubclass(original, torch.nn.Parameter):
        return type("PoptorchBuffer", (_FetchOnRead, original), fields)
    fields["_poptorch_groupings"] = executor._wrapped.groupings
    return type("PoptorchParameter", (_FetchOnRead, Grouped, original), fields)


def is_wrapped(model: torch.nn.Module) -> bool:
    """Whether a training wrapper holds the model."""
    return "_poptorch_original" in type(model).__dict__


def wrap(model: torch.nn.Module, executor) -> None:
    """Changes the class of the model, its parameters and its buffers.

    The model gets destroy() and copyWeightsToHostIfNeeded(); reading tensors fetches them.
    """
    original = type(model)
    if is_wrapped(model):
        raise RuntimeError(
            "Model has already been wrapped in 'poptorch.trainingModel'. Call model.destroy() on "
            "the model to unwrap it before wrapping it again."
        )
    weights = executor._weights
    held = weakref.ref(executor)

    def destroy(self):
        """Frees the device of the training wrapper and unwraps this model."""
        if (wrapper := held()) is not None:
            wrapper.destroy()
        else:
            unwrap(self)

    def copy_weights_to_host_if_needed(self):
        """Fetches the newest weights; whether the host's were stale."""
        return weights.root().sync_host()

    def reduce_ex(self, protocol):
        weights.root().sync_host()
        made = original.__new__(original)
        made.__dict__.update(self.__dict__)
        make, arguments, *rest = cast(tuple, made.__reduce_ex__(protocol))
        if (
            make is vars(copyreg)["__newobj__"]
        ):  # pickle insists that it makes the object's own class
            make = object.__new__
        return make, arguments, *rest

    _wrap_tensors(model, executor)
    model.__class__ = type(
        f"Poptorch{original.__name__}",
        (original,),
        {
            "_poptorch_original": original,
            "destroy": destroy,
            "copyWeightsToHostIfNeeded": copy_weights_to_host_if_needed,
            "__reduce_ex__": reduce_ex,
        },
    )


def wrap_again(model: torch.nn.Module, executor) -> None:
    """Wraps what destroy(), which may have been cut short, has unwrapped."""
    if is_wrapped(model):
        _wrap_tensors(model, executor)
    else:
        wrap(model, executor)


def _wrap_tensors(model: torch.nn.Module, executor) -> None:
    tensor_class = functools.cache(lambda kind: _tensor_class(kind, executor))
    for tensor in _tensors(model):
        if _original_class(type(tensor)) is type(tensor):
            tensor.__class__ = tensor_class(type(tensor))


def unwrap(model: torch.nn.Module) -> None:
    """Gives the model and its tensors their own classes back."""
    if is_wrapped(model):
        for tensor in _tensors(model):
            tensor.__class__ = _original_class(type(tensor))
        model.__class__ = _original_class(type(model))


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
