"""When a wrapper has a device, and which."""

import torch
from poptorch._impl import device_pool, environment
from poptorch._impl.one_thread import one_thread
from poptorch._impl.optimiser_state import Record
from poptorch.enums import ConnectionType
from poptorch_core import Error


class Attachment:
    """Mixed into PoplarExecutor, whose attributes it reads and writes."""

    def _device_pool(self) -> device_pool.Pool:
        given = self._options.Emulator.device_pool
        return device_pool.Pool(*given) if given else device_pool.Pool.of_environment()

    def _device_profile(self) -> str:
        """What is compiled for: a name of poptorch_cpp/target."""
        if self._options.offline_ipu_version:
            return device_pool.VERSIONS[self._options.offline_ipu_version]
        if self._options.use_model:
            version = environment.text("POPTORCH_IPU_MODEL_VERSION", "ipu2")
            return f"{version}-small" if device_pool.uses_small_model() else version
        return device_pool.VERSIONS[self._device_pool().version]

    def _check_online(self) -> None:
        assert self._options.connection_type != ConnectionType.Never, (
            "Trying to run a model on an offline device (ConnectionType.Never). Use another "
            "connection type."
        )

    def isAttachedToDevice(self) -> bool:
        """Whether the executable is on a device."""
        return self._attached

    @one_thread
    def attachToDevice(self) -> None:
        """Takes a device again, with the weights as the host has them.

        Raises poptorch.Error when not compiled, attached, or where no device can be had: see
        device_pool.acquire. The IPU Model takes none.
        """
        self._check_online()
        executable = self._compiled()
        if self._attached:
            raise Error("Device is already attached. Call detachFromDevice() first.")
        if not self._options.use_model and self._lease is None:
            ipus = executable.ipus() * self._options.replication_factor
            pool = self._device_pool()
            self._lease = device_pool.acquire(
                pool, ipus, self._options.ipu_id, executable.highest_ipu()
            )
        if self._runs:
            self._weights.root().sync_host()
            executable.weights_to_device()
            self._weights.root().host_is_known()
        self._attached = True
        if self._fast_when_attached is not None:
            self._fast = executable, self._fast_when_attached

    @one_thread
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
        self._fast = None
        self._attached = False
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def _make_synthetic_inputs(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(self._options.random_seed or 0)
        return [
            torch.randn(tensor.shape, generator=generator).to(tensor.dtype)
            if tensor.is_floating_point()
            else torch.zeros_like(tensor)
            for tensor in tensors
        ]
