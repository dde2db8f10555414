"""Lists the sockets on which a process listens, reserves ports, and connects as a stranger."""

import contextlib
import os
import random
import socket
from pathlib import Path

import pytest

# Nothing, a request of another protocol, lengths beyond all memory, and noise.
SAID = (
    b"",
    b"GET / HTTP/1.1\r\n\r\n",
    b"\xff" * 4096,
    b"\0" * 7 + b"\x7f" * 57,
    random.Random(0).randbytes(1 << 16),
)


@pytest.fixture
def reserved_port():
    """A port that, like the next one, no other program gets meanwhile; a server there sets
    SO_REUSEADDR."""
    with contextlib.ExitStack() as kept:
        while (first := _reserve_two(kept)) is None:
            pass
        yield first


def _reserve_two(kept):
    """Returns the first of two consecutive ports; None if another program uses the second."""
    with contextlib.ExitStack() as tried:
        sockets = [tried.enter_context(socket.socket()) for _ in range(2)]
        for each in sockets:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sockets[0].bind(("127.0.0.1", 0))
        first = sockets[0].getsockname()[1]
        try:
            sockets[1].bind(("127.0.0.1", first + 1))
        except (OSError, OverflowError):
            return None
        kept.push(tried.pop_all())
        return first


def listening(pid):
    """Returns addresses and ports on which a process listens, from its sockets in the kernel's
    tables."""
    own = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        try:
            own.add(os.readlink(file))
        except OSError:
            continue
    found = []
    for table in ("tcp", "tcp6"):
        for row in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = row.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
                address, port = fields[1].split(":")
                found.append((table, socket.inet_ntoa(bytes.fromhex(address)[3::-1])
                              if table == "tcp" else address, int(port, 16)))  # fmt: skip
    return found


def strangers_come(places):
    """Connects to each place with each text. The stranger is refused, or loses its connection."""
    for _, address, port in places:
        for said in SAID:
            try:
                stranger = socket.create_connection((address, port), timeout=0.2)
            except (TimeoutError, ConnectionError):
                continue
            with stranger, contextlib.suppress(ConnectionError):
                stranger.settimeout(300)
                stranger.sendall(said)
                assert not said or stranger.recv(1) == b"", f"an answer to {said[:16]}"
