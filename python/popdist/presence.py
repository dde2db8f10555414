"""Who of a host's instances is still there, and waits that end when one is not."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from poptorch_core.process_guard import lives

if TYPE_CHECKING:
    from popdist.store import Peer

_POLL = 0.02  # s between looks
_SECONDS_OF_ENDING = 0.4  # for what others sent last to come


def ended(peers: "Sequence[Peer]", here: int) -> dict[int, str]:
    """By instance, of the host of `here`: that it has ended."""
    return _found(peers, here, lambda peer: "" if lives(peer.process) else "has ended")


def stopped(peers: "Sequence[Peer]", here: int) -> dict[int, str]:
    """By instance, of the host of `here`: that it is stopped. It may be continued."""
    text = "is stopped (kill -CONT continues it)"
    return _found(peers, here, lambda peer: text if is_stopped(peer.process.pid) else "")


def ended_soon(peers: "Sequence[Peer]", here: int) -> dict[int, str]:
    """The same as `ended`: a process that ends closes its connections a moment before."""
    until = time.monotonic() + _SECONDS_OF_ENDING
    while not (found := ended(peers, here)) and time.monotonic() < until:
        time.sleep(_POLL)
    return found


def while_all_live(
    call: Callable[[], Any],
    peers: "Sequence[Peer]",
    here: int,
    seconds: float,
    lost: Callable[[bool], Exception],
) -> Any:
    """What `call` returns or raises; `lost(is_late)` is raised when an instance has ended before it
    did, or after that many seconds.

    call: waits for the others where nothing tells it of ends. It is then left to itself.
    """
    outcome: list[tuple[Any, BaseException | None]] = []

    def run() -> None:
        try:
            outcome.append((call(), None))
        except BaseException as error:
            outcome.append((None, error))

    thread = threading.Thread(target=run, daemon=True, name="popdist")
    thread.start()
    thread.join(_POLL)
    until = time.monotonic() + seconds
    while thread.is_alive():
        is_late = time.monotonic() > until
        if is_late or ended(peers, here):
            thread.join(_SECONDS_OF_ENDING)
            if thread.is_alive():
                raise lost(is_late)
        thread.join(_POLL)
    found, error = outcome[0]
    if error is not None:
        raise error
    return found


def _found(peers: "Sequence[Peer]", here: int, how: "Callable[[Peer], str]") -> dict[int, str]:
    of_memory = {
        index: peer
        for index, peer in enumerate(peers)
        if index != here and peer.memory == peers[here].memory
    }
    found = {index: (peer, how(peer)) for index, peer in of_memory.items()}
    return {i: f"(process {peer.process.pid}) {what}" for i, (peer, what) in found.items() if what}


def is_stopped(pid: int) -> bool:
    """Whether a process of this host is."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] in ("T", "t")
    except OSError:
        return False
