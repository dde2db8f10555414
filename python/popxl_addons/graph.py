"""Graphs with named inputs, and graphs bound to tensors for them."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import popxl
from popxl import ops
from popxl._impl.records import of
from popxl._impl.schedule import schedule_text
from popxl.ops.call import CallSiteInfo
from popxl.transforms import GradGraphInfo, autodiff
from popxl.transforms.in_place import show_in_place
from popxl_addons.graph_common import (
    CalledGraphsGradInfo,
    CalledGraphsGradInfoLike,
    GradGraphInfoLike,
    GraphLike,
)
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.variable_factory import NamedVariableFactories

Args = NamedTensors | Mapping[popxl.Tensor, popxl.Tensor] | None
Tensors = Iterable[popxl.Tensor] | None


class DifferentiableModule(Protocol):
    """What a graph needs of the module that made it."""

    @property
    def implements_grad_graph(self) -> bool: ...

    def create_grad_graph(
        self,
        fwd_graph: "GraphWithNamedArgs",
        grads_provided: Tensors = None,
        grads_required: Tensors = None,
    ) -> "GraphWithNamedArgs": ...


def _flat(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _flat(value)
        else:
            yield value


class BoundGraph:
    """A graph together with tensors for some of its inputs: a graph with state.

    args: {input of the graph: tensor of the caller}.
    """

    def __init__(
        self,
        graph: "popxl.Graph | GraphWithNamedArgs",
        args: "Mapping[popxl.Tensor, popxl.Tensor] | None" = None,
    ) -> None:
        self._named = as_named(graph)
        self.args: dict[popxl.Tensor, popxl.Tensor] = dict(args or {})

    @property
    def graph(self) -> popxl.Graph:
        """The graph."""
        return self._named.graph

    def bind(self, args: Args) -> "BoundGraph":
        """A bound graph with further inputs bound; the later tensor for an input wins."""
        return BoundGraph(self._named, self.subgraph_io_map(args=args))

    def subgraph_io_map(
        self, *targs: Any, args: Args = None, outs: Iterable[popxl.Tensor] = ()
    ) -> dict[popxl.Tensor, popxl.Tensor]:
        """{input of the graph: tensor} of what is bound, of `args` and of `targs`.

        targs: for the first inputs; numbers become constants. outs: tensors for the graph's
        outputs, which are in it too.
        """
        found = {**self.args, **self._named.mapping(args)}
        for inner, value in zip(self.graph.inputs, _flat(targs), strict=False):
            known = isinstance(value, popxl.Tensor)
            found[inner] = value if known else popxl.constant(value, inner.dtype)
        return {**found, **dict(zip(self.graph.outputs, outs, strict=False))}

    def call(self, *targs: Any, args: Args = None) -> "tuple[popxl.Tensor, ...]":
        """Calls the graph with what is bound; `targs` are its first inputs, not yet bound."""
        return self.call_with_info(*targs, args=args).outputs

    def call_with_info(self, *targs: Any, args: Args = None) -> CallSiteInfo:
        """As `call`, returning what is which on both sides."""
        return ops.call_with_info(self.graph, *targs, inputs_dict=self.subgraph_io_map(args=args))

    def print_schedule(self) -> str:
        """The graph's schedule as text."""
        return self._named.print_schedule()


