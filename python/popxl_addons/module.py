"""Module: a class that builds graphs with named state."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import popxl
from popxl.errors import popart_exception
from popxl.records import of
from popxl.transforms import ExpectedConnection, ExpectedConnectionType, GradGraphInfo
from popxl_addons.graph import BoundGraph, GraphWithNamedArgs
from popxl_addons.graph_cache import GraphCache
from popxl_addons.module_state import ModuleState, state_of
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.variable_factory import NamedVariableFactories, VariableFactory

_INLINING = ("error", "warn", "ignore")


class Module(popxl.Module):
    """The base class of layers and models: `build` writes the ops.

    State is declared in `build` by `add_variable_input`: an input of the graph with a name, and a
    factory for the variable that goes in. Modules assigned to attributes hand theirs on under the
    attribute's name.

    cache: True or a GraphCache: `create_graph` gives a graph made before for equal arguments.
    grad_inlining_error: what autodiff does with a graph in which the module's ops stand, not a
        call of its graph, if the module has a `build_grad`, which it cannot use there: 'error'
        raises popart_exception, 'warn' warns, 'ignore' differentiates the ops. ValueError: another.
    """

    def __init__(
        self, cache: "bool | GraphCache | None" = False, grad_inlining_error: str = "error"
    ) -> None:
        if grad_inlining_error not in _INLINING:
            raise ValueError(
                f"grad_inlining_error must be one of {_INLINING} but is {grad_inlining_error!r}."
            )
        object.__setattr__(self, "_state", ModuleState())
        self._cache = cache if isinstance(cache, GraphCache) else GraphCache() if cache else None
        self._grad_inlining = grad_inlining_error
        self._name_scope: str | None = None

    _state: ModuleState
    _grad_inlining: str
    _aux: "dict[popxl.Tensor, popxl.Tensor]"
    _var_grads: "dict[popxl.Tensor, popxl.Tensor]"

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Module):
            self._check_made("before assigning modules")
            self._state.add(name, value)
        object.__setattr__(self, name, value)

    def _check_made(self, when: str) -> None:
        if "_state" not in self.__dict__:
            name = type(self).__name__
            raise RuntimeError(f"Call super().__init__() {when} in {name}.__init__.")

    def set_name_scope(self, name: "str | None") -> None:
        """Tensors made by this module are called `name/...`."""
        object.__setattr__(self, "_name_scope", name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Writes the module's ops into the current graph."""
        self._check_made("first")
        self._watch_inlining()
        if self._name_scope is None:
            return self.build(*args, **kwargs)
        with popxl.name_scope(self._name_scope):
            return self.build(*args, **kwargs)

    def _watch_inlining(self) -> None:
        """Before a graph with the ops of this module among others is differentiated: see above."""
        graph = popxl.gcg()
        has_gradient = type(self).build_grad is not Module.build_grad
        if not has_gradient or of(graph).built_by is self or self._grad_inlining == "ignore":
            return
        name = type(self).__name__
        text = (
            f"[autodiff] {name}.build_grad is not used: the ops of {name} stand in graph "
            f"{graph.name}, and autodiff of that graph takes them one by one. Call a graph of its "
            f"own, made by {name}.create_graph, and pass its gradient graph, made by "
            "create_grad_graph, in called_graphs_grad_info; or make the module with "
            "grad_inlining_error='ignore'."
        )

        def tell() -> None:
            if self._grad_inlining == "error":
                raise popart_exception(text)
            warnings.warn(text, stacklevel=4)  # the caller of autodiff

        of(graph).before_autodiff.append(tell)

    def create_graph(
        self, *args: Any, **kwargs: Any
    ) -> "tuple[NamedVariableFactories, GraphWithNamedArgs]":
        """A graph of `build` on tensors like the arguments, and factories for its named inputs.

        Arguments as for `popxl.Ir.create_graph`. What earlier calls collected is forgotten.
        """
        self._check_made("first")
        if self._cache is None:
            return self._create_graph(args, kwargs)
        # Modules are keyed by themselves: their attributes shape the graph.
        make = lambda: self._create_graph(args, kwargs)  # noqa: E731
        return self._cache.cached(self, args, kwargs, make)

    def _create_graph(self, args: tuple, kwargs: dict) -> Any:
        self._state.reset()
        scope, self._name_scope = self._name_scope, None
        try:
            graph = popxl.gir().create_graph(self, *args, **kwargs)
        finally:
            self._name_scope = scope
        named = GraphWithNamedArgs(graph, self._state.inputs)
        return self._state.factories, named

    def build_grad(self, *grads: popxl.Tensor) -> Any:
        """Writes the gradient's ops, for `create_grad_graph`; to be overridden.

        grads: of the outputs. `self.aux(t)` gives a tensor of `build`; `self.var_grad(t, grad)`
        says what the gradient of a variable is. Returns the gradients of build's other inputs.
        """
        raise NotImplementedError(f"{type(self).__name__} must define build_grad().")

    def aux(self, t: popxl.Tensor) -> popxl.Tensor:
        """In build_grad: a tensor that `build` made or got."""
        if t not in self._aux:
            self._aux[t] = popxl.graph_input(t.shape, t.dtype, t.name)
        return self._aux[t]

    def var_grad(self, variable: popxl.Tensor, grad: popxl.Tensor) -> None:
        """In build_grad: `grad` is the gradient of a variable's input."""
        self._var_grads[variable] = grad

    def create_grad_graph(self, graph: GraphWithNamedArgs) -> GraphWithNamedArgs:
        """The gradient graph of `graph`, which this module made, as `build_grad` writes it.

        Tensors that it needs become outputs of `graph`: call it before calling that.
        """
        forward = graph.graph
        outputs = forward.outputs
        self._aux, self._var_grads = {}, {}
        made = popxl.gir().create_empty_graph(f"{forward.name}_grad")
        with made:
            grads = [popxl.graph_input(t.shape, t.dtype, f"{t.name}_grad") for t in outputs]
            results = self.build_grad(*grads)
            results = [results] if isinstance(results, popxl.Tensor) else list(results or ())
            of(made).set_outputs([*results, *self._var_grads.values()])
        known = (*forward.inputs, *outputs)
        of(forward).set_outputs([*outputs, *(t for t in self._aux if t not in known)])
        kinds = ExpectedConnectionType
        expected = [ExpectedConnection(t, kinds.FwdGrad) for t in outputs]
        expected += [ExpectedConnection(t, kinds.Fwd) for t in self._aux]
        named = set(graph.args.to_dict().values())
        plain = [t for t in forward.inputs if t not in named]
        if len(results) > len(plain):
            raise ValueError(f"build_grad gives {len(results)} gradients for {len(plain)} inputs.")
        given = [*plain[: len(results)], *self._var_grads]
        found = [ExpectedConnection(t, kinds.FwdGrad) for t in given]
        return GraphWithNamedArgs.from_grad_graph(GradGraphInfo(made, forward, expected, found))

    def call_module(self, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        """Makes a graph of the module, whose named inputs become those of the current module.

        Returns the call of that graph.
        """
        factories, graph = self.create_graph(*args, **kwargs)
        inputs = NamedTensors.from_dict(
            {name: f.create_input() for name, f in factories.to_dict().items()}
        )
        return BoundGraph(graph, graph.mapping(inputs)).call  # type: ignore[arg-type]

    def add_variable_input(
        self,
        name: str,
        data_iter: Any,
        dtype: "popxl.dtype | None" = None,
        by_ref: bool = False,
        replica_grouping: "popxl.ReplicaGrouping | None" = None,
        overwrite: bool = False,
    ) -> popxl.Tensor:
        """An input of the current graph called `name`, and a factory for its variable.

        data_iter: a function or iterator that gives the variable's data; see VariableFactory.
        by_ref: what the graph writes reaches the variable. ValueError: the name is taken.
        """
        factory = VariableFactory(data_iter, dtype, name, by_ref, replica_grouping)
        return self.add_variable_factory(name, factory, overwrite)

    def add_replica_sharded_variable_input(
        self,
        name: str,
        data_iter: Any,
        dtype: "popxl.dtype | None" = None,
        by_ref: bool = False,
        replica_grouping: "popxl.ReplicaGrouping | None" = None,
        shard_over: "int | None" = None,
        overwrite: bool = False,
    ) -> popxl.Tensor:
        """As `add_variable_input` for a variable of which each replica of a group keeps a shard.

        shard_over: by default the size of the groups. The input is the flat shard; its meta shape
        is the variable's shape.
        """
        rg = replica_grouping or popxl.gir().replica_grouping()
        factory = VariableFactory(
            data_iter, dtype, name, by_ref, replica_grouping, shard_over or rg.group_size
        )
        return self.add_variable_factory(name, factory, overwrite)

    def add_variable_factory(
        self, name: str, factory: VariableFactory, overwrite: bool = False
    ) -> popxl.Tensor:
        """As `add_variable_input`, with a factory."""
        if popxl.gcg() is popxl.gmg():
            raise ValueError(
                f"{name!r} is state of a {type(self).__name__}, an input of its graph, and the "
                "main graph has none. Make a graph: factories, graph = module.create_graph(...), "
                "and call graph.bind(factories.init())."
            )
        factory.name = factory.name or name
        self._state.factories.insert(name, factory, overwrite)
        return self._state.inputs.insert(name, factory.create_input(), overwrite)

    def add_variable_inputs(
        self, name: "str | int", factories: NamedVariableFactories, overwrite: bool = False
    ) -> NamedTensors:
        """Inputs of the current graph for all factories, under `name`. ValueError: it is taken."""
        with popxl.name_scope(str(name)):
            inputs = {key: f.create_input() for key, f in factories.to_dict().items()}
        named = NamedTensors.from_dict(inputs)
        self._state.factories.insert(name, factories, overwrite)
        self._state.inputs.insert(name, named, overwrite)
        return named  # type: ignore[return-value]

    @classmethod
    def from_list(cls, modules: "Iterable[Module]") -> "Module":
        """A module that holds others as "0", "1", ..."""
        made = Module()
        for i, module in enumerate(modules):
            state_of(made).add(str(i), module)
        return made

    def get(self, key: "str | int") -> "Module":
        """The module below called `key`. KeyError when there is none."""
        return self._state.children[str(key)]

    def __getitem__(self, key: "str | int") -> "Module":
        if isinstance(key, int) and key < 0:
            key += len(self._state.children)
        return self.get(key)

    def __iter__(self) -> "Iterator[Module]":
        return iter(self._state.children.values())

    def __len__(self) -> int:
        return len(self._state.children)
