"""Graphs as PopART shows them."""

from typing import TYPE_CHECKING

from popart._internal.ir.op.classes import Op, view
from popart._internal.ir.tensor import Tensor
from popxl._impl.records import of
from popxl._impl.schedule import op_order

if TYPE_CHECKING:
    import popxl


class TopoCons:
    """Which ops of a graph must run before which, beyond what tensors say."""

    def __init__(self, graph: "popxl.Graph") -> None:
        self._graph = graph

    def contains(self, before: Op, after: Op) -> bool:
        """Whether `before` must run before `after`."""
        return before in self.getBefores(after)

    def getBefores(self, op: Op) -> list[Op]:
        """The ops that must run before this one."""
        (record,) = [r for r in of(self._graph).ops if r.id == op.id]
        return [view(r) for r in of(self._graph).ops if r.id in record.after]

    def getAfters(self, op: Op) -> list[Op]:
        """The ops that must run after this one."""
        return [view(r) for r in of(self._graph).ops if op.id in r.after]


class Graph:
    """A view of a popxl graph."""

    def __init__(self, graph: "popxl.Graph") -> None:
        self._graph = graph

    def user(self) -> "popxl.Graph":
        """popxl's graph."""
        return self._graph

    @property
    def id(self) -> str:
        """The graph's id."""
        return self._graph.id

    @property
    def topoCons(self) -> TopoCons:
        """Which ops must run before which."""
        return TopoCons(self._graph)

    def getOps(self) -> list[Op]:
        """The graph's ops in the order in which they were written."""
        return [view(record) for record in of(self._graph).ops]

    def getOpSchedule(self, pretty: bool = False) -> list[Op]:
        """The graph's ops as PopART would order them; `pretty` changes nothing."""
        return [view(record) for record in op_order(self._graph)]

    def getTensor(self, id: str) -> Tensor:
        """The tensor with this id. ValueError when there is none."""
        return Tensor(self._graph.get_tensor(id))

    def getTensors(self) -> list[Tensor]:
        """All tensors."""
        return [Tensor(t) for t in self._graph.tensors]

    def getTensorIds(self) -> list[str]:
        """The ids of all tensors."""
        return list(of(self._graph).tensors)

    def getInputIds(self) -> list[str]:
        """The ids of the inputs."""
        return [t.id for t in self._graph.inputs]

    def getOutputIds(self) -> list[str]:
        """The ids of the outputs."""
        return [t.id for t in self._graph.outputs]

    def getCalledGraphs(self) -> "list[Graph]":
        """Graphs that ops of this one call, each once."""
        return [Graph(graph) for graph in self._graph.called_graphs]

    def setCanBeRecursivelyAutodiffed(self, can: bool) -> None:
        """Whether autodiff of a graph that calls this one may differentiate it as well."""
        of(self._graph).has_own_gradient = not can

    def getCanBeRecursivelyAutodiffed(self) -> bool:
        """What was set; true at first."""
        return not of(self._graph).has_own_gradient

    def __contains__(self, id: str) -> bool:
        return id in of(self._graph).tensors

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and self._graph is other.user()

    def __hash__(self) -> int:
        return hash(self._graph)

    def __repr__(self) -> str:
        return f"Graph[id={self.id}]"
