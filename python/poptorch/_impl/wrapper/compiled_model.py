"""The result of a compilation: the executable with its arguments, outputs and device state."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from poptorch import _native
from poptorch._impl.devices.ipu_pool import Lease
from poptorch._impl.wrapper.call_arguments import Arguments
from poptorch._impl.wrapper.host_changes import OptimiserWatch
from poptorch._impl.wrapper.results import Outputs
from poptorch.options import Options
from poptorch_core import Error

NO_EXECUTABLE = "Model has not been compiled or has been destroyed."  # programs match this text


@dataclass(slots=True)
class DeviceState:
    """The state of a compiled model on its device.

    expected: shape and dtype of inputs that need no preparation; None while detached.
    weights_seen: the version of the weights (see Weights) that the device has.
    catches_up_with: the version that an upload in progress brings the device to; else None.
    has_weights: the file of the executable contained the same weights as the host's model.
    has_optimiser: it has the newest state of the wrapper's optimiser.
    begun: the number of training runs that have started.
    runs: the number of runs that have succeeded.
    told_of_failure: a device fault since the last attach() was reported: see faults.is_lost.
    anchored: the last run's anchored tensors.
    loss_scale: the loss scale at the start of the last run.
    """

    attached: bool = False
    lease: Lease | None = None
    expected: list[tuple[torch.Size, torch.dtype]] | None = None
    weights_seen: int = -1
    catches_up_with: int | None = None
    has_weights: bool = False
    has_optimiser: bool = False
    begun: int = 0
    runs: int = 0
    told_of_failure: bool = False
    anchored: list[torch.Tensor] = field(default_factory=list)
    loss_scale: torch.Tensor | None = None


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Compiled:
    """The result of a compilation.

    name: the wrapper's name, for messages.
    arguments: the arguments of the compilation; later calls must match them.
    rebuild: rebuilds the model's return value, whose structure is `outputs`, from a run's results.
    plain_inputs: shape and dtype of each argument if all were positional tensors, else None.
    synthetic_inputs: tensors that runs use instead of a call's inputs, or None.
    optimiser: the optimiser's values that the device has; None in inference.
    options: the wrapper's options, with those that the optimiser needs.
    """

    name: str
    executable: _native.Executable
    arguments: Arguments
    rebuild: Callable[[list[torch.Tensor]], object]
    outputs: Outputs
    plain_inputs: list[tuple[torch.Size, torch.dtype]] | None
    synthetic_inputs: list[torch.Tensor] | None
    optimiser: OptimiserWatch | None
    options: Options
    seconds: float
    device: DeviceState = field(default_factory=DeviceState)

    def state_bytes(self, kinds: set[str]) -> int:
        """Returns the bytes of all state of these kinds on the device."""
        slots = self.executable.states()
        return sum(
            math.prod(shape) * _bits(dtype) // 8 for _, kind, dtype, shape in slots if kind in kinds
        )

    @property
    def spec(self) -> dict | None:
        """The description of the optimiser that the device has; None in inference."""
        return None if self.optimiser is None else self.optimiser.spec

    @property
    def trained_spec(self) -> dict:
        """The same description, for a model that is known to be for training."""
        assert self.optimiser is not None
        return self.optimiser.spec


def _bits(dtype: str) -> int:
    """Returns the bits of an element of a dtype such as "f32", "f8_e5m2" or "bool"."""
    found = re.match(r"[a-z]+(\d+)", dtype)
    return int(found[1]) if found else 8


def existing(compiled: Compiled | None) -> Compiled:
    """Returns the compiled model; raises poptorch.Error if it is None."""
    if compiled is None:
        raise Error(f"{NO_EXECUTABLE} Call the wrapper, or its compile(), first.")
    return compiled


def are_expected(
    expected: list[tuple[torch.Size, torch.dtype]] | None, args: tuple, kwargs: dict
) -> bool:
    """Returns whether a call's arguments are plain tensors of the expected shapes and dtypes."""
    if expected is None or kwargs or len(args) != len(expected):
        return False
    for tensor, (shape, dtype) in zip(args, expected):  # noqa: B905  (lengths are equal)
        if type(tensor) is not torch.Tensor or tensor.dtype is not dtype or tensor.shape != shape:
            return False
    return True
