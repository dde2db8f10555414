"""Graphs in PopART's interface."""

from typing import TYPE_CHECKING

from popart._internal.ir.op.classes import Op, view
from popart._internal.ir.tensor import Tensor
from popxl._impl.records import of
from popxl._impl.schedule import op_order

if TYPE_CHECKING:
    import popxl


class TopoCons:
    """The order constraints between ops of a graph, beyond those of tensors."""

    def __init__(self, graph: "popxl.Graph") -> None:
        self._graph = graph

    def contains(self, before: Op, after: Op) -> bool:
        """Returns whether `before` must run before `after`."""
        return before in self.getBefores(after)

    def getBefores(self, op: Op) -> list[Op]:
        """Returns the ops that must run before this one."""
        (record,) = [r for r in of(self._graph).ops if r.id == op.id]
        return [view(r) for r in of(self._graph).ops if r.id in record.after]

    def getAfters(self, op: Op) -> list[Op]:
        """Returns the ops that must run after this one."""
        return [view(r) for r in of(self._graph).ops if op.id in r.after]


class Graph:
    """A view of a popxl graph."""

    def __init__(self, graph: "popxl.Graph") -> None:
        self._graph = graph

    def user(self) -> "popxl.Graph":
        """Returns popxl's graph."""
        return self._graph

    @property
    def id(self) -> str:
        """The graph's id."""
        return self._graph.id

    @property
    def topoCons(self) -> TopoCons:
        """The order constraints between ops."""
        return TopoCons(self._graph)

    def getOps(self) -> list[Op]:
        """Returns the graph's ops in the order in which they were written."""
        return [view(record) for record in of(self._graph).ops]

    def getOpSchedule(self, pretty: bool = False) -> list[Op]:
        """Returns the graph's ops in PopART's order; `pretty` has no effect."""
        return [view(record) for record in op_order(self._graph)]

    def getTensor(self, id: str) -> Tensor:
        """Returns the tensor with this id. Raises ValueError if there is none."""
        return Tensor(self._graph.get_tensor(id))

    def getTensors(self) -> list[Tensor]:
        """Returns all tensors."""
        return [Tensor(t) for t in self._graph.tensors]

    def getTensorIds(self) -> list[str]:
        """Returns the ids of all tensors."""
        return list(of(self._graph).tensors)

    def getInputIds(self) -> list[str]:
        """Returns the ids of the inputs."""
        return [t.id for t in self._graph.inputs]

    def getOutputIds(self) -> list[str]:
        """Returns the ids of the outputs."""
        return [t.id for t in self._graph.outputs]

    def getCalledGraphs(self) -> "list[Graph]":
        """Returns the graphs that ops of this one call, each once."""
        return [Graph(graph) for graph in self._graph.called_graphs]

    def setCanBeRecursivelyAutodiffed(self, can: bool) -> None:
        """Sets whether autodiff of a calling graph may also differentiate this one."""
        of(self._graph).has_own_gradient = not can

    def getCanBeRecursivelyAutodiffed(self) -> bool:
        """Returns the value set by setCanBeRecursivelyAutodiffed; initially true."""
        return not of(self._graph).has_own_gradient

    def __contains__(self, id: str) -> bool:
        return id in of(self._graph).tensors

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and self._graph is other.user()

    def __hash__(self) -> int:
        return hash(self._graph)

    def __repr__(self) -> str:
        return f"Graph[id={self.id}]"
