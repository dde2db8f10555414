"""The effects of forward besides parameters and buffers: kept, refused, or warned about.

A compiled program runs forward's ops, not its Python code, so an attribute that forward assigns is
written once, in the trace. If a trace changes anything that forward can reach, a second trace
begins with these changes, as the second call in eager torch does. If it records another program,
forward reads what an earlier call wrote, and the model is refused. Otherwise the tensors that both
traces write become additional results of the program, and each run stores them where forward does.
"""

import contextlib
import functools
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy
import torch
from poptorch._impl.pytree.structures import Node, check_same, flatten, unflatten
from poptorch._impl.trace.reachable import Change, Holder, Snapshot, apply, undo
from poptorch._impl.trace.watched_numbers import Reads
from poptorch._impl.weights import members
from poptorch._logging import logger_of
from poptorch_core import Error, _torch, errors

logger = logger_of(__name__)

_SHOWN = 3  # names in a message

Tensors = list[torch.Tensor]
Forward = Callable[[Tensors], tuple[Tensors, Node | None]]

_CURE = (
    "Only parameters and buffers keep their values on the device between calls. Make it a buffer "
    "(register_buffer) and write it with copy_()."
)
_PLACE = re.compile(r"\(([^()]+:\d+)\)")


class ForwardEffects:
    """The writes of a model's forward, in its traces and at each run.

    model: the model or function that is traced.
    forward: runs it with the tensors of a trace, and returns the tensors of its results, and their
    structure.
    twins: returns the user's modules, by the identity of their copies in the model.
    """

    def __init__(
        self,
        model: Callable[..., Any],
        forward: Forward,
        twins: Callable[[], dict[int, torch.nn.Module]] = dict,
    ) -> None:
        self._model = model
        self._forward = forward
        self._first: _Trace | None = None
        self._kept: list[Change] = []  # whose tensors each run returns
        self._lost: set[Any] = set()  # the places of changes whose tensors no run stores
        self._members: Tensors = []
        self._twins = twins

    def traced(self, tensors: Tensors) -> Tensors:
        """Runs forward in a trace; returns its results, and then the tensors that it wrote."""
        self._random = _random_states()
        self._first = first = _Trace(self._model, lambda: self._forward(tensors), self._lost)
        self._members = _torch.written_members()
        return [*first.results, *first.tensors, *self._members]

    def check(self, trace: Callable[[Callable[[Tensors], Tensors]], Any]) -> bool:
        """Compares a second trace, if the first one changed anything, and decides what is kept.

        trace: traces the model with the inputs and options of the first trace.
        Returns whether the program has results that no run stores: trace the model again without.
        Raises poptorch.Error if forward reads what an earlier call wrote.
        """
        first = self._first
        if first is None or not first.changes:
            return False
        second = self._second(first, trace)
        if second.text != first.text:
            raise _refusal(first.changes, _difference(first.text, second.text))
        if first.node is not None and not _is_like(first.node, second.node):
            raise _refusal(first.changes, "", "its results are not of the same structure")
        later = {change.place: change for change in second.changes}
        known = {change.place for change in first.changes}
        grown = {place[0] for place in later if place not in known}  # each call adds values
        # The trace has done the rest, as all of forward's Python code.
        with_tensors = {place[0] for place in first.nodes}
        done = [
            change for change in first.changes
            if change.place not in first.nodes
            and not (change.holder.is_sequence and change.holder.identity in with_tensors)
        ]  # fmt: skip
        self._put([(change.holder, change.key, change.after) for change in done])
        lost = []
        for change in first.changes:
            found = first.node_of(change)
            if change.holder.identity in grown:
                is_last = False
            elif change.place not in first.nodes:
                is_last = _is_final(change, later.get(change.place))
            else:
                is_last = found is not None and _is_like(found, second.node_of(change))
            if not is_last:
                lost.append(change)
            elif found is not None:
                self._kept.append(change)
        self._lost = {change.place for change in lost}
        if lost:
            logger.warning(
                f"[state] forward writes {errors.listed([each.name for each in lost], _SHOWN)}, "
                "but its Python code runs only in the first call, which is traced: later calls do "
                f"not write it. Return the value from forward instead. {_CURE}"
            )
        return any(first.node_of(change) is not None for change in lost)

    def _second(self, first: "_Trace", trace: Callable[..., Any]) -> "_Trace":
        reads, made = Reads(), []

        def again(tensors: Tensors) -> Tensors:
            apply([(each.holder, each.key, reads.watch(each.after)) for each in first.changes])
            made.append(_Trace(self._model, lambda: self._forward(tensors), set(), reads))
            return made[0].results

        try:
            with _as_random(self._random):
                trace(again)
        except Exception as error:
            text = error.message if isinstance(error, Error) else str(error)
            place = _PLACE.search(text)
            raise _refusal(first.changes, place[1] if place else "", text) from None
        finally:
            undo(first.changes)
        if reads.lines:
            raise _refusal(first.changes, reads.lines[0])
        return made[0]

    @property
    def keeps(self) -> bool:
        """Returns whether runs store anything."""
        return bool(self._kept or self._members)

    def names(self) -> list[str]:
        """Returns what runs store, as the user's program names it."""
        return [change.name for change in self._kept] + ["a constant"] * len(self._members)

    def store(self, tensors: Sequence[torch.Tensor]) -> None:
        """Stores what forward wrote in a run.

        tensors: what the program returns in addition to forward's results.
        """
        assert self._first is not None
        places = [self._first.nodes[change.place] for change in self._kept]
        self._put(
            (change.holder, change.key, unflatten(place[0], iter(tensors[place[1] :])))
            for change, place in zip(self._kept, places, strict=True)
            if place is not None
        )
        if self._members:
            for member, value in zip(self._members, tensors[-len(self._members) :], strict=True):
                with torch.no_grad():  # a run of several micro-batches returns one value for each
                    member.copy_(value.reshape(-1, member.numel())[-1].reshape(member.shape))

    def _put(self, values: Iterable[tuple[Holder, Any, Any]]) -> None:
        values = list(values)
        if not values:
            return
        apply(values)
        of_copies = self._twins()
        twins = [(of_copies.get(id(holder.target)), *rest) for holder, *rest in values]
        apply([(Holder(twin, ""), key, value) for twin, key, value in twins if twin is not None])


