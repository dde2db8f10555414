"""Graphs, to which a program adds its ops.

A graph keeps two forms consistent: the compiler's graph, which runs, and a record of the ops as the
user wrote them, which schedules print. Ops take effect in the order in which they are written.
"""

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from popxl._impl import popart_views
from popxl._impl.records import ConstantRecord, GraphRecord, OpRecord as OpRecord, made, of
from popxl.context import current, scoped
from popxl.tensor import Constant, Tensor, Variable
from popxl.tensor_base import make_tensor

if TYPE_CHECKING:
    from popxl.ir import Ir


class Graph:
    """A graph with inputs and outputs. Made by `Ir.create_graph` and `Ir.create_empty_graph`.

    Ops written inside the context `with graph:` become part of it.
    """

    def __init__(self) -> None:
        raise TypeError("Cannot create a popxl.Graph directly: use ir.create_graph.")

    _record: GraphRecord

    @property
    def name(self) -> str:
        """The name, e.g. "Linear_subgraph(0)"; empty for the main graph."""
        return self._record.name

    @property
    def id(self) -> str:
        """The name; empty for the main graph."""
        return self._record.id

    @property
    def ir(self) -> "Ir":
        """The Ir to which it belongs."""
        return self._record.ir

    @property
    def main_graph(self) -> "Graph":
        """The main graph of its Ir."""
        return self._record.ir.main_graph

    @property
    def inputs(self) -> "tuple[Tensor, ...]":
        """The graph's inputs, in order."""
        return tuple(self._record.inputs)

    @property
    def inputs_by_name(self) -> "dict[str, Tensor]":
        """The graph's inputs by name."""
        return {tensor.name: tensor for tensor in self._record.inputs}

    @property
    def outputs(self) -> "tuple[Tensor, ...]":
        """The graph's outputs, in order."""
        return tuple(self._record.outputs)

    @property
    def tensors(self) -> "tuple[Tensor, ...]":
        """All tensors of the graph, in the order in which they were made."""
        return tuple(self._record.tensors.values())

    @property
    def variables(self) -> "tuple[Variable, ...]":
        """The graph's variables; only the main graph has variables."""
        return tuple(t for t in self._record.tensors.values() if isinstance(t, Variable))

    @property
    def constants(self) -> "tuple[Constant, ...]":
        """The graph's constants."""
        return tuple(t for t in self._record.tensors.values() if isinstance(t, Constant))

    @property
    def called_graphs(self) -> "tuple[Graph, ...]":
        """The graphs that ops of this graph call, each once."""
        return tuple(dict.fromkeys(graph for op in self._record.ops for graph in op.called))

    def get_tensor(self, id: str) -> "Tensor":
        """Returns the tensor with this id. Raises ValueError if there is none.

        Args:
            id: The id of the tensor.
        """
        if id not in self._record.tensors:
            raise ValueError(f"Graph {self._record.label} has no tensor with id {id!r}.")
        return self._record.tensors[id]

    def __contains__(self, tensor: object) -> bool:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{tensor!r} is not a tensor: {self!r} contains only tensors.")
        return of(tensor).graph is self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            raise TypeError(f"Cannot compare {self!r} with a {type(other).__name__}.")
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"Graph[id={self.id} name={self._record.name}]"

    def __enter__(self) -> "Graph":
        if current.graphs and current.graphs[-1].ir is not self.ir:
            raise RuntimeError(
                f"{self!r} belongs to {self._record.ir!r} but the current graph belongs to "
                f"{current.graphs[-1].ir!r}. Leave that graph's context first."
            )
        current.graphs.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        current.graphs.pop()

    @property
    def _pb_graph(self) -> Any:
        """PopART's view of the graph."""
        return popart_views.graph(self)

    @classmethod
    def _from_pb(cls, pb: Any) -> "Graph":
        """Returns the graph of PopART's view."""
        return pb.user()

    @property
    def _by_ref_inputs(self) -> "set[Tensor]":
        """The inputs that share the memory of callers' tensors, which the graph may write."""
        roots = {t: of(of(t).root()) for t in self._record.inputs}
        return {t for t, r in roots.items() if isinstance(r, ConstantRecord) or r.is_memory()}

    def _create_tensor_id(self, name: str) -> str:
        """Returns the id that the next tensor of this name will have."""
        return self._record.new_id(scoped(name))

    def register_op_created_hook(self, fn: Callable[[Any], None]) -> int:
        """Calls `fn` with PopART's view of every op that is added to this graph from now on.

        Args:
            fn: The function; its argument is the view of the op.

        Returns:
            A handle for remove_op_created_hook.
        """
        handle = of(self.ir).next("hook")
        self._record.hooks[handle] = lambda op: fn(popart_views.op(op))
        return handle

    def remove_op_created_hook(self, handle: int) -> None:
        """Removes a hook. Raises ValueError for a handle that this graph does not have.

        Args:
            handle: The handle that register_op_created_hook() returned.
        """
        if handle not in self._record.hooks:
            raise ValueError(f"Graph {self._record.label} has no hook {handle}.")
        del self._record.hooks[handle]


