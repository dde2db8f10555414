"""Graphs with named inputs, and graphs bound to tensors for them."""

from collections.abc import Iterable, Mapping
from typing import Any

import popxl
from popxl import ops
from popxl.ops.call import CallSiteInfo
from popxl.schedule import schedule_text
from popxl.transforms import GradGraphInfo, autodiff
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.variable_factory import NamedVariableFactories

Args = NamedTensors | Mapping[popxl.Tensor, popxl.Tensor] | None


class BoundGraph:
    """A graph together with tensors for some of its inputs: a graph with state.

    args: {input of the graph: tensor of the caller}.
    """

    def __init__(
        self,
        graph: "popxl.Graph | GraphWithNamedArgs",
        args: "Mapping[popxl.Tensor, popxl.Tensor] | None" = None,
    ) -> None:
        named = graph if isinstance(graph, GraphWithNamedArgs) else GraphWithNamedArgs(graph)
        self._named = named
        self.args: dict[popxl.Tensor, popxl.Tensor] = dict(args or {})

    @property
    def graph(self) -> popxl.Graph:
        """The graph."""
        return self._named.graph

    def bind(self, args: Args) -> "BoundGraph":
        """A bound graph with further inputs bound."""
        return BoundGraph(self._named, self.subgraph_io_map(args))

    def subgraph_io_map(self, args: Args = None) -> dict[popxl.Tensor, popxl.Tensor]:
        """{input of the graph: tensor} of everything bound, and of `args`."""
        return {**self.args, **self._named.mapping(args)}

    def call(self, *targs: Any, args: Args = None) -> "tuple[popxl.Tensor, ...]":
        """Calls the graph with what is bound; `targs` are the inputs that are not named."""
        return self.call_with_info(*targs, args=args).outputs

    def call_with_info(self, *targs: Any, args: Args = None) -> CallSiteInfo:
        """As `call`, returning what is which on both sides."""
        return ops.call_with_info(self.graph, *targs, inputs_dict=self.subgraph_io_map(args))

    def print_schedule(self) -> str:
        """The graph's schedule as text."""
        return self._named.print_schedule()


class GraphWithNamedArgs:
    """A graph, some of whose inputs have names. Made by `Module.create_graph`.

    grad_graph_info: of a gradient graph, how it belongs to its forward graph.
    """

    def __init__(
        self,
        graph: popxl.Graph,
        args: "NamedTensors | None" = None,
        grad_graph_info: "GradGraphInfo | None" = None,
    ) -> None:
        self.graph = graph
        self.args = args if args is not None else NamedTensors()
        self._grad_graph_info = grad_graph_info

    @property
    def grad_graph_info(self) -> GradGraphInfo:
        """How a gradient graph belongs to its forward graph. ValueError for another graph."""
        if self._grad_graph_info is None:
            raise ValueError(f"{self.graph.name} was not made by autodiff.")
        return self._grad_graph_info

    @classmethod
    def from_grad_graph(cls, info: GradGraphInfo) -> "GraphWithNamedArgs":
        """The gradient graph of `info`."""
        return cls(info.graph, None, info)

    def copy(self) -> "GraphWithNamedArgs":
        """The same graph with a collection of names of its own."""
        args = NamedTensors.from_dict(self.args.to_dict())
        return GraphWithNamedArgs(self.graph, args, self._grad_graph_info)  # type: ignore

    def mapping(self, args: Args) -> dict[popxl.Tensor, popxl.Tensor]:
        """{input of the graph: tensor} for tensors given by name, or already so."""
        if args is None:
            return {}
        if isinstance(args, NamedVariableFactories):
            raise TypeError(
                f"{self.graph.name} takes variables for {list(args.keys_flat())} but got their "
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
        grads_provided: "Iterable[popxl.Tensor] | None" = None,
        grads_required: "Iterable[popxl.Tensor] | None" = None,
        called_graphs_grad_info: "Mapping[popxl.Graph, GradGraphInfo] | None" = None,
    ) -> "GraphWithNamedArgs":
        """The gradient graph; see `popxl.transforms.autodiff`."""
        info = autodiff(self.graph, grads_provided, grads_required, called_graphs_grad_info)
        return GraphWithNamedArgs.from_grad_graph(info)

    def print_schedule(self) -> str:
        """The graph's schedule as text, with the names of its inputs."""
        names = {tensor: name for name, tensor in self.args.to_dict().items()}
        return schedule_text(self.graph, names)