def twins_of(copy: Any, original: Any) -> Callable[[], dict[int, torch.nn.Module]]:
    """Returns a function that returns the modules of the original by the ids of their copies.

    They are those at the time of this call.
    """
    if not isinstance(copy, torch.nn.Module) or not isinstance(original, torch.nn.Module):
        return dict
    copies, originals = members.named_modules(copy), members.named_modules(original)

    def found() -> dict[int, torch.nn.Module]:
        pairs = zip(copies, originals, strict=False)
        return {id(one): other for (_, one), (_, other) in pairs if one is not other}

    return functools.cache(found)


class _Trace:
    """One run of forward in a trace, and what it changed. The changes are undone.

    nodes: for each change of which a tensor of the trace is a part, its structure and the number of
    its first tensor among `tensors`; None if its structure is not known.
    lost: the places of changes whose tensors are left out of `tensors`.
    """

    def __init__(
        self,
        model: Callable[..., Any],
        forward: Callable[[], tuple[Tensors, Node | None]],
        lost: set[Any],
        reads: Reads | None = None,
    ) -> None:
        before = Snapshot(model)
        self.tensors: Tensors = []
        self.nodes: dict[Any, tuple[Node, int] | None] = {}
        try:
            with contextlib.nullcontext() if reads is None else reads.recorded():
                self.results, self.node = forward()
            self.changes = before.changes()
            for change in self.changes:
                if change.place not in lost:
                    self._keep(change)
            self.text = ""
            if reads is not None or self.changes:
                buffers = model.buffers() if isinstance(model, torch.nn.Module) else ()
                self.text = _torch.traced_text([*self.results, *self.tensors, *buffers])
        except BaseException:
            undo([change for change in before.changes() if _is_of_trace(change.after)])
            raise
        undo(self.changes)

    def node_of(self, change: Change) -> Node | None:
        """Returns the structure of a change that holds tensors of the trace."""
        found = self.nodes.get(change.place)
        return found and found[0]

    def _keep(self, change: Change) -> None:
        found = _taken_apart(change.after)
        if found is None:
            self.nodes[change.place] = None
            return
        node, leaves = found
        if any(_torch.is_traced(leaf) and _torch.known(leaf) is None for leaf in leaves):
            self.nodes[change.place] = node, len(self.tensors)
            self.tensors += leaves


def _taken_apart(value: Any) -> tuple[Node, Tensors] | None:
    """Returns the structure and the tensors of a value, or None if it has no known structure."""
    leaves: Tensors = []
    try:
        return flatten(value, leaves), leaves
    except Error:
        return None


def _is_of_trace(value: Any) -> bool:
    """Returns whether a tensor of the trace is, or may be, a part of a value."""
    found = _taken_apart(value)
    return found is None or any(map(_torch.is_traced, found[1]))


def _is_final(change: Change, later: Change | None) -> bool:
    """Returns whether all calls leave the value that the first one wrote."""
    if later is None:
        return True
    if isinstance(change.after, torch.Tensor) and isinstance(later.after, torch.Tensor):
        return torch.equal(change.after, later.after)
    return type(change.after) is type(later.after) and bool(change.after == later.after)


def _is_like(first: Node, second: Node | None) -> bool:
    if second is None:
        return False
    try:
        check_same([first], [second])
    except Error:
        return False
    return True


def _refusal(changes: list[Change], line: str, reason: str = "") -> Error:
    names = errors.listed([change.name for change in changes], _SHOWN)
    place = f" ({line})" if line else f": {reason}" if reason else ""
    return Error(f"[state] forward reads what an earlier call wrote to {names}{place}. {_CURE}")


def _difference(first: str, second: str) -> str:
    """Returns the line of the first op in which two traces differ."""
    for one, other in zip(first.splitlines(), second.splitlines(), strict=False):
        if one != other:
            found = _PLACE.search(other) or _PLACE.search(one)
            return found[1] if found else ""
    return ""


def _random_states() -> tuple[Any, ...]:
    return random.getstate(), numpy.random.get_state(), torch.get_rng_state()


@contextlib.contextmanager
def _as_random(states: tuple[Any, ...]) -> Iterator[None]:
    """Draws the random numbers of an earlier time in the body."""
    now = _random_states()
    _set_random(states)
    try:
        yield
    finally:
        _set_random(now)


def _set_random(states: tuple[Any, ...]) -> None:
    random.setstate(states[0])
    numpy.random.set_state(states[1])
    torch.set_rng_state(states[2])
