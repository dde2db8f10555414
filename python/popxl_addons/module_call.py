"""Calls of a module's graph from another module's `build`."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import popxl
from popxl._impl.records import of
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.graph_cache import input_tensors
from popxl_addons.variable_factory import NamedVariableFactories

if TYPE_CHECKING:
    from popxl_addons.module import Module

ChooseTensors = Callable[[GraphWithNamedArgs], Iterable[popxl.Tensor]]
_METHODS = ("auto", "build_grad", "autodiff", "none")


class CallModule:
    """A function that calls a graph of a module, with its gradient graph; see Module.call_module.

    Attributes, set by the call:
        var_factories: The factories of the graph's variables.
        graph: The graph.
        n_outputs_pre_autodiff: The number of outputs before those that the gradient graph needs.
    """

    var_factories: NamedVariableFactories
    graph: GraphWithNamedArgs
    n_outputs_pre_autodiff: int

    def __init__(
        self,
        outer: "Module",
        module: "Module",
        name: "str | None",
        autodiff: str,
        grads_provided: "ChooseTensors | None",
        grads_required: "ChooseTensors | None",
    ) -> None:
        if autodiff not in _METHODS:
            raise ValueError(f"autodiff must be one of {_METHODS} but is {autodiff!r}.")
        self._outer, self._module, self._method = outer, module, autodiff
        self._name = name or type(module).__name__
        self._provided, self._required = grads_provided, grads_required

    def __call__(self, *args: Any, **kwargs: Any) -> "tuple[popxl.Tensor, ...]":
        self.var_factories, self.graph = self._module.create_graph(*args, **kwargs)
        self.n_outputs_pre_autodiff = len(of(self.graph.graph).own_outputs())
        inputs = self._outer.add_variable_inputs(self._name, self.var_factories)
        infos = self._outer.called_graphs_grad_info
        infos.update(self.graph.called_graphs_grad_info)
        if self._method == "auto":
            wanted = self._module.implements_grad_graph
        else:
            wanted = self._method != "none"
        if wanted:
            graph = self.graph
            provided = None if self._provided is None else self._provided(graph)
            required = None if self._required is None else self._required(graph)
            made = graph.autodiff(provided, required, method=self._method)
            infos[graph.graph] = made.grad_graph_info
        tensors = input_tensors(self._module, args, kwargs)
        outputs = self.graph.bind(inputs).call(*tensors)
        return outputs[: self.n_outputs_pre_autodiff]
