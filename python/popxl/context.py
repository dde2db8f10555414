"""What is current while a program is written: the graph, IPU, tile set, names and order of ops."""

import functools
from collections.abc import Iterator
from contextlib import ContextDecorator, contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from popxl.locations import TileSet

if TYPE_CHECKING:
    from popxl.graph import Graph
    from popxl.ir import Ir


class ExecutionContext(IntEnum):
    """When an op runs: in the program, or when weights come from or go to the host."""

    Normal = 0
    AccumulateOuterFragment = 1
    WeightsFromHostFragment = 2
    WeightsToHostFragment = 3
    OptimizerFromHostFragment = 4
    Subgraph = 5


@dataclass
class Context:
    """The state of the contexts; one for the process.

    homes: where the ops of a graph go instead, as into a pipeline's stages; None: nowhere yet.
    """

    graphs: "list[Graph]" = field(default_factory=list)
    ipu: "int | None" = None
    no_ipu: bool = False
    io_tiles: bool = False
    names: list[str] = field(default_factory=list)
    execution: ExecutionContext = ExecutionContext.Normal
    sequences: "list[_Sequence]" = field(default_factory=list)
    homes: "dict[Graph, Graph | None]" = field(default_factory=dict)


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


def get_op_graph() -> "Graph":
    """Where ops go that are written now: into the current graph, or a pipeline's stage of it.

    RuntimeError outside of any graph, and between a pipeline's stages.
    """
    graph = get_current_graph()
    if graph not in current.homes or current.execution is not ExecutionContext.Normal:
        return graph
    home = current.homes[graph]
    if home is None:
        raise RuntimeError(
            "Operation must be created in a stage context: write ops of a pipeline inside "
            "`with pipeline.stage(i):`."
        )
    return home


def get_main_graph() -> "Graph":
    """The main graph of the current Ir. RuntimeError outside of any graph."""
    return get_current_graph().main_graph


def get_ir() -> "Ir":
    """The current Ir. RuntimeError outside of any graph."""
    return get_current_graph().ir


gcg, gmg, gir = get_current_graph, get_main_graph, get_ir


@dataclass
class OpSettings:
    """Where and when an op runs, by PopART's names.

    vgraphId: the IPU; None where nothing decides it. scope: the name scopes around.
    """

    vgraphId: "int | None" = None
    tileSet: TileSet = TileSet.Compute
    executionContext: ExecutionContext = ExecutionContext.Normal
    scope: str = ""
    name: str = ""


def op_settings(name: str = "") -> OpSettings:
    """What the contexts say of an op that is written now; its IPU as far as they do."""
    tiles = TileSet.IO if current.io_tiles else TileSet.Compute
    scope = "/".join(current.names)
    return OpSettings(current.ipu, tiles, current.execution, scope, name)


_get_op_settings = op_settings


@contextmanager
def _set(name: str, value: Any) -> Iterator[None]:
    before = getattr(current, name)
    setattr(current, name, value)
    try:
        yield
    finally:
        setattr(current, name, before)


@contextmanager
def ipu(ipu: "int | None") -> "Iterator[int | None]":
    """Ops inside run on IPU `ipu`, from 0 (ValueError; TypeError for what is no int).

    None: where their inputs are, or where their outputs are needed.
    """
    if ipu is not None and not isinstance(ipu, (int, np.integer)):
        raise TypeError(f"IPUs are counted by ints from 0 but {ipu!r} was given.")
    if ipu is not None and ipu < 0:
        raise ValueError(f"IPUs are counted from 0 but {ipu} was given.")
    with _set("ipu", ipu), _set("no_ipu", ipu is None):
        yield ipu


@contextmanager
def io_tiles() -> Iterator[None]:
    """Ops inside run on the tiles kept for input and output."""
    with _set("io_tiles", True):
        yield


@contextmanager
def execution_context(context: ExecutionContext) -> Iterator[None]:
    """Ops inside run in this context."""
    with _set("execution", context):
        yield


_execution_context = execution_context


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


def floating_block() -> "object | None":
    """The `in_sequence(False)` block around, in which ops have no order of their own."""
    block = current.sequences[-1] if current.sequences else None
    return None if block is None or block.chained else block


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
            raise TypeError(
                f"`{mode}` cannot be passed to in_sequence: it takes True, False or 'pass'."
            )
        self._mode: bool | Literal["pass"] = mode
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
