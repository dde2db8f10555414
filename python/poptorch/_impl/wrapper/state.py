"""The typed record of a wrapper's state, and the only function that returns it."""

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import torch

if TYPE_CHECKING:
    from poptorch._impl.weights.newest import Weights
    from poptorch._impl.wrapper.compiled_model import Compiled
    from poptorch._impl.wrapper.host_changes import ModelWatch
    from poptorch._impl.wrapper.spec import Wrapped


class Wrapper(Protocol):
    """The methods of PoplarExecutor that other modules call. Programs may replace them."""

    def copyWeightsToHost(self) -> None:
        """Copies the device's weights into the model's tensors."""

    def copyWeightsToDevice(self) -> None:
        """Copies the model's tensors to the device."""

    def setOptimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Sends the optimiser's values to the device."""

    def destroy(self) -> None:
        """Frees the device and unwraps the model."""


@dataclass(slots=True, eq=False)
class WrapperState:
    """The state of a wrapper.

    wrapped: the model with its options; the same over all compilations.
    weights: the versions of the weights, shared by the wrappers of models that share tensors.
    optimizer: the current optimiser; None in inference, and before the default one is created.
    watch: reports changes of the model on the host; None if the model is a function.
    looks_at_runs: the options request cycles or anchored tensors after each run.
    compiled: the result of the compilation; None before it and after destroy().
    random_state: [seed, state] for the next compilation, or None.
    lock: held by methods that change the wrapper; the core serialises runs.
    """

    wrapped: "Wrapped"
    weights: "Weights"
    optimizer: torch.optim.Optimizer | None
    watch: "ModelWatch | None"
    looks_at_runs: bool
    compiled: "Compiled | None" = None
    random_state: list[int] | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)


def wrapper_state(wrapper: Wrapper) -> WrapperState:
    """Returns a wrapper's state. Users of a wrapper see its properties instead."""
    return vars(wrapper)["_state"]
