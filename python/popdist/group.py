"""Messages between instances, over Gloo.

Messages are matched by tag. A header of fixed length that describes the bytes precedes them. The
receiver compares it with the expected header before it allocates memory.
"""

import datetime
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from popdist import addresses, fabrics, presence, store
from popdist.instance import Instance
from poptorch._versions import VERSION
from poptorch_core import _core
from poptorch_core.errors import Error

_MAGIC = 0x504F5044495354  # "POPDIST"
_MOST_DIMENSIONS = 16
_HEADER = 6 + _MOST_DIMENSIONS  # int64 words


class Header(NamedTuple):
    """The description of a message: its operation, its name and members, its type and its shape.

    The operation, the name with the members, and the type are sent as digests.
    """

    operation: str
    name: str
    dtype: str
    shape: tuple[int, ...]

    def words(self) -> torch.Tensor:
        """Returns the header as it is sent."""
        found = [_MAGIC, _digest(self.operation), _digest(self.name), _digest(self.dtype)]
        found += [len(self.shape), 0, *self.shape]
        return torch.tensor(found + [0] * (_HEADER - len(found)), dtype=torch.int64)


def _digest(text: str) -> int:
    return zlib.crc32(text.encode()) | len(text) << 32


class Group:
    """All instances of a program, including this one, which join at a meeting.

    Raises:
        poptorch.Error: Some instances do not come, or have another version.
    """

    def __init__(
        self, here: Instance, meeting: store.Meeting, environ: Mapping[str, str] = os.environ
    ) -> None:
        self.here = here
        self._failed: str | None = None
        self._fabric: Any = None
        self._store, self._address, file = meeting
        _core.meet_fault("join", "meeting")
        self.peers = store.meet(self._store, here, VERSION, environ)
        for index, peer in enumerate(self.peers):
            if peer.version != VERSION:
                raise Error(
                    f"[popdist] instance {here.index} is of version {VERSION}, but instance "
                    f"{index} on {peer.host} of {peer.version}. Start all with the same version."
                )
        wait = store.timeout()
        self._wait = fabrics.FOREVER if wait is None else datetime.timedelta(seconds=wait)
        _core.meet_fault("join", "meeting")
        self._gloo: Any = self._while_all_live(
            "all others", lambda: fabrics.gloo_group(self._store, here, self._address, wait)
        )
        if file is not None:
            addresses.refuse_strangers(file)  # all are connected

    def close(self) -> None:
        """Leaves the group. Messages that others still send are lost."""
        if self._fabric is not None:
            self._fabric.leave()
        self._gloo = self._store = self._fabric = None

    def fabric(self) -> Any:
        """Returns the transport between the engines of the instances.

        The first call makes it; every instance must call this.

        Raises:
            poptorch.Error: Some instances do not come.
        """
        if self._fabric is None:
            self._fabric = self._while_all_live(
                "all others for a model",
                lambda: fabrics.make(self.here, self.peers, self._store, self._address),
            )
        return self._fabric

    def _while_all_live(self, what: str, call: Callable[[], Any]) -> Any:
        def lost(is_late: bool) -> Error:
            return self._error(what, RuntimeError("timed out") if is_late else None)

        seconds = self._wait.total_seconds()
        try:
            return presence.while_all_live(call, self.peers, self.here.index, seconds, lost)
        except Error:
            raise
        except RuntimeError as error:  # from Gloo
            raise self._error(what, error) from None

    def name_of(self, index: int) -> str:
        """Returns an instance's name for messages."""
        return f"instance {index} on {self.peers[index].host}"

    def check_dimensions(self, header: Header) -> None:
        """Raises poptorch.Error for more dimensions than a header has room for."""
        if len(header.shape) > _MOST_DIMENSIONS:
            raise Error(
                f"[popdist] {header.operation}{_called(header)} of {len(header.shape)} dimensions: "
                f"the limit is {_MOST_DIMENSIONS}. Reshape it."
            )

    def send(self, to: int, header: Header, data: torch.Tensor) -> list[tuple[Any, Any]]:
        """Starts to send contiguous bytes. Returns the pending work, for which `finish` waits."""
        tag = _digest(header.name) & 0x7FFFFFFF
        found = []
        for part in (header.words(), data):
            if part.numel():
                found.append((self._begun(self._gloo.send, part, to, tag, header), part))
        return found

    def finish(self, to: int, header: Header, sent: Sequence[tuple[Any, Any]]) -> None:
        """Waits until the sent tensors may be changed."""
        for work, _ in sent:
            self._finished(work, to, header)

    def receive(
        self, source: int, header: Header, *, free_rows: bool = False
    ) -> tuple[torch.Tensor, tuple[int, ...]]:
        """Returns the bytes of a message, and its shape.

        Args:
            source: The instance that sends it.
            header: The expected header.
            free_rows: Whether the first dimension may differ.

        Raises:
            poptorch.Error: Another message came; the text names both.
        """
        tag = _digest(header.name) & 0x7FFFFFFF
        words = torch.empty(_HEADER, dtype=torch.int64)
        self._finished(self._begun(self._gloo.recv, words, source, tag, header), source, header)
        shape = self._checked(source, header, words, free_rows)
        data = torch.empty(_bytes(header.dtype, shape), dtype=torch.uint8)
        if data.numel():
            self._finished(self._begun(self._gloo.recv, data, source, tag, header), source, header)
        return data, shape

    def _checked(
        self, source: int, header: Header, words: torch.Tensor, free_rows: bool
    ) -> tuple[int, ...]:
        got, wanted = words.tolist(), header.words().tolist()
        dimensions = got[4] if 0 <= got[4] <= _MOST_DIMENSIONS else -1
        shape = tuple(got[6 : 6 + max(dimensions, 0)])
        fits = got[:6] == wanted[:6] and (
            shape[1:] == header.shape[1:] and shape[0] >= 0 if free_rows else shape == header.shape
        )
        if fits:
            return shape
        what = next(
            (
                text
                for place, text in enumerate(
                    (
                        "bytes that popdist did not write",
                        "another operation",
                        "another name or set of instances",
                        "another type of elements",
                    )
                )  # fmt: skip
                if got[place] != wanted[place]
            ),
            f"shape {list(shape)}",
        )
        self._failed = f"{self.name_of(source)} sent {what}"
        raise Error(
            f"[popdist] {self.name_of(self.here.index)} expected {header.operation}"
            f"{_called(header)} of {header.dtype} with shape {list(header.shape)}, but "
            f"{self.name_of(source)} has {what}. All instances must call the same function with "
            "matching arguments."
        )

    def _begun(self, does: Any, part: torch.Tensor, peer: int, tag: int, header: Header) -> Any:
        if self._failed is not None or self._gloo is None:
            raise Error(
                "[popdist] the instances are no longer connected: "
                f"{self._failed or 'this one has left'}. Start the program again."
            )
        try:
            return does([part], peer, tag)
        except RuntimeError as error:
            raise self._error(self._awaited(peer, header), error) from None

    def _finished(self, work: Any, peer: int, header: Header) -> None:
        try:
            work.wait(self._wait)
        except RuntimeError as error:
            raise self._error(self._awaited(peer, header), error) from None

    def _awaited(self, peer: int, header: Header) -> str:
        return f"{self.name_of(peer)} for {header.operation}{_called(header)}"

    def _error(self, what: str, error: RuntimeError | None) -> Error:
        """Returns the error for the end of a wait.

        Args:
            what: The awaited event.
            error: Gloo's error; None: an instance has ended.
        """
        reason = str(error).partition("\n")[0].rpartition("] ")[2].partition(". ")[0]
        is_closed, is_late = "onnection" in reason, "timed out" in reason.lower()
        look = presence.ended_soon if is_closed else presence.ended
        gone = look(self.peers, self.here.index) or presence.stopped(self.peers, self.here.index)
        found = ", ".join(f"{self.name_of(index)} {how}" for index, how in gone.items())
        if is_late:
            late = f"it did not come within {self._wait.total_seconds():g} s"
            found = f"{late}; {found}" if found else late
        if not found and is_closed:
            failed = store.failures(self._store, self.here)
            found = ", ".join(["it has closed its connection", *failed])
        self._failed = f"{found or reason} ({what})"
        text = f"{self.name_of(self.here.index)} waited for {what}: {found or reason}"
        store.note_failure(self._store, self.here, text)
        return Error(
            f"[popdist] {text}. See "
            "what it wrote last; target.hostSyncTimeout of POPLAR_ENGINE_OPTIONS sets the timeout."
        )


def _called(header: Header) -> str:
    name = header.name.partition("|")[0]
    return f" {name!r}" if name else ""


def _bytes(dtype: str, shape: Sequence[int]) -> int:
    size = itemsize(dtype)
    for extent in shape:
        size *= extent
    if size > os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
        raise Error(
            f"[popdist] a message of {dtype} with shape {list(shape)} does not fit into the memory "
            "of this host."
        )
    return size


def itemsize(dtype: str) -> int:
    """Returns the bytes of an element. dtype: torch's name, or numpy's `<kind><bytes>`."""
    if hasattr(torch, dtype):
        return getattr(torch, dtype).itemsize
    import numpy

    return numpy.dtype(dtype).itemsize
