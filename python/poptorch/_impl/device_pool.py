"""The emulated devices: how many there are, and which wrapper holds which."""

import os
import weakref

from poptorch_core import Error

IPUS = 64
VERSION = 2
_held: dict[int, weakref.ref] = {}


def ipuHardwareIsAvailable(num_ipus: int = 1) -> bool:
    """Whether `num_ipus` IPUs can be had; the emulator has 64. Never with POPTORCH_IPU_MODEL=1."""
    return _uses_hardware() and num_ipus <= IPUS


def ipuHardwareVersion() -> int:
    """The version of the emulated IPUs, 2; 0 with POPTORCH_IPU_MODEL=1."""
    return VERSION if _uses_hardware() else 0


def _uses_hardware() -> bool:
    return os.environ.get("POPTORCH_IPU_MODEL", "0") in ("0", "")


def acquire(owner, number: int | None) -> None:
    """Gives device `number` to `owner`. Without a number there is always one."""
    if number is None:
        return
    holder = _held.get(number)
    if holder is not None and holder() not in (None, owner):
        raise Error(
            f"Failed to acquire device {number}: another wrapper holds it. Call its "
            "detachFromDevice() or destroy(), or choose another number with useIpuId()."
        )
    _held[number] = weakref.ref(owner)


def release(owner) -> None:
    """Takes back what `owner` holds."""
    for number in [number for number, holder in _held.items() if holder() in (None, owner)]:
        del _held[number]
