"""The store in which instances meet: torch.distributed's, listening on the given address only.

torch's own store listens on every address. So the socket is bound here. On one host a file replaces
it.
"""

import atexit
import contextlib
import datetime
import json
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from popdist import addresses, instance as names
from popdist.instance import Instance
from popdist.presence import is_stopped
from poptorch_core.errors import Error
from poptorch_core.process_guard import Process, lives, this_process
from poptorch_core.variables import json_object, whole_number
from torch._C._distributed_c10d import FileStore, PrefixStore, TCPStore

_POLL = 0.01  # s between checks for instances that have come
_SHORT = datetime.timedelta(seconds=20)
_LONG = datetime.timedelta(days=3650)  # waiting code has a separate deadline


class Peer(NamedTuple):
    """An instance as the others know it. memory: equal in instances that can share memory."""

    host: str
    process: Process
    version: str
    memory: str


def timeout() -> float | None:
    """Returns the seconds for which instances wait for each other; None: for ever.

    The value is `target.hostSyncTimeout` of POPLAR_ENGINE_OPTIONS, by default 300.
    """
    name = "target.hostSyncTimeout"
    given = json_object("POPLAR_ENGINE_OPTIONS", {name: "300"}).get(name, 300)
    try:
        seconds = float(given)
        if not 0 <= seconds < 1e9:
            raise ValueError
    except (ValueError, TypeError):
        raise Error(
            f"[environment] {name} of POPLAR_ENGINE_OPTIONS is {given!r}. Set it to a number of "
            "seconds (0: no timeout), or leave it out."
        ) from None
    return seconds or None


class Meeting(NamedTuple):
    """The place where instances meet.

    Attributes:
        store: The store.
        address: The address on which this instance listens.
        file: The listening file descriptor, in the instance that serves the store.
    """

    store: Any
    address: str
    file: int | None = None

    def named(self, name: str) -> "Meeting":
        """Returns the same with a prefix that separates its entries from others."""
        return self._replace(store=PrefixStore(name, self.store))


def connect(here: Instance, environ: Mapping[str, str] = os.environ) -> Meeting:
    """Connects to the store that the environment names. Raises poptorch.Error."""
    place = environ.get(names.STORE) or _place_by_address(environ)
    kind, _, where = place.partition(":")
    prefix = f"popdist/{environ.get(names.RESTARTS, '0')}"
    if kind in ("file", "meeting"):
        where = _meeting(Path(where), here) if kind == "meeting" else where
        address = environ.get(names.ADDRESS) or "127.0.0.1"
        file_store = FileStore(where, here.count)
        file_store.set_timeout(_LONG)
        return Meeting(PrefixStore(prefix, file_store), address)
    host, _, port = where.lstrip("/").rpartition(":")
    if kind not in ("tcp", "agent") or not host or not port.isdecimal():
        raise Error(
            f"[environment] {names.STORE} is {place!r}. Set it to file:<path> or "
            "tcp://<address>:<port>, or start the program with poprun."
        )
    serves = kind == "tcp" and here.index == 0
    file = _listen(host, int(port)).detach() if serves else None
    wait = timeout()
    store = TCPStore(
        host,
        int(port),
        is_master=serves,
        timeout=_SHORT if wait is None else datetime.timedelta(seconds=wait),
        wait_for_workers=False,
        master_listen_fd=file,
        # The server without libuv trusts sizes that strangers send.
        use_libuv=True,
    )
    store.set_timeout(_LONG)
    return Meeting(PrefixStore(prefix, store), _own_address(host, int(port), environ), file)


def _meeting(path: Path, here: Instance) -> str:
    """Returns a new store file for instances without a launcher's.

    Instance 0 writes the file's name into `path`. Files of earlier runs name processes that have
    ended.
    """
    if here.index == 0:
        _remove_left(path.parent)
        process = this_process()
        found = path.with_name(f"{path.name}-{process.pid}-{process.started}")
        written = found.with_suffix(".new")
        written.write_text(json.dumps([*process]))
        written.replace(path)
        for left in (path, found):
            atexit.register(left.unlink, missing_ok=True)
        return str(found)
    wait = timeout()
    until = None if wait is None else time.monotonic() + wait
    while until is None or time.monotonic() < until:
        with contextlib.suppress(OSError, ValueError, TypeError):
            pid, started = json.loads(path.read_text())
            if lives(Process(int(pid), int(started))):
                return f"{path}-{int(pid)}-{int(started)}"
        time.sleep(_POLL)
    raise Error(
        f"[popdist] instance {here.index} waited {wait:g} s for instance 0 to call popdist.init(), "
        f"which writes {path}. See its output. Instances that their program numbers must be "
        "children of one process, or all have MASTER_ADDR and MASTER_PORT."
    )


