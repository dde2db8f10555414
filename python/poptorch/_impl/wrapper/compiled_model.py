"""What a compilation made, which comes and goes as a whole."""

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


@dataclass(slots=True)
class DeviceState:
    """What a compiled model has on its device, and what its runs have left.

    expected: shape and type of the inputs of calls that need no preparation; None while detached.
    weights_seen: the version of the weights (see Weights) that the device has.
    catches_up_with: while it is brought to a version of the weights, that version.
    has_weights: it got, with its executable, the weights that the host got with its model.
    begun, runs: how many have begun, in training, and how many have ended well.
    told_of_failure: that a fault has struck since it was attached: see failures.is_lost.
    anchored: the last run's anchored tensors. loss_scale: what that run began with.
    """

    attached: bool = False
    lease: Lease | None = None
    expected: list[tuple[torch.Size, torch.dtype]] | None = None
    weights_seen: int = -1
    catches_up_with: int | None = None
    has_weights: bool = False
    begun: int = 0
    runs: int = 0
    told_of_failure: bool = False
    anchored: list[torch.Tensor] = field(default_factory=list)
    loss_scale: torch.Tensor | None = None


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Compiled:
    """All that a compilation made.

    name: the wrapper's, for messages.
    arguments: those that it was made for; other calls must be like them.
    rebuild: puts the structure of what the model returned, `outputs`, around a run's results.
    plain_inputs: shape and type of each argument where all were positional tensors.
    synthetic_inputs: what runs instead of a call's inputs, or None.
    optimiser: what the device was told of it; None in inference.
    options: the wrapper's, with what the optimiser needs.
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
        """The size of all slots of the device of these kinds."""
        slots = self.executable.states()
        return sum(
            math.prod(shape) * _bits(dtype) // 8 for _, kind, dtype, shape in slots if kind in kinds
        )

    @property
    def spec(self) -> dict | None:
        """The optimiser as the device has it: see optimisers.describe."""
        return None if self.optimiser is None else self.optimiser.spec

    @property
    def trained_spec(self) -> dict:
        """The spec of a model for training."""
        assert self.optimiser is not None
        return self.optimiser.spec


def _bits(dtype: str) -> int:
    """Of "f32", "f8_e5m2" or "bool"."""
    found = re.match(r"[a-z]+(\d+)", dtype)
    return int(found[1]) if found else 8


def existing(compiled: Compiled | None) -> Compiled:
    """Raises poptorch.Error unless there is one."""
    if compiled is None:
        raise Error(
            "Model has not been compiled or has been destroyed. Call the wrapper, or its "
            "compile(), first."
        )
    return compiled
