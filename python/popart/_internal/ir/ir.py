"""Programs in PopART's interface."""

from typing import TYPE_CHECKING, Any

from popart._internal.ir.graph import Graph
from popart._internal.ir.options import SessionOptions, options_of
from poptorch_core import _core
from popxl._impl.dot import checkpoint
from popxl._impl.records import of
from popxl._impl.schedule import schedule_text

if TYPE_CHECKING:
    import popxl

_DEBUG = 1


class Ir:
    """A view of a popxl Ir."""

    def __init__(self, ir: "popxl.Ir") -> None:
        self._ir = ir

    def user(self) -> "popxl.Ir":
        """Returns popxl's Ir."""
        return self._ir

    def getId(self) -> int:
        """Returns the number of the Ir in the process."""
        return self._ir.id

    def getSessionOptions(self) -> SessionOptions:
        """Returns the options; the same object each time."""
        return options_of(self._ir)

    def getMainGraph(self) -> Graph:
        """Returns the main graph."""
        return Graph(self._ir.main_graph)

    def getAllGraphs(self) -> list[Graph]:
        """Returns all graphs, the main graph first."""
        return [Graph(graph) for graph in of(self._ir).graphs]

    def getGraph(self, id: str) -> Graph:
        """Returns the graph with this id; "" is the main graph. Raises ValueError if missing."""
        for graph in of(self._ir).graphs:
            if graph.id == id:
                return Graph(graph)
        raise ValueError(f"{self._ir!r} has no graph with id {id!r}.")

    def logIr(self) -> None:
        """Writes the schedules of all graphs into the log, at its level DEBUG."""
        for graph in of(self._ir).graphs:
            _core.log(_DEBUG, schedule_text(graph))

    def setPatterns(self, patterns: Any) -> None:
        """Accepted without effect: the compiler has other passes."""

    def applyPreAliasPatterns(self, graph: Graph) -> None:
        """Accepted without effect: the compiler has other passes."""

    def updateVertices(self) -> None:
        """Accepted without effect: there is nothing to update."""

    def setDataFlow(self, dataFlow: Any) -> None:
        """Sets the transfers of every stream in a run to the batches of a run."""
        self._ir.num_host_transfers = dataFlow.batchesPerStep()

    def dotCheckpoint(self, ir: Any, check: str) -> None:
        """Draws the program if option dotChecks names `check`, into option logDir."""
        checkpoint(self._ir, check)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ir) and self._ir is other.user()

    def __hash__(self) -> int:
        return hash(self._ir)
