"""Graphs, ops and options as PopART shows them: views of what popxl holds."""

from typing import TYPE_CHECKING, Any

from popart._internal.ir import op
from popart._internal.ir.op import Op
from popxl.records import of

if TYPE_CHECKING:
    import popxl


class Graph:
    """A view of a popxl graph."""

    def __init__(self, graph: "popxl.Graph") -> None:
        self._graph = graph

    @property
    def id(self) -> str:
        """The graph's id."""
        return self._graph.id

    def getOps(self) -> list[Op]:
        """The graph's ops in the order in which they were written."""
        return [getattr(op, f"{record.op_type}Op")(record) for record in of(self._graph).ops]


class SessionOptions:
    """Options of a program, for hardware; the emulator heeds none of them.

    AttributeError for an option that is not listed here.
    """

    def __init__(self) -> None:
        self.numIOTiles = 0
        self.partialsTypeMatMuls = ""
        self.enableStochasticRounding = False
        self.enableFloatingPointChecks = False
        self.enableExplicitIR = True
        self.useHostCopyOps = True
        self.engineOptions: dict[str, str] = {}
        self.convolutionOptions: dict[str, str] = {}
        self.matmulOptions: dict[str, str] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        known = SessionOptions.__init__.__code__.co_names
        if name not in known:
            raise AttributeError(f"There is no session option {name!r} here.")
        object.__setattr__(self, name, value)


class Ir:
    """A view of a popxl Ir."""

    def __init__(self, ir: "popxl.Ir") -> None:
        self._ir = ir
        self._options = SessionOptions()

    def getSessionOptions(self) -> SessionOptions:
        """The options; the same object each time."""
        return self._options

    def getMainGraph(self) -> Graph:
        """The main graph."""
        return Graph(self._ir.main_graph)

    def getAllGraphs(self) -> list[Graph]:
        """All graphs, the main graph first."""
        return [Graph(graph) for graph in of(self._ir).graphs]
