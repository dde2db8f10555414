"""When a wrapper has a device, and which."""

import torch
from poptorch._impl import device_pool
from poptorch._impl.optimiser_state import Record
from poptorch.enums import ConnectionType
from poptorch_core import Error


class Attachment:
    """Mixed into PoplarExecutor, whose attributes it reads and writes."""

    def _check_online(self) -> None:
        assert self._options.connection_type != ConnectionType.Never, (
            "Trying to run a model on an offline device (ConnectionType.Never). Use another "
            "connection type."
        )

    def isAttachedToDevice(self) -> bool:
        """Whether the executable is on a device."""
        return self._attached

    def attachToDevice(self) -> None:
        """Takes a device again, with the weights as the host has them.

        Raises poptorch.Error when not compiled, attached, or where another wrapper has the device.
        """
        self._check_online()
        executable = self._compiled()
        if self._attached:
            raise Error("Device is already attached. Call detachFromDevice() first.")
        device_pool.acquire(self, self._options.ipu_id)
        self._attached = True
        self._fast_inputs = self._fast_when_attached
        if self._runs:
            self._weights.root().sync_host()
            executable.weights_to_device()
            self._weights.root().host_is_known()

    def detachFromDevice(self) -> None:
        """Gives the device back; weights and optimiser state come to the host before."""
        self._compiled()
        if not self._attached:
            raise Error("Device is not attached. Call attachToDevice() first.")
        self._weights.root().sync_host()
        if self._training:
            Record.of(self._optimizer).refresh()
        self._release()

    def _release(self) -> None:
        device_pool.release(self)
        self._attached = False
        self._fast_inputs = None

    def _make_synthetic_inputs(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(self._options.random_seed)
        return [
            torch.randn(tensor.shape, generator=generator).to(tensor.dtype)
            if tensor.is_floating_point()
            else torch.zeros_like(tensor)
            for tensor in tensors
        ]