class GraphWithNamedArgs:
    """A graph, some of whose inputs have names. Made by `Module.create_graph`.

    grad_graph_info: of a gradient graph, how it belongs to its forward graph.
    from_module: what made it. aux: what its `build` kept for its `build_grad`, by name.
    called_graphs_grad_info: gradient graphs of graphs that it calls.
    """

    def __init__(
        self,
        graph: popxl.Graph,
        args: "NamedTensors | None" = None,
        grad_graph_info: "GradGraphInfo | None" = None,
        from_module: "DifferentiableModule | None" = None,
        aux: "Mapping[str, Any] | None" = None,
        called_graphs_grad_info: "CalledGraphsGradInfo | None" = None,
    ) -> None:
        self.graph = graph
        self.args = args if args is not None else NamedTensors()
        self._grad_graph_info = grad_graph_info
        self.from_module, self.aux = from_module, dict(aux or {})
        self.called_graphs_grad_info: CalledGraphsGradInfo = dict(called_graphs_grad_info or {})
        self.autodiff_applied = False

    @property
    def grad_graph_info(self) -> GradGraphInfo:
        """How a gradient graph belongs to its forward graph. AttributeError for another graph."""
        if self._grad_graph_info is None:
            raise AttributeError(f"{self.graph.name} was not made by autodiff.")
        return self._grad_graph_info

    @grad_graph_info.setter
    def grad_graph_info(self, info: GradGraphInfo) -> None:
        self._grad_graph_info = info

    @classmethod
    def from_grad_graph(
        cls, info: GradGraphInfo, args: "NamedTensors | None" = None
    ) -> "GraphWithNamedArgs":
        """The gradient graph of `info`."""
        return cls(info.graph, args, info)

    def copy(self) -> "GraphWithNamedArgs":
        """The same graph with collections of its own."""
        more = (self.from_module, self.aux, self.called_graphs_grad_info)
        made = GraphWithNamedArgs(self.graph, self.args.copy(), self._grad_graph_info, *more)
        made.autodiff_applied = self.autodiff_applied
        return made

    def mapping(self, args: Args) -> dict[popxl.Tensor, popxl.Tensor]:
        """{input of the graph: tensor} for tensors given by name, or already so."""
        if args is None:
            return {}
        if isinstance(args, NamedVariableFactories):
            raise TypeError(
                f"{self.graph.name} takes variables for {self.args.keys_flat()} but got their "
                "factories. Make the variables first: factories.init()."
            )
        return self.args.to_mapping(args) if isinstance(args, NamedTensors) else dict(args)

    def bind(self, args: "NamedTensors | None" = None) -> BoundGraph:
        """The graph with these tensors for the inputs of the same names."""
        return BoundGraph(self, self.mapping(args))

    def call(self, *targs: Any, args: Args = None) -> "tuple[popxl.Tensor, ...]":
        """Calls the graph: `targs` are the inputs without, `args` those with names."""
        return self.call_with_info(*targs, args=args).outputs

    def call_with_info(self, *targs: Any, args: Args = None) -> CallSiteInfo:
        """As `call`, returning what is which on both sides."""
        return ops.call_with_info(self.graph, *targs, inputs_dict=self.mapping(args))

    def autodiff(
        self,
        grads_provided: Tensors = None,
        grads_required: Tensors = None,
        called_graphs_grad_info: "CalledGraphsGradInfoLike | None" = None,
        method: str = "auto",
        force: bool = False,
    ) -> "GraphWithNamedArgs":
        """The gradient graph.

        method: 'autodiff' takes the ops' own gradients (`differentiate`), 'build_grad' the
        module's method of this name, 'auto' that one if there is one.
        ValueError: another method. RuntimeError: it was made before, unless `force`; there is no
        module.
        """
        if method not in ("auto", "build_grad", "autodiff"):
            raise ValueError(f"method is 'auto', 'build_grad' or 'autodiff' but not {method!r}.")
        if self.autodiff_applied and not force:
            raise RuntimeError(
                f"Autodiff has already been applied to {self.graph.name}, which got the outputs "
                "that the gradient graph takes. Use force=True to do so again."
            )
        module = self.from_module
        if method == "build_grad" and module is None:
            raise RuntimeError("method='build_grad' works only where `from_module` is specified.")
        written = module is not None and (method == "build_grad" or module.implements_grad_graph)
        if written and method != "autodiff":
            assert module is not None
            made = module.create_grad_graph(self, grads_provided, grads_required)
        else:
            made = differentiate(self, grads_provided, grads_required, called_graphs_grad_info)
        self.autodiff_applied = True
        return made

    def print_schedule(self) -> str:
        """The graph's schedule as text, with the names of its inputs."""
        names = {tensor: name for name, tensor in self.args.to_dict().items()}
        return schedule_text(self.graph, names)


def as_named(graph: "popxl.Graph | GraphWithNamedArgs") -> GraphWithNamedArgs:
    """The graph itself, or one without named inputs."""
    return graph if isinstance(graph, GraphWithNamedArgs) else GraphWithNamedArgs(graph)


def _plain(graph: GraphLike) -> popxl.Graph:
    return graph if isinstance(graph, popxl.Graph) else graph.graph


def _info(info: GradGraphInfoLike) -> GradGraphInfo:
    return info.grad_graph_info if isinstance(info, GraphWithNamedArgs) else info


def differentiate(
    graph: "popxl.Graph | GraphWithNamedArgs",
    grads_provided: Tensors = None,
    grads_required: Tensors = None,
    called_graphs_grad_info: "CalledGraphsGradInfoLike | None" = None,
) -> GraphWithNamedArgs:
    """The gradient graph, by `popxl.transforms.autodiff`; its ops show what may be in place.

    called_graphs_grad_info: gradient graphs of called graphs, before those that `graph` knows.
    """
    named = as_named(graph)
    known: dict[popxl.Graph, GradGraphInfo] = {}
    for infos in (named.called_graphs_grad_info, called_graphs_grad_info or {}):
        known |= {_plain(called): _info(info) for called, info in infos.items()}
    before = set(of(named.graph.ir).graphs)
    made = autodiff(named.graph, grads_provided, grads_required, known)
    show_in_place(graph for graph in of(named.graph.ir).graphs if graph not in before)
    return GraphWithNamedArgs.from_grad_graph(made)
