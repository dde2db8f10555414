"""Where the newest weights are: on the host or on a wrapper's device.

Wrappers of models that share tensors share one `Weights`.
"""

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from poptorch._impl.devices import faults
from poptorch._impl.wrapper.state import Wrapper, wrapper_state
from poptorch._logging import logger_of
from torch.utils.weak import WeakTensorKeyDictionary

logger = logger_of(__name__)


class Weights:
    """Versions of the tensors that some models share.

    version: counts changes on any device or by an explicit upload.
    newest: the wrapper whose device has weights that the host has not, or None.
    """

    def __init__(self) -> None:
        self.version = 0
        self.newest: Wrapper | None = None
        self.merged_into: Weights | None = None
        # Views that share the tensors' counters of changes, and what those were when host and
        # device last agreed.
        self._views: list[torch.Tensor] = []
        self._counts: list[int] = []
        self._replaced = False  # a tensor's memory, by `.data = `, since then
        self._fetching = False  # counts mean nothing, also when that was cut short
        self._fetching_threads: dict[int, bool] = {}  # what they read meanwhile fetches nothing
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

    def host_has_changed(self) -> bool:
        """Whether the host's tensors were written since host and device last agreed."""
        return self._replaced or self._counts != [view._version for view in self._views]

    def warn_about_host_changes(self) -> None:
        """Says once that the host's tensors have been written and the device has not seen it."""
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
            other.move_to(self)

    def move_to(self, other: "Weights") -> None:
        """Gives `other` the tensors that this object watches, and refers to it from here on."""
        other.watch_also(self._views, self._counts)
        self.merged_into = other

    def watch_also(self, views: list[torch.Tensor], counts: list[int]) -> None:
        """Looks at changes of these views since their counters were `counts`."""
        self._views += views
        self._counts += counts

    def changed_on(self, wrapper: Wrapper) -> int:
        """The device of `wrapper` now has the newest weights; gives their version."""
        self.version += 1
        self.newest = wrapper
        return self.version

    def sync_host(self) -> bool:
        """Fetches the newest weights; False when the host had them, or a fault has lost them."""
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
                wrapper.copyWeightsToHost()  # which the program may have replaced
            finally:
                del self._fetching_threads[thread]  # no call, which an interrupt could precede
        if self.version == version:  # another thread's step may have made newer ones
            self.newest = None
        return True

    @contextmanager
    def fetched(self) -> Iterator[None]:
        """Around what copies from a device into the host's tensors."""
        self._fetching = True
        yield
        self.host_is_known()


# Weak in both: a `Weights` may hold an wrapper, and that its model, so its tensors. Executors and
# the classes of wrapped tensors keep it.
_of_tensor = WeakTensorKeyDictionary()


def weights_of(model: torch.nn.Module) -> Weights:
    """The `Weights` of a model's tensors, shared with every model that has one of them."""
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
    return [*model.parameters(), *model.buffers()]
