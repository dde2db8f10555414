"""Copies of weights and buffers between the model on the host and a wrapper's device."""

from poptorch._impl.one_thread import one_thread
from poptorch_core import Error


class WeightCopies:
    """Mixed into PoplarExecutor, whose attributes it reads and writes."""

    def _fetch_weights(self) -> None:
        executable = self._executable
        if executable is not None:  # else another thread's destroy() has fetched them
            executable.weights_to_host()

    @one_thread
    def copyWeightsToHost(self) -> None:
        """Copies this device's parameters and buffers into the model's tensors."""
        executable = self._compiled()
        shared = self._weights.root()
        if shared.newest is self:
            shared.sync_host()
        else:
            executable.weights_to_host()
            shared.host_is_known()

    def copyWeightsToHostIfNeeded(self) -> bool:
        """Fetches the newest weights from whichever device has them; whether there were any."""
        return self._weights.root().sync_host()

    @one_thread
    def copyWeightsToDevice(self) -> None:
        """Copies the model's tensors to this device; other wrappers of the model follow.

        What training changed on a device and nobody has fetched is lost: the host's values count.
        """
        executable = self._compiled()
        shared = self._weights.root()
        shared.newest = None
        executable.weights_to_device()
        shared.version += 1
        self._weights_seen = shared.version
        shared.host_is_known()

    @one_thread
    def copyNamedBuffersToDevice(self) -> None:
        """Copies the buffers of Options.updatableNamedBuffers to this device."""
        executable = self._compiled()
        names = self._options.updatable_named_buffers
        if not names:
            raise Error(
                "[weights] no buffers to copy: name them with Options.updatableNamedBuffers()."
            )
        known = {name for name, _ in self._model.named_buffers()}
        for name in names:
            if name not in known:
                raise Error(
                    f"[weights] the model has no buffer {name}, only {sorted(known)}. "
                    "Correct Options.updatableNamedBuffers()."
                )
        executable.weights_to_device(names)

    @one_thread
    def load_state_dict(self, state_dict, strict: bool = True):
        """Loads into the model and, when compiled, onto the device; torch's report of keys."""
        report = self._user_model.load_state_dict(state_dict, strict)
        if self._executable is not None:
            self.copyWeightsToDevice()
        return report
