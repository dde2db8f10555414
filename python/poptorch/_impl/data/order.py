"""The order in which a DataLoader goes through its data, so that a pass can be taken up again.

A pass that is taken up draws the same order as before from the random state that it began with,
leaves out what the program has had, and leaves no trace in the program's random numbers.
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
    """How a pass over the data began; plain data.

    seed: of the random numbers of its batches. share: how the process's Share was before.
    random, samplers: the states when the first index was drawn, or None before. generator: that
    of the loader. first: a checksum of the first index.
    """

    seed: int
    share: dict[str, Any] | None
    generator: dict[str, Any] | None = None
    random: host_rng.State | None = None
    samplers: sampler_state.States | None = None
    first: int | None = None

    def as_data(self) -> dict[str, Any]:
        """What Pass(**…) takes."""
        return asdict(self)


class Numbered(NamedTuple):
    """What a worker is asked to load: an index with the pass's seed and the batch's number."""

    index: Any
    seed: int
    number: int


class Order:
    """An index sampler. Every iteration is a pass, which `begin` or `take_up` has set up.

    numbered: give `Numbered` instead of the plain indices.
    """

    def __init__(self, sampler: Any, generator: Any) -> None:
        self.numbered = False
        self._sampler, self._generator = sampler, generator
        self._pass: Pass | None = None
        self._skipped: int | None = None
        self._leaves_trace = False
        # A sampler that draws while it goes gets a random stream of its own: the program's, as
        # it is when the pass begins. What the program draws meanwhile then changes nothing.
        self._isolated = not sampler_state.is_torchs(sampler)

    def __len__(self) -> int:
        return len(self._sampler)

    def begin(self, new: Pass) -> None:
        """The next iteration is a new pass."""
        self._pass, self._skipped = new, None

    def take_up(self, old: Pass, skipped: int, *, leaves_trace: bool) -> None:
        """The next iteration is an old pass, without its first batches.

        leaves_trace: the process's random numbers go on as after the pass's beginning.
        """
        self._pass, self._skipped, self._leaves_trace = old, skipped, leaves_trace

    def check(self, states: sampler_state.States) -> None:
        """Raises poptorch.Error for states that are of other samplers."""
        sampler_state.check(self._sampler, states)

    def states(self) -> dict[str, Any]:
        """What the next pass will begin with, as attributes of a Pass."""
        once = sampler_state.iterator_in(self._sampler)
        if once is not None:
            raise Error(
                f"[data] a sampler of type {type(once).__name__} is an iterator, which "
                "gives its indices once: its position cannot be saved. Pass an object whose "
                "__iter__ begins a new pass."
            )
        generator = self._generator
        return {
            "samplers": sampler_state.states(self._sampler),
            "generator": None if generator is None else host_rng.state_of(generator),
        }

    def restore(self, states: dict[str, Any]) -> None:
        """Begins the next pass with these."""
        sampler_state.restore(self._sampler, states["samplers"])
        if states["generator"] is not None and self._generator is not None:
            host_rng.restore_to(self._generator, states["generator"])

    def started(self) -> Pass:
        """The current pass, with the states that it began or would begin with."""
        current = self._pass
        assert current is not None
        if current.samplers is None:
            self._note_start(current)
        return current

    def _note_start(self, current: Pass) -> None:
        # Who asks for no position is not troubled by a sampler that has none.
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
        """What is left of an old pass; its order has been drawn."""
        if old.random is not None and old.samplers is not None:
            host_rng.restore(old.random)
            self.restore({"samplers": old.samplers, "generator": old.generator})
        indices = self._indices()
        first = next(indices, _END)
        if first is not _END and old.first not in (None, _checksum(first)):
            raise Error(
                f"[data] the {sampler_state.name_of(self._sampler)} does not give the "
                "order of the pass that is to be taken up. Give it state_dict() and "
                "load_state_dict(), or let it draw from a generator that is an attribute."
            )
        if skipped == 0 and first is not _END:
            return _with_first(first, indices)
        for _ in range(skipped - 1):
            next(indices, _END)
        return indices

    def _indices(self) -> Iterator[Any]:
        items = iter(self._sampler)
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
