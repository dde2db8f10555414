"""Attachment of compiled models to devices."""

from collections.abc import Callable

import torch
from poptorch._impl.devices import ipu_pool
from poptorch._impl.optimisers.device_state import Record
from poptorch._impl.options import environment
from poptorch._impl.options.group_class import value_of
from poptorch._impl.weights import transfer
from poptorch._impl.weights.newest import Weights
from poptorch._impl.wrapper.compiled_model import Compiled
from poptorch._logging import logger_of
from poptorch._native import Executable
from poptorch.enums import ConnectionType
from poptorch.options import Options
from poptorch_core import Error

logger = logger_of(__name__)


def pool_of(options: Options) -> ipu_pool.Pool:
    """Returns the pool that devices come from."""
    given = options.Emulator.device_pool
    return ipu_pool.Pool(*given) if given else ipu_pool.Pool.of_environment()


def profile_of(options: Options) -> str:
    """Returns the device profile to compile for: a name of poptorch_cpp/target."""
    if offline := value_of(options, "ipu_version"):
        return ipu_pool.VERSIONS[offline]
    if value_of(options, "use_model"):
        version = environment.text("POPTORCH_IPU_MODEL_VERSION", "ipu2")
        return f"{version}-small" if ipu_pool.uses_small_model() else version
    return ipu_pool.VERSIONS[pool_of(options).version]


def check_online(options: Options) -> None:
    """Raises AssertionError if the target is offline, so that nothing may run."""
    if options.connection_type == ConnectionType.Never:
        raise AssertionError(
            "Trying to run a model on an offline device (ConnectionType.Never). Use another "
            "connection type."
        )
    if not ipu_pool.is_online(options):
        raise AssertionError(
            "Trying to run a model on an offline device (poprun --offline-mode). Start the program "
            "without it."
        )


def check_target(options: Options) -> None:
    """Raises poptorch.Error for an offline target that the compiler does not support."""
    if ipu_pool.is_online(options):
        return
    if value_of(options, "use_model"):
        raise Error(
            "Offline compilation is not supported for the IPU model. Call useIpuModel(False), or "
            "leave useOfflineIpuTarget() out."
        )
    if value_of(options, "ipu_id") is not None:
        raise Error(
            "Offline compilation targeting a specific id not supported. Leave useIpuId() out."
        )


def warn_of_rounding(options: Options, executable: Executable) -> None:
    """Warns about unused IPUs that are reserved because devices have a power of two of IPUs."""
    if not ipu_pool.is_online(options):
        return
    ipus = executable.ipus() * options.replication_factor
    reserved = ipu_pool.device_size(ipus)
    if reserved > ipus:
        logger.warning(
            f"Reserving {reserved} IPUs when the model specifices the use of only {ipus}. This is "
            "because PopTorch must reserve a power of 2 or maximum of 64 IPUs per process. "
            f"{reserved - ipus} will be reserved but not used."
        )


def attach(
    compiled: Compiled,
    weights: Weights,
    optimizer: torch.optim.Optimizer | None = None,
    *,
    has_weights: bool,
    upload: Callable[[], None] | None = None,
) -> None:
    """Acquires a device and copies the host's weights there by `upload`, unless it has them.

    optimizer: its state is uploaded again if a fault has lost it.
    Raises poptorch.Error if attached already, or if no device is free: see ipu_pool.acquire.
    """
    device, options = compiled.device, compiled.options
    if device.attached:
        raise Error("Device is already attached. Call detachFromDevice() first.")
    executable = compiled.executable
    if not value_of(options, "use_model") and device.lease is None:
        ipus = executable.ipus() * options.replication_factor
        device.lease = ipu_pool.acquire(
            pool_of(options), ipus, value_of(options, "ipu_id"), executable.highest_ipu()
        )
    weights = weights.root()
    has_weights |= device.has_weights and not weights.host_has_changed()
    seed = value_of(options, "random_seed")
    if seed is not None:
        logger.debug(f"Setting random seed to: {seed}")
    try:
        if not has_weights:
            weights.sync_host()
        executable.attach()
        device.has_weights = device.told_of_failure = False
        if has_weights:
            if not {"parameter", "buffer"}.isdisjoint(executable.state_kinds()):
                logger.info("Writing weights from host to IPU memory.")
        else:
            transfer.catch_up(compiled, weights, upload)
        if optimizer is not None:
            Record.of(optimizer).upload_loaded()
    except BaseException:
        release(compiled)
        raise
    device.attached = True
    device.expected = compiled.plain_inputs


def is_always_attached(options: Options) -> bool:
    """Returns whether a compiled model acquires its device at once."""
    return options.connection_type == ConnectionType.Always and ipu_pool.is_online(options)


def check_attached(compiled: Compiled) -> None:
    """Raises poptorch.Error if no device is attached."""
    if not compiled.device.attached:
        raise Error("Device is not attached. Call attachToDevice() first.")


def release(compiled: Compiled) -> None:
    """Releases the device."""
    device = compiled.device
    device.expected = None
    device.attached = False
    if device.lease is not None:
        device.lease.release()
        device.lease = None


def synthetic_inputs(options: Options, tensors: list[torch.Tensor]) -> list[torch.Tensor] | None:
    """Returns synthetic tensors of the same shapes, or None unless the options request them."""
    if not options.synthetic_data:
        return None
    generator = torch.Generator().manual_seed(value_of(options, "random_seed") or 0)
    return [
        torch.randn(tensor.shape, generator=generator).to(tensor.dtype)
        if tensor.is_floating_point()
        else torch.zeros_like(tensor)
        for tensor in tensors
    ]
