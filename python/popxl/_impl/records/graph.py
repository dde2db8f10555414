"""The records of graphs and ops."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from popxl._impl.records.link import of
from popxl.context import OpSettings, floating_block, op_settings, order_op

if TYPE_CHECKING:
    from popxl.graph import Graph
    from popxl.ir import Ir
    from popxl.tensor import Tensor


@dataclass(eq=False)
class OpRecord:
    """One op as the user wrote it.

    Attributes:
        op_type: PopART's name, e.g. "MatMul".
        inputs: The inputs; None for an optional input that is not connected.
        after: Ids of ops of the graph that must run before it, beyond those that make its inputs.
        called: The graphs that it calls.
        modified: The inputs that it writes in place.
        repeats: The number of times that it runs the graphs that it calls.
        core: The compiler's id of an op that calls graphs.
        runs_copy: Whether the compiler's op runs a copy of the called graph with more outputs.
        settings: Where and when it runs.
        block: The `in_sequence(False)` in which it was written.
        attrs: Attributes that are not tensors, by the names of `popart._internal.ir.op.classes`.
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
    core: "int | None" = None
    runs_copy: bool = False
    settings: OpSettings = field(default_factory=OpSettings)
    block: "object | None" = None
    attrs: dict[str, Any] = field(default_factory=dict)

    def core_op(self) -> Any:
        """Returns the compiler's op of a call; None if the compiler has replaced it."""
        ops = of(self.graph).core.ops
        return next((op for op in ops if op.id == self.core), None)

    def makers(self) -> "list[tuple[Tensor, OpRecord]]":
        """Returns the inputs that ops make, each with its op."""
        pairs = [(t, of(t).producer) for t in self.inputs if t is not None]
        return [(t, op) for t, op in pairs if op is not None]


@dataclass(eq=False)
class GraphRecord:
    """The library's state of a graph.

    Attributes:
        core: The compiler's graph.
        tensors: The tensors by id.
        by_value: The tensors by the compiler's values.
        hooks: Functions to call with each new op, by handle.
        placed: Whether an op sets its IPU; a graph without such ops runs on its caller's.
        has_own_gradient: Whether autodiff of a caller needs this graph's gradient graph.
        sources: Graphs whose tensors become inputs here at their use; `capture` makes the inputs.
        captured: Those tensors with their inputs.
        routed: Inputs that calls fill with tensors of outer graphs.
        for_gradient: Outputs that the gradient graph needs, added after the user's.
    """

    ir: "Ir"
    name: str
    core: Any
    inputs: "list[Tensor]" = field(default_factory=list)
    outputs: "list[Tensor]" = field(default_factory=list)
    ops: list[OpRecord] = field(default_factory=list)
    tensors: "dict[str, Tensor]" = field(default_factory=dict)
    by_value: "dict[Any, Tensor]" = field(default_factory=dict)
    hooks: dict[int, Callable[[OpRecord], None]] = field(default_factory=dict)
    placed: bool = False
    has_own_gradient: bool = False
    sources: "tuple[Graph, ...]" = ()
    captured: "dict[Tensor, Tensor]" = field(default_factory=dict)
    routed: "dict[Tensor, Tensor]" = field(default_factory=dict)
    for_gradient: "list[Tensor]" = field(default_factory=list)

    def __post_init__(self) -> None:
        self.graph: Graph  # the graph of this record
        self.capture: Callable[[Tensor], Tensor]

    @property
    def id(self) -> str:
        """The name; empty for the main graph."""
        return "" if self.graph is of(self.ir).main else self.name

    @property
    def label(self) -> str:
        """The name, for messages."""
        return self.name or "main"

    def add_tensor(self, tensor: "Tensor", name: str) -> None:
        """Adds a new tensor under this name, or a unique variant."""
        record = of(tensor)
        if record.base is None and record.value is not None:
            record.value.name = name
        self.keep(tensor, self.new_id(name))

    def new_id(self, name: str) -> str:
        """Returns an unused id for this name, or for a unique variant."""
        id = self.id_of(name)
        return f"{id}__t{of(self.ir).next('tensor')}" if id in self.tensors else id

    def id_of(self, name: str) -> str:
        """Returns the id of a tensor of this name."""
        id = self.id
        return f"{id}/{name}" if id else name

    def keep(self, tensor: "Tensor", id: str) -> None:
        """Adds a tensor to this graph, with this id."""
        record = of(tensor)
        record.graph, record.id = self.graph, id
        self.tensors[id] = tensor
        if record.base is None and record.value is not None:
            self.by_value[record.value] = tensor

    def add_op(self, op_type: str, inputs: "Sequence[Tensor | None]") -> OpRecord:
        """Appends a new op and returns it."""
        op_id = of(self.ir).next("op")
        after = order_op(self.graph, op_id)
        record = OpRecord(
            op_id,
            op_type,
            self.graph,
            list(inputs),
            after=after,
            settings=op_settings(),
            block=floating_block(),
        )
        self.ops.append(record)
        return record

    def created(self, op: OpRecord) -> None:
        """Calls the hooks with a finished op."""
        for hook in tuple(self.hooks.values()):
            hook(op)

    def own_outputs(self) -> "list[Tensor]":
        """Returns the outputs without those that a gradient graph needs."""
        return [t for t in self.outputs if t not in self.for_gradient]

    def set_outputs(self, outputs: "Sequence[Tensor]") -> None:
        """Makes these tensors the graph's outputs."""
        self.outputs = list(outputs)
        self.core.set_outputs([of(tensor).read_out() for tensor in outputs])
