"""The current graph, IPU, tile set, names and order of ops while a program is written."""

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
    """When an op runs: in the program, or when weights are sent from or fetched to the host."""

    Normal = 0
    AccumulateOuterFragment = 1
    WeightsFromHostFragment = 2
    WeightsToHostFragment = 3
    OptimizerFromHostFragment = 4
    Subgraph = 5


@dataclass
class Context:
    """The state of the contexts; the process has one.

    Attributes:
        homes: The graphs that get the ops of other graphs instead, such as a pipeline's stages;
            None: no stage is open.
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
    """Returns the current contexts."""
    return current


def get_current_graph() -> "Graph":
    """Returns the graph of the innermost `with graph:`. Raises RuntimeError outside of any."""
    if not current.graphs:
        raise RuntimeError(
            "There is no current graph. Write ops inside `with ir.main_graph:` or a graph's build."
        )
    return current.graphs[-1]


def get_op_graph() -> "Graph":
    """Returns the graph that gets new ops: the current graph, or its pipeline's stage.

    Raises:
        RuntimeError: There is no current graph, or the code is between a pipeline's stages.
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
    """Returns the main graph of the current Ir. Raises RuntimeError outside of any graph."""
    return get_current_graph().main_graph


def get_ir() -> "Ir":
    """Returns the current Ir. Raises RuntimeError outside of any graph."""
    return get_current_graph().ir


gcg = get_current_graph
"""A short name of get_current_graph()."""
gmg = get_main_graph
"""A short name of get_main_graph()."""
gir = get_ir
"""A short name of get_ir()."""


@dataclass
class OpSettings:
    """Where and when an op runs, with PopART's names.

    Attributes:
        vgraphId: The IPU; None if it is not decided.
        scope: The name scopes around the op.
    """

    vgraphId: "int | None" = None
    tileSet: TileSet = TileSet.Compute
    executionContext: ExecutionContext = ExecutionContext.Normal
    scope: str = ""
    name: str = ""


def op_settings(name: str = "") -> OpSettings:
    """Returns the settings of a new op from the contexts; the IPU is None without a context."""
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
    """Runs the ops inside on an IPU.

    Args:
        ipu: The IPU, counted from 0. None: the IPU of the ops' inputs, or the one that needs their
            outputs.

    Raises:
        TypeError: ipu is neither an int nor None.
        ValueError: ipu is negative.
    """
    if ipu is not None and not isinstance(ipu, (int, np.integer)):
        raise TypeError(f"IPUs are counted by ints from 0 but {ipu!r} was given.")
    if ipu is not None and ipu < 0:
        raise ValueError(f"IPUs are counted from 0 but {ipu} was given.")
    with _set("ipu", ipu), _set("no_ipu", ipu is None):
        yield ipu


@contextmanager
def io_tiles() -> Iterator[None]:
    """Runs the ops inside on the tiles reserved for input and output."""
    with _set("io_tiles", True):
        yield


@contextmanager
def execution_context(context: ExecutionContext) -> Iterator[None]:
    """Runs the ops inside in this context."""
    with _set("execution", context):
        yield


_execution_context = execution_context


@contextmanager
def name_scope(name: str) -> Iterator[str]:
    """Names tensors made inside `name/...`. Yields the whole scope.

    Args:
        name: The name that tensors inside are prefixed with.
    """
    current.names.append(name)
    try:
        yield "/".join(current.names)
    finally:
        current.names.pop()


class debug_context_frame_offset(ContextDecorator):
    """Accepted as a context and a decorator without effect: ops here do not record frames."""

    def __init__(self, i: int) -> None:
        self._offset = i

    def __enter__(self) -> int:
        return self._offset

    def __exit__(self, *exception: Any) -> None:
        pass


def op_debug_context(name: Any) -> Any:
    """Accepted as a decorator, with or without a name; returns the function unchanged."""
    return name if callable(name) else lambda function: function


def scoped(name: str) -> str:
    """Returns `name` with the current name scopes in front."""
    return "/".join([*current.names, name])


@dataclass
class _Sequence:
    """One `in_sequence` block: the last op of each graph, which the next op follows.

    A nested block of another mode is one unit for the block around it.
    """

    chained: bool
    last: dict[Any, list[int]] = field(default_factory=dict)
    before: dict[Any, list[int]] = field(default_factory=dict)  # ops before this block


def floating_block() -> "object | None":
    """Returns the surrounding `in_sequence(False)` block, whose ops have no fixed order."""
    block = current.sequences[-1] if current.sequences else None
    return None if block is None or block.chained else block


def order_op(graph: Any, op_id: int) -> list[int]:
    """Records a new op; returns the ids of the ops of its graph that must run before it."""
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
    """Runs the ops inside in the order in which they are written; a context and a decorator.

    Args:
        mode: True chains every op after the one before it. False leaves the ops inside unordered,
            but keeps them together in a surrounding chain. "pass" changes nothing.

    Raises:
        TypeError: mode has another value.
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
        """Returns the function with its ops in sequence. Each call opens a context, so may nest."""

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with in_sequence(self._mode):
                return function(*args, **kwargs)

        return run
