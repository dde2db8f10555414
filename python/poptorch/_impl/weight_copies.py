"""Copies of weights and buffers between the model on the host and a compiled model's device."""

from poptorch._impl.compiled import Compiled
from poptorch._impl.weights import Weights
from poptorch._impl.wrapped import Wrapped
from poptorch_core import Error


def to_host(compiled: Compiled, weights: Weights, executor) -> None:
    """Copies the device's parameters and buffers into the model's tensors, in place."""
    if weights.newest is executor:
        weights.sync_host()
    else:
        compiled.executable.weights_to_host()
        weights.host_is_known()


def to_device(compiled: Compiled, weights: Weights) -> None:
    """Copies the model's tensors to the device. No other device has newer ones from here on."""
    weights.newest = None
    compiled.executable.weights_to_device()
    weights.version += 1
    compiled.device.weights_seen = weights.version
    weights.host_is_known()


def take_newest(compiled: Compiled, weights: Weights) -> None:
    """Brings weights that another device, or the host, has."""
    if compiled.device.weights_seen != weights.version:
        version = weights.version
        weights.sync_host()
        compiled.executable.weights_to_device()
        compiled.device.weights_seen = version
        weights.host_is_known()


def named_buffers_to_device(compiled: Compiled, wrapped: Wrapped) -> None:
    """Raises poptorch.Error unless Options.updatableNamedBuffers names buffers of the model."""
    names = wrapped.options.updatable_named_buffers
    if not names:
        raise Error("[weights] no buffers to copy: name them with Options.updatableNamedBuffers().")
    known = {name for name, _ in wrapped.model.named_buffers()}
    for name in names:
        if name not in known:
            raise Error(
                f"[weights] the model has no buffer {name}, only {sorted(known)}. "
                "Correct Options.updatableNamedBuffers()."
            )
    compiled.executable.weights_to_device(names)
