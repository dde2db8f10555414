"""The transport between the engines of the instances: shared memory on one host, Gloo between
hosts."""

import datetime
import os
import secrets
import sys
from typing import Any

import torch
import torch.distributed as dist
from popdist import addresses, store
from popdist.instance import Instance
from poptorch_core import _core, _torch
from poptorch_core.errors import Error
from torch._C._distributed_c10d import PrefixStore

FOREVER = datetime.timedelta(days=3650)
CONNECTIONS = 3  # between instances: one for short messages, two for long ones
# Names of torch that its annotations lack.
_c10d: Any = sys.modules[PrefixStore.__module__]
_ProcessGroup: Any = dist.ProcessGroup
_register: Any = _c10d._register_process_group
_unregister: Any = _c10d._unregister_process_group


def make(here: Instance, peers: list[store.Peer], meeting: Any, address: str) -> Any:
    """Returns the transport of all instances; every instance calls this.

    Args:
        here: This instance.
        peers: All instances, in order.
        meeting: Their store.
        address: The address on which this instance listens, where there are several hosts.

    Raises:
        poptorch.Error: Some instances do not come.
        RuntimeError: Gloo cannot join them (raised by torch).
    """
    memories = [peer.memory for peer in peers]
    own = [i for i, memory in enumerate(memories) if memory == memories[here.index]]
    if len(own) == here.count:
        return _shared(here.index, own, meeting)
    local = _shared(here.index, own, meeting) if len(own) > 1 else None
    numbers = [own.index(i) if local and i in own else -1 for i in range(here.count)]
    names = [
        f"instance {i} on {peer.host} (process {peer.process.pid})" for i, peer in enumerate(peers)
    ]
    group = _ProcessGroup(here.index, here.count)
    gloo = gloo_group(PrefixStore("fabric", meeting), here, address, store.timeout(), CONNECTIONS)
    group._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, gloo)
    name = f"popdist-{secrets.token_hex(8)}"
    _register(name, group)
    try:
        named = list(zip(names, numbers, strict=True))
        return _torch.make_wired_fabric(name, here.index, named, local, CONNECTIONS)
    finally:
        _unregister(name)


def _shared(index: int, own: list[int], meeting: Any) -> Any:
    """Returns a transport over memory that the first of these instances creates.

    The kernel frees the memory with its last user.
    """
    key, made = f"memory/{own[0]}", index == own[0]
    try:
        if made:
            file = os.memfd_create("popdist")
            meeting.set(key, f"/proc/{os.getpid()}/fd/{file}")
        else:
            file = os.open(meeting.get(key).decode(), os.O_RDWR)
    except OSError as error:
        raise Error(
            f"[popdist] instance {index} cannot open the memory of instance {own[0]}: "
            f"{error.strerror}. Start all instances as one user, who may inspect its processes."
        ) from None
    try:
        wait = 2 * (store.timeout() or 0.0)  # the caller's deadline comes first
        return _core.make_shared_fabric(file, own.index(index), len(own), wait, own)
    finally:
        os.close(file)


def gloo_group(
    meeting: Any, here: Instance, address: str, wait: float | None, connections: int = 1
) -> Any:
    """Returns Gloo's group of all instances, which listens on one address only.

    It accepts no connection after this call: Gloo would keep a stranger's connection for ever.

    Args:
        meeting: The store of the instances.
        here: This instance.
        address: The address on which it listens.
        wait: The caller's timeout in seconds; None: for ever. Gloo waits twice as long: one of its
            threads that the caller abandons must not return while Python ends.
        connections: Connections between two instances, each with a thread here.

    Raises:
        RuntimeError: Gloo cannot join the instances (raised by torch).
    """
    kind: Any = dist.ProcessGroupGloo
    before = addresses.listening_files()
    devices = [kind.create_device(hostname=address) for _ in range(connections)]
    files = addresses.listening_files() - before
    options = kind._Options()
    # torch has these under private names only.
    for name, value in (
        ("_devices", devices),
        ("_timeout", FOREVER if wait is None else datetime.timedelta(seconds=2 * wait)),
        ("_threads", 1),
    ):
        setattr(options, name, value)
    group = kind(meeting, here.index, here.count, options)
    for file in files:
        addresses.refuse_strangers(file)
    return group
