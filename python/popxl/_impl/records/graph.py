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

    op_type: PopART's name, e.g. "MatMul".
    inputs: None where an optional input is not connected.
    after: ids of ops of the graph that must run before it, beyond those that make its inputs.
    modified: the inputs that it writes in place.
    repeats: how often it runs the graphs that it calls. core: the compiler's number of such an op.
    runs_copy: whether the compiler's op runs a copy of the called graph, which gives more.
    block: the `in_sequence(False)` in which it was written.
    attrs: numbers and hints that are no tensors, by the names of `popart._internal.ir.op.classes`.
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
        """The compiler's op of one that runs graphs; None where the compiler has replaced it."""
        ops = of(self.graph).core.ops
        return next((op for op in ops if op.id == self.core), None)

    def makers(self) -> "list[tuple[Tensor, OpRecord]]":
        """The inputs that ops make, each with its op."""
        pairs = [(t, of(t).producer) for t in self.inputs if t is not None]
        return [(t, op) for t, op in pairs if op is not None]


@dataclass(eq=False)
class GraphRecord:
    """What the library keeps of a graph.

    core: the compiler's graph. tensors: by id. by_value: by the compiler's values.
    placed: whether an op says its IPU; a graph where none does works on its callers'.
    has_own_gradient: whether autodiff of a caller must be given its gradient graph.
    sources: graphs whose tensors become inputs here where they are used: `capture` makes them,
        `captured` are those tensors with the inputs.
    routed: inputs that calls fill with tensors of graphs further out.
    for_gradient: outputs that the gradient graph needs, added behind the user's.
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
        self.graph: Graph  # whose record it is
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
        """Takes a new tensor in, under this name or one like it."""
        record = of(tensor)
        if record.base is None and record.value is not None:
            record.value.name = name
        self.keep(tensor, self.new_id(name))

    def new_id(self, name: str) -> str:
        """An id that no tensor has, of this name or one like it."""
        id = self.id_of(name)
        return f"{id}__t{of(self.ir).next('tensor')}" if id in self.tensors else id

    def id_of(self, name: str) -> str:
        """What a tensor of this name would be called."""
        id = self.id
        return f"{id}/{name}" if id else name

    def keep(self, tensor: "Tensor", id: str) -> None:
        """Makes a tensor one of this graph, with this id."""
        record = of(tensor)
        record.graph, record.id = self.graph, id
        self.tensors[id] = tensor
        if record.base is None and record.value is not None:
            self.by_value[record.value] = tensor

    def add_op(self, op_type: str, inputs: "Sequence[Tensor | None]") -> OpRecord:
        """A new op at the end."""
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
        """Tells the hooks of a finished op."""
        for hook in tuple(self.hooks.values()):
            hook(op)

    def own_outputs(self) -> "list[Tensor]":
        """The outputs without those that a gradient graph needs."""
        return [t for t in self.outputs if t not in self.for_gradient]

    def set_outputs(self, outputs: "Sequence[Tensor]") -> None:
        """Makes these tensors the graph's outputs."""
        self.outputs = list(outputs)
        self.core.set_outputs([of(tensor).read_out() for tensor in outputs])
