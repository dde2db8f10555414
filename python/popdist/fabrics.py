"""What the engines of the instances exchange bytes through: memory that those of one host share,
and Gloo between hosts."""

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
CONNECTIONS = 3  # between instances: one for what is short, two for what is long
# What torch has and its annotations do not.
_c10d: Any = sys.modules[PrefixStore.__module__]
_ProcessGroup: Any = dist.ProcessGroup
_register: Any = _c10d._register_process_group
_unregister: Any = _c10d._unregister_process_group


def make(here: Instance, peers: list[store.Peer], meeting: Any, address: str) -> Any:
    """The fabric of all instances; every one calls this.

    meeting: their store. address: that this instance listens on, where there are several hosts.
    Raises poptorch.Error where they do not come, RuntimeError of torch where Gloo cannot join them.
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
    """Memory of the first instance that sees it, which is gone with its last user."""
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
            f"{error.strerror}. Start all instances as one user, who may look at own processes."
        ) from None
    try:
        wait = 2 * (store.timeout() or 0.0)  # who called has his deadline before
        return _core.make_shared_fabric(file, own.index(index), len(own), wait, own)
    finally:
        os.close(file)


def gloo_group(
    meeting: Any, here: Instance, address: str, wait: float | None, connections: int = 1
) -> Any:
    """Gloo's group of all instances, which listens on an address alone, and from here on to nobody:
    it would keep a stranger's connection for ever.

    wait: seconds that whoever calls waits, None: for ever. Gloo waits for twice as long: a thread
    of it that is left behind must not come back while Python ends. connections: between two of
    them, each with a thread here. Raises RuntimeError of torch.
    """
    kind: Any = dist.ProcessGroupGloo
    before = addresses.listening_files()
    devices = [kind.create_device(hostname=address) for _ in range(connections)]
    files = addresses.listening_files() - before
    options = kind._Options()
    # torch has these under private names alone.
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
