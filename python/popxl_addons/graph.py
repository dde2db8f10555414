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
    """The interface that a graph needs from the module that made it."""

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
    """A graph with state: tensors for some of its inputs.

    Args:
        graph: The graph.
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
        """Returns the graph with further inputs bound; later tensors replace earlier ones.

        Args:
            args: The tensors, by the graph's input.
        """
        return BoundGraph(self._named, self.subgraph_io_map(args=args))

    def subgraph_io_map(
        self, *targs: Any, args: Args = None, outs: Iterable[popxl.Tensor] = ()
    ) -> dict[popxl.Tensor, popxl.Tensor]:
        """Returns {input of the graph: tensor} of bound tensors, `args` and `targs`.

        Args:
            targs: Tensors for the first inputs; numbers become constants.
            args: Tensors by name or by input.
            outs: Tensors for the graph's outputs, which the result also contains.
        """
        found = {**self.args, **self._named.mapping(args)}
        for inner, value in zip(self.graph.inputs, _flat(targs), strict=False):
            known = isinstance(value, popxl.Tensor)
            found[inner] = value if known else popxl.constant(value, inner.dtype)
        return {**found, **dict(zip(self.graph.outputs, outs, strict=False))}

    def call(self, *targs: Any, args: Args = None) -> "tuple[popxl.Tensor, ...]":
        """Calls the graph with the bound tensors; `targs` are its first inputs, not yet bound.

        Args:
            *targs: The inputs without names, in order.
            args: Further tensors, by the graph's input.
        """
        return self.call_with_info(*targs, args=args).outputs

    def call_with_info(self, *targs: Any, args: Args = None) -> CallSiteInfo:
        """Like `call`, but returns the mapping between the caller's and the graph's tensors.

        Args:
            *targs: The inputs without names, in order.
            args: Further tensors, by the graph's input.
        """
        return ops.call_with_info(self.graph, *targs, inputs_dict=self.subgraph_io_map(args=args))

    def print_schedule(self) -> str:
        """Returns the graph's schedule as text."""
        return self._named.print_schedule()


class GraphWithNamedArgs:
    """A graph, some of whose inputs have names. Made by `Module.create_graph`.

    Args:
        graph: The graph.
        args: The named inputs.
        grad_graph_info: For a gradient graph, the mapping to its forward graph.
        from_module: The module that made it.
        aux: The objects that its `build` kept for its `build_grad`, by name.
        called_graphs_grad_info: Gradient graphs of graphs that it calls.
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
        """The mapping to the forward graph. Raises AttributeError if it is not a gradient graph."""
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
        """Makes the named graph of a gradient graph.

        Args:
            info: The mapping of the gradient graph.
            args: The named inputs.
        """
        return cls(info.graph, args, info)

    def copy(self) -> "GraphWithNamedArgs":
        """Returns the same graph with copied collections."""
        more = (self.from_module, self.aux, self.called_graphs_grad_info)
        made = GraphWithNamedArgs(self.graph, self.args.copy(), self._grad_graph_info, *more)
        made.autodiff_applied = self.autodiff_applied
        return made

    def mapping(self, args: Args) -> dict[popxl.Tensor, popxl.Tensor]:
        """Returns {input of the graph: tensor} for tensors given by name or by input.

        Args:
            args: The tensors, by name or by the graph's input.

        Raises:
            TypeError: They are factories instead of variables.
        """
        if args is None:
            return {}
        if isinstance(args, NamedVariableFactories):
            raise TypeError(
                f"{self.graph.name} takes variables for {self.args.keys_flat()} but got their "
                "factories. Make the variables first: factories.init()."
            )
        return self.args.to_mapping(args) if isinstance(args, NamedTensors) else dict(args)

    def bind(self, args: "NamedTensors | None" = None) -> BoundGraph:
        """Returns the graph bound to these tensors for inputs of the same names.

        Args:
            args: The tensors, by name.
        """
        return BoundGraph(self, self.mapping(args))

    def call(self, *targs: Any, args: Args = None) -> "tuple[popxl.Tensor, ...]":
        """Calls the graph.

        Args:
            *targs: The inputs without names; args: those with names.
            args: The tensors of the named inputs.
        """
        return self.call_with_info(*targs, args=args).outputs

    def call_with_info(self, *targs: Any, args: Args = None) -> CallSiteInfo:
        """Like `call`, but returns the mapping between the caller's and the graph's tensors.

        Args:
            *targs: The inputs without names, in order.
            args: The tensors of the named inputs.
        """
        return ops.call_with_info(self.graph, *targs, inputs_dict=self.mapping(args))

    def autodiff(
        self,
        grads_provided: Tensors = None,
        grads_required: Tensors = None,
        called_graphs_grad_info: "CalledGraphsGradInfoLike | None" = None,
        method: str = "auto",
        force: bool = False,
    ) -> "GraphWithNamedArgs":
        """Makes the gradient graph.

        Args:
            grads_provided: See `popxl.transforms.autodiff`.
            grads_required: See `popxl.transforms.autodiff`.
            called_graphs_grad_info: See `differentiate`.
            method: 'autodiff' uses the ops' gradients (`differentiate`), 'build_grad' the module's
                method, 'auto' that method if the module has it.
            force: Whether it may be made again.

        Raises:
            ValueError: The method is another one.
            RuntimeError: It was made before; 'build_grad' lacks a module.
        """
        if method not in ("auto", "build_grad", "autodiff"):
            raise ValueError(f"method is 'auto', 'build_grad' or 'autodiff' but not {method!r}.")
        if self.autodiff_applied and not force:
            raise RuntimeError(
                f"Autodiff has already been applied to {self.graph.name}, which has the outputs "
                "that the gradient graph takes. Use force=True to apply it again."
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
        """Returns the graph's schedule as text, with the names of its inputs."""
        names = {tensor: name for name, tensor in self.args.to_dict().items()}
        return schedule_text(self.graph, names)


def as_named(graph: "popxl.Graph | GraphWithNamedArgs") -> GraphWithNamedArgs:
    """Returns the graph itself, or one without named inputs."""
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
    """Makes the gradient graph by `popxl.transforms.autodiff`; its ops show in-place types.

    Args:
        graph: The forward graph.
        grads_provided: See `popxl.transforms.autodiff`.
        grads_required: See `popxl.transforms.autodiff`.
        called_graphs_grad_info: Gradient graphs of called graphs; they override those that `graph`
            knows.
    """
    named = as_named(graph)
    known: dict[popxl.Graph, GradGraphInfo] = {}
    for infos in (named.called_graphs_grad_info, called_graphs_grad_info or {}):
        known |= {_plain(called): _info(info) for called, info in infos.items()}
    before = set(of(named.graph.ir).graphs)
    made = autodiff(named.graph, grads_provided, grads_required, known)
    show_in_place(graph for graph in of(named.graph.ir).graphs if graph not in before)
    return GraphWithNamedArgs.from_grad_graph(made)
