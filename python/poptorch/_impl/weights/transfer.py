"""Copies of weights and buffers between the model on the host and a compiled model's device."""

from collections.abc import Callable

from poptorch._impl.inspection import progress
from poptorch._impl.weights.newest import Weights
from poptorch._impl.wrapper.compiled_model import Compiled
from poptorch._impl.wrapper.spec import Wrapped
from poptorch._impl.wrapper.state import Wrapper, wrapper_state
from poptorch._logging import logger_of
from poptorch_core import Error

logger = logger_of(__name__)


def to_host(compiled: Compiled, weights: Weights, wrapper: Wrapper) -> None:
    """Copies the device's parameters and buffers into the model's tensors, in place.

    Raises the device's error if a fault has lost them.
    """
    device, version = compiled.device, weights.version
    logger.info("Writing weights from IPU to host.")
    with weights.fetched(), _bar("Weights to the host", compiled):
        compiled.executable.weights_to_host()
    if weights.newest is not wrapper:
        # Inference devices fetch the host's new values in any case.
        if wrapper_state(wrapper).wrapped.training:
            weights.version += 1
            if device.weights_seen == version:
                device.weights_seen = weights.version
    elif weights.version == version:  # else another thread's step has produced newer weights
        weights.newest = None


def to_device(compiled: Compiled, weights: Weights) -> None:
    """Copies the model's tensors to the device, which makes other devices' weights outdated.

    Within catch_up(), it leaves the state of other devices unchanged.
    """
    device, version = compiled.device, compiled.device.catches_up_with
    if version is None:
        weights.newest = None
    logger.info("Writing weights from host to IPU memory.")
    with _bar("Weights to the device", compiled):
        compiled.executable.weights_to_device()
    if version is None:
        weights.version += 1
        version = weights.version
    device.weights_seen = version
    weights.host_is_known()


def _bar(title: str, compiled: Compiled):
    """Returns the progress bar of a copy of all weights."""

    def size() -> int:
        return compiled.state_bytes({"parameter", "buffer"})

    return progress.of_bytes(title, size, compiled.options)


def catch_up(compiled: Compiled, weights: Weights, upload: Callable[[], None] | None) -> None:
    """Copies the newest weights to the host, then to the device; by `upload`, if given."""
    weights.sync_host()
    logger.debug("Implicit copyWeightsToDevice()")
    compiled.device.catches_up_with = weights.version
    try:
        if upload is None:
            to_device(compiled, weights)
        else:
            upload()
    finally:
        compiled.device.catches_up_with = None


def take_newest(
    compiled: Compiled, weights: Weights, upload: Callable[[], None] | None = None
) -> None:
    """Copies weights to the device if another device or the host has newer ones: see catch_up()."""
    if compiled.device.weights_seen != weights.version:
        catch_up(compiled, weights, upload)


def named_buffers_to_device(compiled: Compiled, wrapped: Wrapped) -> None:
    """Copies the buffers of Options.updatableNamedBuffers; raises poptorch.Error if it has none."""
    names = wrapped.options.updatable_named_buffers
    if not names:
        raise Error("[weights] no buffers to copy: name them with Options.updatableNamedBuffers().")
    logger.info("Writing named buffers from host to IPU memory.")
    compiled.executable.weights_to_device(names)


def check_named_buffers(wrapped: Wrapped) -> None:
    """Raises poptorch.Error unless Options.updatableNamedBuffers names buffers of the model."""
    names = wrapped.options.updatable_named_buffers
    known = {name for name, _ in wrapped.trained_model.named_buffers()} if names else set()
    for name in names:
        if name not in known:
            raise Error(
                f"[weights] the model has no buffer {name}, only {sorted(known)}. "
                "Correct Options.updatableNamedBuffers()."
            )
