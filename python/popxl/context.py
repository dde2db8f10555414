"""What is current while a program is written: the graph, IPU, tile set, names and order of ops."""

import functools
from collections.abc import Iterator
from contextlib import ContextDecorator, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from popxl.graph import Graph
    from popxl.ir import Ir


class ExecutionContext(Enum):
    """When an op runs: in the program, or when weights come from or go to the host."""

    Normal = 0
    WeightsFromHostFragment = 1
    WeightsToHostFragment = 2


@dataclass
class Context:
    """The state of the contexts; one for the process."""

    graphs: "list[Graph]" = field(default_factory=list)
    ipu: "int | None" = None
    io_tiles: bool = False
    names: list[str] = field(default_factory=list)
    execution: ExecutionContext = ExecutionContext.Normal
    sequences: "list[_Sequence]" = field(default_factory=list)


current = Context()


def get_current_context() -> Context:
    """The contexts as they are now."""
    return current


def get_current_graph() -> "Graph":
    """The graph of the innermost `with graph:`. RuntimeError outside of any."""
    if not current.graphs:
        raise RuntimeError(
            "There is no current graph. Write ops inside `with ir.main_graph:` or a graph's build."
        )
    return current.graphs[-1]


def get_main_graph() -> "Graph":
    """The main graph of the current Ir. RuntimeError outside of any graph."""
    return get_current_graph().main_graph


def get_ir() -> "Ir":
    """The current Ir. RuntimeError outside of any graph."""
    return get_current_graph().ir


gcg, gmg, gir = get_current_graph, get_main_graph, get_ir


@contextmanager
def _set(name: str, value: Any) -> Iterator[None]:
    before = getattr(current, name)
    setattr(current, name, value)
    try:
        yield
    finally:
        setattr(current, name, before)


@contextmanager
def ipu(ipu: int) -> Iterator[int]:
    """Ops inside run on IPU `ipu`, from 0 (ValueError; TypeError for what is no int)."""
    if not isinstance(ipu, (int, np.integer)):
        raise TypeError(f"IPUs are counted by ints from 0 but {ipu!r} was given.")
    if ipu < 0:
        raise ValueError(f"IPUs are counted from 0 but {ipu} was given.")
    with _set("ipu", ipu):
        yield ipu


@contextmanager
def io_tiles() -> Iterator[None]:
    """Ops inside run on the tiles kept for input and output."""
    with _set("io_tiles", True):
        yield


@contextmanager
def _execution_context(context: ExecutionContext) -> Iterator[None]:
    with _set("execution", context):
        yield


@contextmanager
def name_scope(name: str) -> Iterator[str]:
    """Tensors made inside are called `name/...`. Yields the whole scope."""
    current.names.append(name)
    try:
        yield "/".join(current.names)
    finally:
        current.names.pop()


class debug_context_frame_offset(ContextDecorator):
    """Accepted as a context and a decorator: ops here record no frames that `i` could skip."""

    def __init__(self, i: int) -> None:
        self._offset = i

    def __enter__(self) -> int:
        return self._offset

    def __exit__(self, *exception: Any) -> None:
        pass


def op_debug_context(name: Any) -> Any:
    """Accepted as a decorator, with a name or without: the function stays as it is."""
    return name if callable(name) else lambda function: function


def scoped(name: str) -> str:
    """`name` behind the current name scopes."""
    return "/".join([*current.names, name])


@dataclass
class _Sequence:
    """One `in_sequence` block: the last op of each graph, which the next one follows.

    A block nested with another mode is one unit for the block around it: `inner` holds its ops.
    """

    chained: bool
    last: dict[Any, list[int]] = field(default_factory=dict)
    before: dict[Any, list[int]] = field(default_factory=dict)  # what ops of this block follow


def order_op(graph: Any, op_id: int) -> list[int]:
    """Notes a new op; returns the ids of the ops of its graph that must run before it."""
    if not current.sequences:
        return []
    sequence = current.sequences[-1]
    key = (graph, current.execution)
    if sequence.chained:
        after = sequence.last.get(key, sequence.before.get(key, []))
        sequence.last[key] = [op_id]
        return after
    sequence.last.setdefault(key, []).append(op_id)
    return sequence.before.get(key, [])


class in_sequence(ContextDecorator):
    """Ops inside run in the order in which they are written; a context and a decorator.

    mode: True chains every op behind the one before; False lets ops inside float, but keeps them
        together in a chain around; "pass" changes nothing. TypeError for another mode.
    """

    def __init__(self, mode: "bool | Literal['pass']" = True) -> None:
        if mode is not True and mode is not False and mode != "pass":
            raise TypeError(f"in_sequence takes True, False or 'pass' but got {mode!r}.")
        self._mode = mode
        self._entered: list[bool] = []

    def __enter__(self) -> "in_sequence":
        around = current.sequences[-1] if current.sequences else None
        opens = self._mode != "pass" and (around is None or around.chained != self._mode)
        self._entered.append(opens)
        if opens:
            before = {**around.before, **around.last} if around else {}
            current.sequences.append(_Sequence(bool(self._mode), before=before))
        return self

    def __exit__(self, *exception: Any) -> None:
        if not self._entered.pop():
            return
        done = current.sequences.pop()
        if current.sequences:
            around = current.sequences[-1]
            for key, ids in done.last.items():
                if around.chained:
                    around.last[key] = ids
                else:
                    around.last.setdefault(key, []).extend(ids)

    def __call__(self, function: Any) -> Any:
        """The function, its ops in sequence. A new context for each call: they may nest."""

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with in_sequence(self._mode):
                return function(*args, **kwargs)

        return run
