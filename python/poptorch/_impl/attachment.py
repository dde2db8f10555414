"""When a compiled model has a device, and which."""

import torch
from poptorch._impl import device_pool, environment
from poptorch._impl.compiled import Compiled
from poptorch._impl.weights import Weights
from poptorch.enums import ConnectionType
from poptorch.options import Options
from poptorch_core import Error


def pool_of(options: Options) -> device_pool.Pool:
    """Where devices come from."""
    given = options.Emulator.device_pool
    return device_pool.Pool(*given) if given else device_pool.Pool.of_environment()


def profile_of(options: Options) -> str:
    """What is compiled for: a name of poptorch_cpp/target."""
    if options.offline_ipu_version:
        return device_pool.VERSIONS[options.offline_ipu_version]
    if options.use_model:
        version = environment.text("POPTORCH_IPU_MODEL_VERSION", "ipu2")
        return f"{version}-small" if device_pool.uses_small_model() else version
    return device_pool.VERSIONS[pool_of(options).version]


def check_online(options: Options) -> None:
    """Raises AssertionError where nothing may run."""
    assert options.connection_type != ConnectionType.Never, (
        "Trying to run a model on an offline device (ConnectionType.Never). Use another "
        "connection type."
    )


def attach(compiled: Compiled, weights: Weights, *, has_weights: bool) -> None:
    """Takes a device, which gets the host's weights, unless it has them.

    Raises poptorch.Error when attached, or where no device can be had: see device_pool.acquire.
    """
    device, options = compiled.device, compiled.options
    if device.attached:
        raise Error("Device is already attached. Call detachFromDevice() first.")
    executable = compiled.executable
    if not options.use_model and device.lease is None:
        ipus = executable.ipus() * options.replication_factor
        device.lease = device_pool.acquire(
            pool_of(options), ipus, options.ipu_id, executable.highest_ipu()
        )
    if not has_weights:
        weights = weights.root()
        weights.sync_host()
        executable.weights_to_device()
        weights.host_is_known()
    device.attached = True
    device.expected = compiled.plain_inputs


def check_attached(compiled: Compiled) -> None:
    """Raises poptorch.Error where there is no device to give back."""
    if not compiled.device.attached:
        raise Error("Device is not attached. Call attachToDevice() first.")


def release(compiled: Compiled) -> None:
    """Gives the device back."""
    device = compiled.device
    device.expected = None
    device.attached = False
    if device.lease is not None:
        device.lease.release()
        device.lease = None


def synthetic_inputs(options: Options, tensors: list[torch.Tensor]) -> list[torch.Tensor] | None:
    """Inputs like `tensors` that runs take instead, where the options ask for them."""
    if not options.synthetic_data:
        return None
    generator = torch.Generator().manual_seed(options.random_seed or 0)
    return [
        torch.randn(tensor.shape, generator=generator).to(tensor.dtype)
        if tensor.is_floating_point()
        else torch.zeros_like(tensor)
        for tensor in tensors
    ]
