"""The location of the newest weights: the host or a wrapper's device.

Wrappers of models that share tensors share one `Weights`.
"""

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from poptorch._impl.devices import faults
from poptorch._impl.weights import members
from poptorch._impl.wrapper.state import Wrapper, wrapper_state
from poptorch._logging import logger_of
from torch.utils.weak import WeakTensorKeyDictionary

logger = logger_of(__name__)


class Weights:
    """Versions of the tensors that some models share.

    version: counts changes on any device and explicit uploads.
    host_version: the version that the host had when host and device last agreed.
    newest: the wrapper whose device has newer weights than the host, or None.
    """

    def __init__(self) -> None:
        self.version = self.host_version = 0
        self.newest: Wrapper | None = None
        self.merged_into: Weights | None = None
        # Views that share the tensors' version counters, and the counters' values when host and
        # device last agreed.
        self._views: list[torch.Tensor] = []
        self._counts: list[int] = []
        self._replaced = False  # since then, `.data = ` has replaced a tensor's memory
        self._fetching = False  # a fetch has begun, so the counts are invalid until it completes
        self._fetching_threads: dict[int, bool] = {}  # their reads must not fetch again
        self._warned = False

    def watch(self, tensor: torch.Tensor) -> None:
        """Starts to watch a tensor for changes on the host."""
        if tensor.is_inference():  # made under torch.inference_mode: has no version counter
            return
        with torch._C.DisableTorchFunctionSubclass():
            self._views.append(tensor.detach())
        self._counts.append(self._views[-1]._version)

    def host_is_known(self) -> None:
        """Records that host and device have equal weights now."""
        self._counts = [view._version for view in self._views]
        self._replaced = self._fetching = False
        self.host_version = self.version

    def memory_was_replaced(self) -> None:
        """Records that a tensor's memory was replaced, which version counters do not show."""
        self._replaced = True

    def host_has_changed(self) -> bool:
        """Returns whether the host's tensors were written since host and device last agreed."""
        return self._replaced or self._counts != [view._version for view in self._views]

    def warn_about_host_changes(self) -> None:
        """Warns once if the host's tensors were written and not copied to the device."""
        if self._warned:
            return
        if not self.host_has_changed():
            return
        if self._fetching:
            self.host_is_known()
            return
        self._warned = True
        logger.warning(
            "The model's parameters or buffers were changed on the host since they were last "
            "copied: the device continues with its values. Call copyWeightsToDevice() to use the "
            "host's"
        )

    def root(self) -> "Weights":
        """Returns the object that this one was merged into, or itself."""
        weights = self
        while weights.merged_into is not None:
            weights = weights.merged_into
        return weights

    def merge(self, other: "Weights") -> None:
        """Merges `other` into this object."""
        self, other = self.root(), other.root()
        if self is not other:
            self.version = max(self.version, other.version)
            self.host_version = max(self.host_version, other.host_version)
            self.newest = self.newest or other.newest
            other.move_to(self)

    def move_to(self, other: "Weights") -> None:
        """Moves the watched tensors to `other` and redirects root() there."""
        other.watch_also(self._views, self._counts)
        self.merged_into = other

    def watch_also(self, views: list[torch.Tensor], counts: list[int]) -> None:
        """Watches these views for changes since their counters were `counts`."""
        self._views += views
        self._counts += counts

    def changed_on(self, wrapper: Wrapper) -> int:
        """Records that the device of `wrapper` has the newest weights; returns their version."""
        self.version += 1
        self.newest = wrapper
        return self.version

    def sync_host(self) -> bool:
        """Fetches the newest weights; returns False if the host has them or a fault lost them."""
        wrapper, version = self.newest, self.version
        thread = threading.get_ident()
        if wrapper is None or thread in self._fetching_threads:
            return False
        compiled = wrapper_state(wrapper).compiled
        if faults.is_lost(compiled):
            self.newest = None
            return False
        if compiled is not None:  # else another thread's destroy() has fetched them
            logger.debug("Implicit copyWeightsToHost()")
            self._fetching_threads[thread] = True
            try:
                wrapper.copyWeightsToHost()  # the program may have replaced this method
            finally:
                del self._fetching_threads[thread]  # not a call: an interrupt could precede it
        if self.version == version:  # another thread's step may have produced newer weights
            self.newest = None
        return True

    @contextmanager
    def fetched(self) -> Iterator[None]:
        """Encloses a copy from a device into the host's tensors."""
        self._fetching = True
        yield
        self.host_is_known()


# Keys and values are weak, because a `Weights` may refer to a wrapper, its model and so its
# tensors. Executors and the classes of wrapped tensors keep the `Weights` alive.
_of_tensor = WeakTensorKeyDictionary()


def weights_of(model: torch.nn.Module) -> Weights:
    """Returns the `Weights` of a model's tensors, shared with all models that have one of them."""
    weights = Weights()
    for tensor in tensors_of(model):
        reference = _of_tensor.get(tensor)
        known = reference and reference()
        if known is None:
            _of_tensor[tensor] = weakref.ref(weights)
            weights.root().watch(tensor)
        else:
            known.merge(weights)
    return weights.root()


def tensors_of(model: torch.nn.Module) -> list[torch.Tensor]:
    named = [*members.named_parameters(model), *members.named_buffers(model)]
    return [tensor for _, tensor in named]
