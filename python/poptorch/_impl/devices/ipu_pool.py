"""The emulated devices: a pool of IPUs that the processes of a machine share.

A pool is a folder with a lock file for each IPU. The process that holds the lock has the IPU; the
kernel releases the lock when the process ends, also after a crash. Devices are numbered as in
`gc-info -l`: first single IPUs, then pairs of neighbours, groups of four, and so on up to the whole
pool.
"""

import fcntl
import gc
import os
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poptorch._impl.files import private_folders
from poptorch._impl.options import environment
from poptorch._logging import TRACE, logger_of
from poptorch.enums import ConnectionType
from poptorch_core import Error

logger = logger_of(__name__)

VERSIONS = {1: "ipu1", 2: "ipu2", 21: "ipu21"}  # hardware version → profile of the compiler
LARGEST_PER_PROCESS = 64
SECONDS_BETWEEN_TRIES = 15
# A process that holds more than 1/N of the pool runs the garbage collector to free unused wrappers.
_SHARE_TO_COLLECT = 4


@dataclass(frozen=True)
class Pool:
    """IPUs of one version; processes with the same folder share them."""

    ipus: int = 64
    version: int = 2
    folder: str = ""

    def __post_init__(self) -> None:
        if self.ipus < 0 or self.ipus & (self.ipus - 1):
            raise Error(f"[device pool] {self.ipus} IPUs: choose 0 or a power of two.")
        if self.version not in VERSIONS:
            raise Error(f"[device pool] version {self.version}: choose one of {list(VERSIONS)}.")

    @classmethod
    def of_environment(cls) -> "Pool":
        """Reads POPTORCH_IPU_POOL=<IPUs>[:<version>[:<folder>]]; default: 64 IPUs of version 2."""
        text = environment.text("POPTORCH_IPU_POOL")
        if not text:
            return cls()
        numbers, folder = text.split(":", 2)[:2], "".join(text.split(":", 2)[2:])
        try:
            ipus, version = int(numbers[0]), int(numbers[1]) if numbers[1:] else cls.version
            return cls(ipus, version, folder)
        except ValueError:
            raise Error(
                f"[device pool] POPTORCH_IPU_POOL is {text!r}. Set it to <IPUs>[:<version>[:"
                "<folder>]], for example 16:21."
            ) from None

    @contextmanager
    def lock_folder(self) -> Iterator[int]:
        """Opens the private folder of the lock files; yields its file descriptor."""
        base = self.folder or private_folders.runtime_folder() / "ipus"
        file = private_folders.open_private(Path(base, VERSIONS[self.version]), "device pool")
        try:
            yield file
        finally:
            os.close(file)

    def groups(self, size: int) -> dict[int, range]:
        """Returns the IPUs of each device of `size` IPUs, a power of two, by the device's id."""
        first, each = 0, 1
        while each < size:
            first, each = first + self.ipus // each, each * 2
        return {first + i: range(i * size, (i + 1) * size) for i in range(self.ipus // size)}

    def size_of(self, device: int) -> int:
        """Returns the number of IPUs of a device; 0 if there is no such id."""
        size = 1
        while size <= self.ipus:
            if device in self.groups(size):
                return size
            size *= 2
        return 0


class Lease:
    """IPUs that a wrapper holds until release(), or until the wrapper or the process ends."""

    def __init__(self, device: int, files: list[int]) -> None:
        self.device = device
        self._files = files
        self._finalizer = weakref.finalize(self, _unlock, files)
        _leases.add(self)

    def release(self) -> None:
        """Releases the IPUs."""
        if self._finalizer.alive:
            self._finalizer()
            logger.debug(f"Detached from device {self.device}")

    def forget(self) -> None:
        """Closes the files in a forked child; the parent still holds the IPUs."""
        _close(self._files)

    @property
    def ipus(self) -> int:
        """The number of IPUs."""
        return len(self._files)


_leases: "weakref.WeakSet[Lease]" = weakref.WeakSet()


def _unlock(files: list[int]) -> None:
    for file in files:
        os.ftruncate(file, 0)
        # Closing is not enough: a forked child may have the file open, too.
        fcntl.flock(file, fcntl.LOCK_UN)
    _close(files)


def _close(files: list[int]) -> None:
    while files:
        os.close(files.pop())


def _forget_in_child() -> None:
    for lease in _leases:
        lease.forget()


os.register_at_fork(after_in_child=_forget_in_child)


def ipuHardwareIsAvailable(num_ipus: int = 1) -> bool:
    """Returns whether the pool has enough IPUs, free or not.

    Args:
        num_ipus: The number of IPUs.

    Returns:
        Whether it has them; always False with POPTORCH_IPU_MODEL=1.
    """
    return not uses_model() and num_ipus <= Pool.of_environment().ipus


def ipuHardwareVersion(num_ipus: int = 1) -> int:
    """Returns the version of the pool's IPUs.

    Args:
        num_ipus: The number of IPUs that the pool must have.

    Returns:
        1, 2 or 21; 0 with POPTORCH_IPU_MODEL=1.

    Raises:
        AssertionError: The pool does not have as many IPUs.
    """
    if uses_model():
        return 0
    pool = Pool.of_environment()
    if pool.ipus < max(num_ipus, 1):
        raise AssertionError("No IPU hardware available on this system")
    return pool.version


def is_online(options: Any) -> bool:
    """Returns False with ConnectionType.Never or poprun's --offline-mode: no device is used."""
    from popdist import instance

    return options.connection_type != ConnectionType.Never and not instance.is_offline()


def uses_model() -> bool:
    """Returns whether the environment requests an IPU Model, of any size, instead of devices."""
    return environment.flag("POPTORCH_IPU_MODEL") or uses_small_model()


def uses_small_model() -> bool:
    """Returns whether the environment requests the IPU Model with four tiles."""
    small = environment.flag("POPTORCH_SMALL_IPU_MODEL")
    return small and not environment.flag("POPTORCH_IPU_MODEL")


def device_size(ipus: int) -> int:
    """Returns the number of IPUs of the smallest device that has enough."""
    return 1 << max(ipus - 1, 0).bit_length()


def acquire(pool: Pool, ipus: int, device: int | None = None, why: str = "") -> Lease:
    """Acquires a device of `ipus` IPUs, or of the next power of two.

    device: the id of the device; None: any free one. why: a sentence about the need for the IPUs,
    for the error if the pool is too small.
    With POPTORCH_WAIT_FOR_IPU=1 it waits for a free device. Raises poptorch.Error for ids and sizes
    that the pool does not have, and if all devices are in use.
    """
    size = device_size(ipus)
    why = why and f"{why} "
    if size > LARGEST_PER_PROCESS:
        raise too_many(size, why)
    candidates = _candidates(pool, size, device, why)
    held = sum(lease.ipus for lease in _leases)
    if held + size > max(pool.ipus // _SHARE_TO_COLLECT, 1):
        gc.collect()
    waits = environment.flag("POPTORCH_WAIT_FOR_IPU")
    told = collected = False
    while True:
        with pool.lock_folder() as folder:
            lease = _lease_one(folder, candidates)
        if lease is not None:
            if device is None:
                logger.debug(f"Acquired {size} IPU(s): running on device Id {lease.device}.")
            else:
                logger.debug(f"Acquired IPU device with id {device}, running on device.")
            logger.log(TRACE, f"Attached to device {lease.device}")
            return lease
        if not collected:  # an unused wrapper may hold a device until it is collected
            gc.collect()
            collected = True
            continue
        what = f"device Id {device}" if device is not None else f"{size} IPU(s)"
        if not waits:
            raise Error(
                f"Failed to acquire {what}: {_holders(pool, candidates)}. Call detachFromDevice() "
                "or destroy() of a wrapper that holds one, set POPTORCH_WAIT_FOR_IPU=1 to wait, or "
                "choose another with useIpuId() or a larger pool with Emulator.devicePool()."
            )
        if not told:
            logger.info(f"Waiting for {what}: {_holders(pool, candidates)}")
            told = True
        logger.log(TRACE, f"No IPU available, sleeping for {SECONDS_BETWEEN_TRIES} seconds")
        time.sleep(SECONDS_BETWEEN_TRIES)


def too_many(ipus: int, why: str = "") -> Error:
    """Returns the error for more IPUs than a process can have; why: see acquire()."""
    return Error(
        f"Too many IPUs requested ({ipus}). Experiments that need more than "
        f"{LARGEST_PER_PROCESS} IPUs require distributed execution. {why}Use lower ipu_ids or "
        "fewer replicas."
    )


def _candidates(pool: Pool, size: int, device: int | None, why: str) -> dict[int, range]:
    groups = pool.groups(size)
    if device is None:
        if not groups:
            raise Error(
                f"Failed to acquire {size} IPU(s): the pool has {pool.ipus}. {why}Choose a larger "
                "one with Emulator.devicePool() or POPTORCH_IPU_POOL, or use fewer IPUs."
            )
        return groups
    if device not in groups:
        has = pool.size_of(device)
        what = f"it has {has} IPU(s)" if has else "the pool has no device of that number"
        those = f"those are {min(groups)} to {max(groups)}" if groups else "the pool has none"
        raise Error(
            f"Failed to acquire device Id {device}: {what}, but the model needs a device of "
            f"{size}. Call useIpuId() with one of them: {those}."
        )
    return {device: groups[device]}


def _lease_one(folder: int, candidates: dict[int, range]) -> Lease | None:
    for number, members in candidates.items():
        files: list[int] = []
        try:
            if all(_lock(folder, f"{ipu}.lock", files) for ipu in members):
                return Lease(number, files)
            _unlock(files)
        except BaseException:  # also one from a signal handler
            _unlock(files)
            raise
    return None


def _lock(folder: int, name: str, files: list[int]) -> bool:
    """Locks a file and adds it to `files`; returns False if another holder has the lock."""
    try:
        file = private_folders.open_own(name, folder)
    except OSError as error:
        raise Error(
            f"[device pool] the lock file {name} cannot be used: {error.strerror}. Remove it, or "
            "choose another folder with POPTORCH_IPU_POOL or Emulator.devicePool()."
        ) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return False
    files.append(file)
    os.ftruncate(file, 0)
    os.pwrite(file, str(os.getpid()).encode(), 0)
    return True


def _holders(pool: Pool, candidates: dict[int, range]) -> str:
    members = [ipu for group in candidates.values() for ipu in group]
    with pool.lock_folder() as folder:
        found = {_holder(folder, f"{ipu}.lock") for ipu in members}
    own = str(os.getpid())
    # A crashed process leaves its number in the file.
    names = [f"process {pid}" for pid in sorted(found - {own, ""}) if Path("/proc", pid).exists()]
    if own in found:
        names.insert(0, "another wrapper of this process")
    return "held by " + (", ".join(names) or "another process")


def processes_with(pool: Pool) -> dict[int, int]:
    """Returns the process that holds an IPU, by the number of the IPU. Free IPUs are left out."""
    with pool.lock_folder() as folder:
        found = {ipu: _holder(folder, f"{ipu}.lock") for ipu in range(pool.ipus)}
    return {n: int(pid) for n, pid in found.items() if pid and Path("/proc", pid).exists()}


def _holder(folder: int, name: str) -> str:
    """Returns the number of the process that holds a file, or ""."""
    try:
        file = private_folders.open_own(name, folder)
    except OSError:
        return ""
    try:
        text = os.pread(file, 20, 0)
    finally:
        os.close(file)
    return text.decode() if text.isdigit() else ""
