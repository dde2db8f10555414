"""Detects instances of a host that have ended, and ends waits for them."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from poptorch_core.process_guard import lives

if TYPE_CHECKING:
    from popdist.store import Peer

_POLL = 0.02  # s between checks
_SECONDS_OF_ENDING = 0.4  # for the last messages of others to arrive


def ended(peers: "Sequence[Peer]", here: int) -> dict[int, str]:
    """Returns the instances on the host of `here` that have ended, with a text for each."""
    return _found(peers, here, lambda peer: "" if lives(peer.process) else "has ended")


def stopped(peers: "Sequence[Peer]", here: int) -> dict[int, str]:
    """Returns the stopped instances on the host of `here`, with a text for each."""
    text = "is stopped (kill -CONT continues it)"
    return _found(peers, here, lambda peer: text if is_stopped(peer.process.pid) else "")


def ended_soon(peers: "Sequence[Peer]", here: int) -> dict[int, str]:
    """Like `ended`, but waits a moment: an ending process closes its connections first."""
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
    """Runs `call` in a thread, and returns or raises its result.

    Args:
        call: Waits for the others, without noticing ends. Its thread is abandoned after an error.
        peers: All instances.
        here: This instance's number.
        seconds: The timeout.
        lost: Makes the error for an ended instance (False) or the timeout (True).

    Raises:
        Exception: `lost(is_late)`, if an instance ends before `call` does, or after the timeout.
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
    """Returns whether a process of this host is stopped."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] in ("T", "t")
    except OSError:
        return False
