"""Graphs: what a program is written into.

A graph keeps two things in step: the compiler's graph, which is what runs, and a record of the ops
as the user wrote them, which is what schedules print. The order in which ops are written is the
order in which they take effect.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from popxl.context import _context, order_op

if TYPE_CHECKING:
    from popxl.ir import Ir
    from popxl.tensor import Constant, Tensor, Variable


@dataclass(eq=False)
class OpRecord:
    """One op as the user wrote it.

    op_type: PopART's name, e.g. "MatMul".
    inputs: None where an optional input is not connected.
    after: ids of ops of the graph that must run before it, beyond those that make its inputs.
    modified: the inputs that it writes in place.
    repeats: how often it runs the graphs that it calls.
    """

    id: int
    op_type: str
    graph: "Graph"
    inputs: "list[Tensor | None]"
    outputs: "list[Tensor]" = field(default_factory=list)
    after: list[int] = field(default_factory=list)
    called: "tuple[Graph, ...]" = ()
    modified: "list[Tensor]" = field(default_factory=list)
    repeats: int = 1


class Graph:
    """A graph with inputs and outputs. Made by `Ir.create_graph` and `Ir.create_empty_graph`.

    As a context, `with graph:`, it is where ops are written.
    """

    def __init__(self) -> None:
        raise TypeError("Cannot create a popxl.Graph directly: use ir.create_graph.")

    @classmethod
    def _make(cls, ir: "Ir", name: str, core_name: str) -> "Graph":
        return cls._of(ir, name, ir._module.add_graph(core_name))

    @classmethod
    def _wrap(cls, ir: "Ir", name: str, core: Any) -> "Graph":
        """A graph that the compiler made: its ops become records."""
        from popxl.tensor import Tensor

        graph = cls._of(ir, name, core)
        ir._graphs.append(graph)
        for value in core.inputs:
            graph._inputs.append(Tensor._make(graph, value.name or "t", value))
        for op in core.ops:
            graph._record(op)
        graph._outputs = [graph._by_value[value] for value in core.outputs]
        return graph

    def _record(self, op: Any) -> None:
        from popxl.tensor import Constant, Tensor

        if op.name == "constant":
            Constant._make(self, op.results[0].name or "t", op.results[0])
            return
        inputs = [None if v is None else self._by_value[v] for v in op.operands]
        record = OpRecord(self._ir._next("op"), op.popart_type or op.name, self, inputs)
        for value in op.results:
            made = Tensor._make(
                self,
                value.name or f"{op.name}_out",
                value,
                producer=record,
                ipu=op.ipu if op.ipu >= 0 else None,
            )
            record.outputs.append(made)
        self._ops.append(record)
        self._placed |= op.ipu >= 0

    @classmethod
    def _of(cls, ir: "Ir", name: str, core: Any) -> "Graph":
        graph = object.__new__(cls)
        graph._ir, graph._name, graph._core = ir, name, core
        graph._inputs = []
        graph._outputs = []
        graph._ops = []
        graph._tensors = {}
        graph._by_value = {}
        graph._hooks = {}
        graph._placed = False
        graph._built_by, graph._before_autodiff = None, []
        graph._sources, graph._captured, graph._routed = (), {}, {}
        return graph

    _ir: "Ir"
    _name: str
    _core: Any
    _inputs: "list[Tensor]"
    _outputs: "list[Tensor]"
    _ops: list[OpRecord]
    _tensors: "dict[str, Tensor]"  # by id
    _by_value: "dict[Any, Tensor]"
    _hooks: dict[int, Callable[[OpRecord], None]]
    _placed: bool  # whether an op says its IPU; a graph where none does works on its callers'
    _built_by: Any  # the function or Module of Ir.create_graph
    _before_autodiff: list[Callable[[], None]]  # what may refuse that this graph is differentiated
    _sources: "tuple[Graph, ...]"  # graphs whose tensors become inputs here where they are used
    _captured: "dict[Tensor, Tensor]"  # those, with the inputs
    _routed: "dict[Tensor, Tensor]"  # inputs that calls fill with tensors of graphs further out

    @property
    def name(self) -> str:
        """E.g. "Linear_subgraph(0)"; the main graph is called "main"."""
        return self._name

    @property
    def id(self) -> str:
        """The name; empty for the main graph."""
        return "" if self is self._ir._main else self._name

    @property
    def ir(self) -> "Ir":
        """The Ir it belongs to."""
        return self._ir

    @property
    def main_graph(self) -> "Graph":
        """The main graph of its Ir."""
        return self._ir.main_graph

    @property
    def inputs(self) -> "tuple[Tensor, ...]":
        """The graph's inputs, in order."""
        return tuple(self._inputs)

    @property
    def inputs_by_name(self) -> "dict[str, Tensor]":
        """The graph's inputs by name."""
        return {tensor.name: tensor for tensor in self._inputs}

    @property
    def outputs(self) -> "tuple[Tensor, ...]":
        """The graph's outputs, in order."""
        return tuple(self._outputs)

    @property
    def tensors(self) -> "tuple[Tensor, ...]":
        """Every tensor of the graph, in the order in which they were made."""
        return tuple(self._tensors.values())

    @property
    def variables(self) -> "tuple[Variable, ...]":
        """The graph's variables: only the main graph has any."""
        from popxl.tensor import Variable

        return tuple(t for t in self._tensors.values() if isinstance(t, Variable))

    @property
    def constants(self) -> "tuple[Constant, ...]":
        """The graph's constants."""
        from popxl.tensor import Constant

        return tuple(t for t in self._tensors.values() if isinstance(t, Constant))

    @property
    def called_graphs(self) -> "tuple[Graph, ...]":
        """Graphs that ops of this graph call, each once."""
        return tuple(dict.fromkeys(graph for op in self._ops for graph in op.called))

    def get_tensor(self, id: str) -> "Tensor":
        """The tensor with this id. ValueError when there is none."""
        if id not in self._tensors:
            raise ValueError(f"Graph {self._name} has no tensor with id {id!r}.")
        return self._tensors[id]

    def __contains__(self, tensor: object) -> bool:
        from popxl.tensor import Tensor

        return isinstance(tensor, Tensor) and tensor._graph is self

    def __repr__(self) -> str:
        return f"Graph[name={self._name} id={self.id}]"

    def __enter__(self) -> "Graph":
        if _context.graphs and _context.graphs[-1]._ir is not self._ir:
            raise RuntimeError(
                f"{self!r} belongs to {self._ir!r} but the current graph to "
                f"{_context.graphs[-1]._ir!r}. Leave that graph's context first."
            )
        _context.graphs.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _context.graphs.pop()

    @property
    def _pb_graph(self) -> Any:
        """The graph as PopART shows it."""
        from popart._internal.ir import Graph as View

        return View(self)

    def register_op_created_hook(self, fn: Callable[[OpRecord], None]) -> int:
        """Calls `fn` with every op that is added to this graph from now on. Returns a handle."""
        handle = self._ir._next("hook")
        self._hooks[handle] = fn
        return handle

    def remove_op_created_hook(self, handle: int) -> None:
        """Ends the calls. ValueError for a handle that this graph does not know."""
        if handle not in self._hooks:
            raise ValueError(f"Graph {self._name} has no hook {handle}.")
        del self._hooks[handle]

    def _unique(self, name: str) -> str:
        scope = f"{self.id}/" if self.id else ""
        if scope + name in self._tensors:
            name = f"{name}__t{self._ir._next('tensor')}"
        return scope + name

    def _add_tensor(self, tensor: "Tensor", name: str) -> "Tensor":
        tensor._id = self._unique(name)
        self._tensors[tensor._id] = tensor
        if tensor._base is None and tensor._value is not None:
            tensor._value.name = name
            self._by_value[tensor._value] = tensor
        return tensor

    def _add_op(self, op_type: str, inputs: "Sequence[Tensor | None]") -> OpRecord:
        op_id = self._ir._next("op")
        record = OpRecord(op_id, op_type, self, list(inputs), after=order_op(self, op_id))
        self._ops.append(record)
        return record

    def _created(self, record: OpRecord) -> None:
        for hook in tuple(self._hooks.values()):
            hook(record)

    def _set_outputs(self, outputs: "Sequence[Tensor]") -> None:
        self._outputs = list(outputs)
        self._core.set_outputs([tensor._read_out() for tensor in outputs])

    def _capture(self, tensor: "Tensor") -> "Tensor":
        """The input that stands for a tensor of another graph; variables go in by reference."""
        from popxl.tensor_base import graph_input

        root = tensor._root()
        plain = tensor is root or tensor._to_view is None
        source = root if plain and root._is_memory() else tensor
        if source not in self._captured:
            by_ref = source._base is None and source._is_memory()
            made = graph_input(
                source.shape, source.dtype, source.name, by_ref, source.meta_shape or None
            )
            made._ipu, made._io_tiles = source._ipu, source._io_tiles
            self._captured[source] = made
        return self._captured[source]

    def _outline(self, name: str) -> "Graph":
        """Moves all ops into a new graph with the same inputs and outputs; this one is then empty.

        The input tensors stay this graph's; outputs and what is between go along.
        """
        inner = Graph._of(self._ir, name, self._core)
        self._core = self._ir._module.add_graph(self._ir._core_name(f"{self._name}_outlined"))
        twins: dict[Tensor, Tensor] = {}
        for tensor in self._inputs:
            twin = copy.copy(tensor)
            inner._adopt(twin, tensor.name)
            inner._inputs.append(twin)
            twins[tensor] = twin
            old = tensor._value
            tensor._value = self._core.add_input(old.type, old.name, old.by_reference)
            tensor._version = 0
        for tensor in [t for t in self._tensors.values() if t not in twins]:
            inner._adopt(tensor, tensor.name)
            tensor._base = twins.get(tensor._base, tensor._base)  # type: ignore[arg-type]
        for op in self._ops:
            op.graph = inner
            op.inputs = [twins.get(t, t) for t in op.inputs]  # type: ignore[arg-type]
            op.modified = [twins.get(t, t) for t in op.modified]
        inner._placed = self._placed
        inner._before_autodiff, self._before_autodiff = self._before_autodiff, []
        inner._ops, inner._outputs = self._ops, [twins.get(t, t) for t in self._outputs]
        self._ops, self._outputs = [], []
        self._tensors = {t._id: t for t in self._inputs}
        self._by_value = {t._value: t for t in self._inputs}
        self._ir._graphs.append(inner)
        return inner

    def _adopt(self, tensor: "Tensor", name: str) -> None:
        tensor._graph = self
        tensor._id = f"{self.id}/{name}"
        self._tensors[tensor._id] = tensor
        if tensor._base is None and tensor._value is not None:
            self._by_value[tensor._value] = tensor