def _with_record(ir: "Ir", name: str, core: Any) -> Graph:
    record = GraphRecord(ir, name, core)
    record.graph = graph = made(Graph, record)
    return graph


def make_graph(ir: "Ir", name: str, core_name: str) -> Graph:
    """Adds a new graph without inputs to the program."""
    graph = _with_record(ir, name, of(ir).module.add_graph(core_name))
    of(ir).graphs.append(graph)
    return graph


def wrap_graph(ir: "Ir", name: str, core: Any) -> Graph:
    """Makes records for a compiler's graph, for its ops, and for the graphs that it calls."""
    for op in core.ops:
        if any(body.name in of(ir).inlined for body in op.bodies):
            core.expand_call(op.id)
    graph = _with_record(ir, name, core)
    of(ir).graphs.append(graph)
    for value in core.inputs:
        of(graph).inputs.append(make_tensor(Tensor, graph, value.name or "t", value))
    for op in core.ops:
        _record_op(graph, op)
    of(graph).outputs = [of(graph).by_value[value] for value in core.outputs]
    written = [op for op in core.ops if op.name != "constant"]
    for record, op in zip(of(graph).ops, written, strict=True):
        record.called, record.core = tuple(_known(ir, body) for body in op.bodies), op.id
    return graph


def _known(ir: "Ir", core: Any) -> Graph:
    """Returns the graph of a compiler's graph; makes one if only the compiler knows it."""
    found = (graph for graph in of(ir).graphs if of(graph).core.name == core.name)
    return next(found, None) or wrap_graph(ir, core.name, core)


def _record_op(graph: Graph, op: Any) -> None:
    if op.name == "constant":
        value = op.results[0]
        make_tensor(Constant, graph, value.name or "t", value, record=ConstantRecord)
        return
    kept = of(graph)
    inputs = [None if v is None else kept.by_value[v] for v in op.operands]
    record = OpRecord(of(graph.ir).next("op"), op.popart_type or op.name, graph, inputs)
    ipu = op.ipu if op.ipu >= 0 else None
    for value in op.results:
        name = value.name or f"{op.name}_out"
        record.outputs.append(make_tensor(Tensor, graph, name, value, producer=record, ipu=ipu))
    kept.ops.append(record)
    kept.placed |= op.ipu >= 0


def outline(graph: Graph, name: str) -> Graph:
    """Moves all ops into a new graph with the same inputs and outputs; `graph` is then empty.

    The input tensors stay in `graph`; all other tensors move.
    """
    outer, program = of(graph), of(graph.ir)
    inner_graph = _with_record(graph.ir, name, outer.core)
    inner = of(inner_graph)
    outer.core = program.module.add_graph(program.core_name(f"{graph.name}_outlined"))
    twins: dict[Tensor, Tensor] = {}
    for tensor in outer.inputs:
        kept = of(tensor)
        twin_record = copy.copy(kept)
        twin_record.tensor = twin = made(type(tensor), twin_record)
        inner.keep(twin, inner.id_of(tensor.name))
        inner.inputs.append(twin)
        twins[tensor] = twin
        old = kept.value
        kept.value = outer.core.add_input(old.type, old.name, old.by_reference)
        kept.version = 0
    for tensor in [t for t in outer.tensors.values() if t not in twins]:
        inner.keep(tensor, inner.id_of(tensor.name))
        if (base := of(tensor).base) is not None:
            of(tensor).base = twins.get(base, base)
    for op in outer.ops:
        op.graph = inner_graph
        op.inputs = [t if t is None else twins.get(t, t) for t in op.inputs]
        op.modified = [twins.get(t, t) for t in op.modified]
    inner.placed = outer.placed
    inner.has_own_gradient, outer.has_own_gradient = outer.has_own_gradient, False
    inner.for_gradient = [t for t in outer.for_gradient if t not in twins]
    inner.ops, inner.outputs = outer.ops, [twins.get(t, t) for t in outer.outputs]
    outer.ops, outer.outputs = [], []
    outer.tensors = {t.id: t for t in outer.inputs}
    outer.by_value = {of(t).value: t for t in outer.inputs}
    program.graphs.append(inner_graph)
    return inner_graph