def _remove_left(folder: Path) -> None:
    """Removes the files of processes that were killed."""
    for path in folder.glob("popdist-*"):
        with contextlib.suppress(OSError, ValueError, TypeError):
            pid, started = json.loads(path.read_text())
            if not lives(Process(int(pid), int(started))):
                path.unlink(missing_ok=True)
                path.with_name(f"{path.name}-{int(pid)}-{int(started)}").unlink(missing_ok=True)


def _place_by_address(environ: Mapping[str, str]) -> str:
    address, port = environ.get("MASTER_ADDR"), environ.get("MASTER_PORT")
    if not address or not port:
        raise Error(
            "[popdist] there are several instances, but no variable says where they meet: "
            f"{names.STORE} is not set, nor are MASTER_ADDR and MASTER_PORT. Start the program "
            "with poprun, or with python -m popdist under another launcher."
        )
    return f"tcp://{address}:{port}"


def _listen(host: str, port: int) -> socket.socket:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise Error(
            f"[popdist] instance 0 cannot listen on {host}:{port}: {error.strerror}. Name an "
            "address of its host and a free port."
        ) from None
    return listening


def _own_address(host: str, port: int, environ: Mapping[str, str]) -> str:
    if given := environ.get(names.ADDRESS):
        return given
    subnet = environ.get(names.SUBNET)
    if not subnet:
        return addresses.towards(host, port)
    found = addresses.in_subnet(addresses.addresses_of(None), subnet)
    if found is None:
        raise Error(
            f"[popdist] host {socket.gethostname()} has no address in {subnet}. Give another "
            "--host-subnet."
        )
    return found


def meet(
    store: Any, here: Instance, version: str, environ: Mapping[str, str] = os.environ
) -> list[Peer]:
    """Waits for all instances and returns them.

    Raises:
        poptorch.Error: Some do not come; the text names them. It is raised at once if the launcher
            has noted their end.
    """
    own = [socket.gethostname(), *this_process(), version, _memory(here)]
    store.set(f"here/{here.index}", json.dumps(own))
    wait = timeout()
    until = None if wait is None else time.monotonic() + wait
    missing = list(range(here.count))
    while missing:
        missing = [index for index in missing if not store.check([f"here/{index}"])]
        notes = {index: _noted(index, environ) for index in missing}
        for index, (_, how) in notes.items():
            if how:
                raise Error(
                    f"[popdist] instance {here.index} on {own[0]} waited for instance {index} to "
                    f"call popdist.init(), but {how}. See what it wrote last."
                )
        if missing and until is not None and time.monotonic() > until:
            late = [
                f"instance {index}{' (it is stopped)' * is_stopped(pid)}"
                for index, (pid, _) in notes.items()
            ]
            raise Error(
                f"[popdist] instance {here.index} on {own[0]} waited {wait:g} s for "
                f"{', '.join(late)} to call popdist.init(). See their output; "
                "target.hostSyncTimeout of POPLAR_ENGINE_OPTIONS sets the timeout."
            )
        if missing:
            time.sleep(_POLL)
    return [_peer(store.get(f"here/{index}"), index) for index in range(here.count)]


def note_failure(store: Any, here: Instance, text: str) -> None:
    """Tells the others why this instance leaves, before it closes its connections.

    Only instances of one host, whose store is a file, can: a store on a server may not answer.
    """
    if _is_file(store):
        store.set(f"failed/{here.index}", text)


def failures(store: Any, here: Instance) -> list[str]:
    """Returns what other instances have noted by note_failure()."""
    if not _is_file(store):
        return []
    names = [f"failed/{index}" for index in range(here.count) if index != here.index]
    return [store.get(name).decode() for name in names if store.check([name])]


def _is_file(store: Any) -> bool:
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    return isinstance(store, FileStore)


def _memory(here: Instance) -> str:
    """Returns a text that is equal in instances with the same memory and the same processes.

    Host names are not unique, and the containers of one host need not share memory and processes.
    """
    booted = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    found = [booted, os.stat("/dev/shm").st_dev, os.stat("/proc/self/ns/pid").st_ino, os.geteuid()]
    if each := whole_number(os.environ, names.PER_HOST, 0, least=1):
        found.append(here.index // each)
    return "/".join(map(str, found))


def _noted(index: int, environ: Mapping[str, str]) -> tuple[int, str]:
    """Returns the launcher's note on an instance: its process, and how that ended.

    The text is "" if the process has not ended, or if the launcher wrote no note.
    """
    kind, _, where = environ.get(names.STORE, "").partition(":")
    if kind != "file":
        return 0, ""
    try:
        pid, how = json.loads(names.note_of(where, index).read_text())
        return int(pid), str(how)
    except (OSError, ValueError, TypeError):
        return 0, ""


def _peer(text: bytes, index: int) -> Peer:
    try:
        host, pid, started, version, memory = json.loads(text)
        return Peer(str(host), Process(int(pid), int(started)), str(version), str(memory))
    except (ValueError, TypeError):
        raise Error(
            f"[popdist] the entry of instance {index} in the store cannot be read: {text[:80]!r}. "
            "Start all instances with the same version."
        ) from None
