"""Private names of PopXL's Session that public programs use."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from popxl._impl import popart_views
from popxl._impl.ports import io_shape
from popxl._impl.records import of
from popxl.ir import Ir
from popxl.streams import DeviceToHostStream

_DEVICES = ("cpu", "ipu_model", "ipu_hw")


class PrivateNames:
    """The private methods and properties of a session, over its attributes.

    Attributes:
        _device: PopART's device, attached while the session is.
    """

    _device: Any
    _ir: Ir
    _outputs: list[DeviceToHostStream]
    _replicas: int
    _transfers: int

    def _checked_inputs(self, inputs: Mapping[Any, Any], downcast: bool) -> list[np.ndarray]:
        raise NotImplementedError  # by the session

    def _set_device(self, device_desc: str) -> None:
        """Sets `_device`. The constructor calls it, so that a subclass can choose a device.

        Raises:
            ValueError: The device is unknown, or is 'cpu' and the program needs several IPUs.
        """
        if device_desc not in _DEVICES:
            raise ValueError(f"device_desc must be one of {_DEVICES} but is {device_desc!r}.")
        graphs, replicas = of(self._ir).graphs, self._ir.replication_factor
        ipus = 1 + max((of(t).ipu or 0 for g in graphs for t in g.tensors), default=0)
        if device_desc == "cpu" and ipus * replicas > 1:
            raise ValueError(
                f"The device 'cpu' has one IPU but the program uses {ipus} on each of "
                f"{replicas} replicas. Use 'ipu_hw'."
            )
        size = 1 << (ipus * self._ir.instance_replication_factor - 1).bit_length()
        self._device = popart_views.device(device_desc, size)

    @property
    def _pb_session(self) -> Any:
        """PopART's view of the session."""
        return popart_views.session(self, self._device)

    def _full_input_shape(self, shape: "tuple[int, ...]") -> tuple[int, ...]:
        """Returns the shape of the array that `run` takes for a stream of this shape.

        Host transfers and this instance's replicas come first, each only if there are several.
        """
        return io_shape(tuple(shape), self._transfers, self._replicas)

    def _validate_run_inputs(self, inputs: Mapping[Any, Any]) -> None:
        """Raises the errors of `run` for these inputs."""
        self._checked_inputs(inputs, True)

    def _validate_run_outputs(self, outputs: Mapping[Any, np.ndarray]) -> None:
        """Raises the errors of `run_with_outputs` for these outputs."""
        if set(outputs) != set(self._outputs):
            raise ValueError(f"The program returns {self._outputs} but got arrays for {outputs}.")
        for stream, array in outputs.items():
            expected = self._full_input_shape(stream.shape)
            if array.dtype != stream.dtype.as_numpy() or array.shape != expected:
                raise ValueError(
                    f"{stream!r} returns {expected} but the array has {array.shape}, {array.dtype}."
                )
