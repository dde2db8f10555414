"""The order in which a DataLoader iterates its data, so that a pass can be resumed.

A resumed pass draws the same order again from the random state at its beginning, and skips the
items that the program has received. It does not change the program's random numbers.
"""

import contextlib
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from poptorch._impl.data import host_rng, sampler_state
from poptorch_core import Error

_END = object()


@dataclass
class Pass:
    """The state at the beginning of a pass over the data; plain data.

    seed: seeds the random numbers of its batches.
    share: the state of the process's Share before the pass.
    random, samplers: the states at the draw of the first index, or None before it.
    generator: the state of the loader's generator.
    first: a checksum of the first index.
    """

    seed: int
    share: dict[str, Any] | None
    generator: dict[str, Any] | None = None
    random: host_rng.State | None = None
    samplers: sampler_state.States | None = None
    first: int | None = None

    def as_data(self) -> dict[str, Any]:
        """Returns the arguments of Pass(**…)."""
        return asdict(self)


class Numbered(NamedTuple):
    """A request to a worker: an index with the pass's seed and the batch's number."""

    index: Any
    seed: int
    number: int


class Order:
    """An index sampler. Call begin() or take_up() before each iteration, which is a pass.

    sampler, generator: the program's.
    numbered: yields `Numbered` instead of plain indices.
    """

    def __init__(self, sampler: Any, generator: Any) -> None:
        self.numbered = False
        self.sampler, self.generator = sampler, generator
        self._pass: Pass | None = None
        self._skipped: int | None = None
        self._leaves_trace = False
        # A sampler that draws during the pass gets a separate random stream: a copy of the
        # program's at the beginning. So draws of the program do not change the order.
        self._isolated = not sampler_state.is_torchs(sampler)

    def __len__(self) -> int:
        return len(self.sampler)

    def adopt(self, other: "Order") -> None:
        """Takes the sampler and the generator of another order."""
        self.sampler, self.generator = other.sampler, other.generator

    def begin(self, new: Pass) -> None:
        """Makes the next iteration a new pass."""
        self._pass, self._skipped = new, None

    def take_up(self, old: Pass, skipped: int, *, leaves_trace: bool) -> None:
        """Makes the next iteration resume an old pass, without its first batches.

        leaves_trace: the process's random numbers continue as after the beginning of the pass.
        """
        self._pass, self._skipped, self._leaves_trace = old, skipped, leaves_trace

    def check(self, states: sampler_state.States) -> None:
        """Raises poptorch.Error for states of different samplers."""
        sampler_state.check(self.sampler, states)

    def states(self) -> dict[str, Any]:
        """Returns the states at the beginning of the next pass, as attributes of a Pass."""
        once = sampler_state.iterator_in(self.sampler)
        if once is not None:
            raise Error(
                f"[data] a sampler of type {type(once).__name__} is an iterator, which "
                "yields its indices only once: its position cannot be saved. Pass an object whose "
                "__iter__ begins a new pass."
            )
        generator = self.generator
        return {
            "samplers": sampler_state.states(self.sampler),
            "generator": None if generator is None else host_rng.state_of(generator),
        }

    def restore(self, states: dict[str, Any]) -> None:
        """Restores the states for the next pass."""
        sampler_state.restore(self.sampler, states["samplers"])
        if states["generator"] is not None and self.generator is not None:
            host_rng.restore_to(self.generator, states["generator"])

    def started(self) -> Pass:
        """Returns the current pass, with the states at its beginning."""
        current = self._pass
        assert current is not None
        if current.samplers is None:
            self._note_start(current)
        return current

    def _note_start(self, current: Pass) -> None:
        # A sampler whose state cannot be saved matters only if the program saves a position.
        with contextlib.suppress(Exception):
            vars(current).update(self.states(), random=host_rng.current())

    def __iter__(self) -> Iterator[Any]:
        current = self._pass
        assert current is not None
        if self._skipped is None:
            indices = self._begun(current)
        else:
            indices = self._taken_up(current, self._skipped, self._leaves_trace)
        return self._given(indices, current, self._skipped or 0)

    def _given(self, indices: Iterator[Any], current: Pass, number: int) -> Iterator[Any]:
        for index in indices:
            if current.first is None:
                current.first = _checksum(index)
            yield Numbered(index, current.seed, number) if self.numbered else index
            number += 1

    def _begun(self, new: Pass) -> Iterator[Any]:
        self._note_start(new)
        yield from self._indices()

    def _taken_up(self, old: Pass, skipped: int, leaves_trace: bool) -> Iterator[Any]:
        with contextlib.nullcontext() if leaves_trace else host_rng.kept():
            indices = self._left(old, skipped)
        yield from indices

    def _left(self, old: Pass, skipped: int) -> Iterator[Any]:
        """Draws the order of an old pass again; returns the indices that are left."""
        if old.random is not None and old.samplers is not None:
            host_rng.restore(old.random)
            self.restore({"samplers": old.samplers, "generator": old.generator})
        indices = self._indices()
        first = next(indices, _END)
        if first is not _END and old.first not in (None, _checksum(first)):
            raise Error(
                f"[data] the {sampler_state.name_of(self.sampler)} does not give the "
                "order of the pass to resume. Define state_dict() and load_state_dict(), or let "
                "it draw from a generator that is an attribute."
            )
        if skipped == 0 and first is not _END:
            return _with_first(first, indices)
        for _ in range(skipped - 1):
            next(indices, _END)
        return indices

    def _indices(self) -> Iterator[Any]:
        items = iter(self.sampler)
        own = None
        while True:
            if own is None:
                item = next(items, _END)
                own = host_rng.current() if self._isolated else None
            else:
                with host_rng.kept():
                    host_rng.restore(own)
                    item = next(items, _END)
                    own = host_rng.current()
            if item is _END:
                return
            yield item


def _with_first(first: Any, others: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from others


def _checksum(index: Any) -> int:
    return zlib.crc32(repr(index).encode())
