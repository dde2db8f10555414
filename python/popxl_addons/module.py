"""Module: a class that builds graphs with named state."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import Any

import popxl
from popxl._impl.records import of
from popxl.transforms import GradGraphInfo
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.graph_cache import GraphCache
from popxl_addons.module_call import CallModule, ChooseTensors
from popxl_addons.module_gradient import Aux, VarGrad, grad_graph
from popxl_addons.module_state import ModuleState
from popxl_addons.named_replica_grouping import fill_none_group
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.variable_factory import NamedVariableFactories, VariableFactory

_INLINING = ("error", "warning", "none")


class Module(popxl.Module):
    """The base class of layers and models: `build` writes the ops.

    State is declared in `build` by `add_variable_input`: an input of the graph with a name, and a
    factory for the variable that goes in. Modules assigned to attributes hand theirs on under the
    attribute's name; tensors that they make are called `name/...`.

    cache: True or a GraphCache: `create_graph` gives a graph made before for equal arguments.
    grad_inlining_error: what calling a module that has a `build_grad` does, whose ops then stand
        in a graph where autodiff cannot use it: 'error' raises RuntimeError, 'warning' warns,
        'none' neither.
    ValueError: another value; a cache for a module with a `build_grad`.
    """

    def __init__(
        self, cache: "bool | GraphCache | None" = False, grad_inlining_error: str = "error"
    ) -> None:
        if grad_inlining_error not in _INLINING:
            raise ValueError(
                f"grad_inlining_error should be one of {_INLINING} but is {grad_inlining_error!r}."
            )
        if cache and self.implements_grad_graph:
            raise ValueError(
                "You cannot use graph caching if you have implemented `build_grad`, as "
                f"{type(self).__name__} has: what `build` keeps for it belongs to one graph."
            )
        object.__setattr__(self, "_state", ModuleState())
        self._cache = cache if isinstance(cache, GraphCache) else GraphCache() if cache else None
        self._grad_inlining_error = grad_inlining_error

    _state: ModuleState
    _grad_inlining_error: str = "error"
    _name_scope: str | None = None
    _own_graph: bool = False  # the next call builds the module's own graph

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Module):
            self._made("before assigning modules").add(name, value)
        object.__setattr__(self, name, value)

    def _made(self, when: str = "first") -> ModuleState:
        if "_state" not in self.__dict__:
            name = type(self).__name__
            raise RuntimeError(f"Call super().__init__() {when} in {name}.__init__.")
        return self._state

    def set_name_scope(self, name: "str | None") -> None:
        """Tensors made by this module are called `name/...`."""
        self._name_scope = name

    @property
    def implements_grad_graph(self) -> bool:
        """Whether the class has a `build_grad` of its own."""
        return type(self).build_grad is not Module.build_grad

    @property
    def aux(self) -> Aux:
        """What `build` keeps for `build_grad`, by name: tensors, and other objects as they are.

        There a tensor is an input of the gradient graph that stands for it. RuntimeError when an
        item is read elsewhere.
        """
        return self._made().aux

    @property
    def var_grad(self) -> VarGrad:
        """In `build_grad`: the gradients of the variables, by their dotted names.

        TypeError, KeyError, ValueError: no tensor, no variable, of another shape.
        """
        return self._made().var_grad

    @property
    def called_graphs_grad_info(self) -> dict[popxl.Graph, GradGraphInfo]:
        """Gradient graphs of graphs that `build` calls; `call_module` adds to them."""
        return self._made().grad_infos

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Writes the module's ops into the current graph."""
        if not self._own_graph and self.implements_grad_graph:
            self._tell_of_inlining()
        self._own_graph = False
        scope = self._name_scope
        with nullcontext() if scope is None else popxl.name_scope(scope):
            return self.build(*args, **kwargs)

    def _tell_of_inlining(self) -> None:
        if self._grad_inlining_error == "none":
            return
        name = type(self).__name__
        text = (
            f"`build_grad` has been implemented by {name}, but autodiff will not use it: the ops "
            f"of {name} stand in graph {popxl.gcg().name!r}. Call a graph of its own: "
            "self.call_module(module)(...), or create_graph and create_grad_graph."
        )
        if self._grad_inlining_error == "error":
            raise RuntimeError(text)
        warnings.warn(text, stacklevel=3)  # the caller of the module

    def create_graph(
        self, *args: Any, **kwargs: Any
    ) -> "tuple[NamedVariableFactories, GraphWithNamedArgs]":
        """A graph of `build` on tensors like the arguments, and factories for its named inputs.

        Arguments as for `popxl.Ir.create_graph`. What `build` collected is then forgotten.
        """
        self._made()
        if self._cache is None:
            return self._create_graph(args, kwargs)
        make = lambda: self._create_graph(args, kwargs)  # noqa: E731
        factories, graph = self._cache.cached("named", self, args, kwargs, make)
        return factories.copy(), graph.copy()

    def _create_graph(
        self, args: tuple, kwargs: dict
    ) -> "tuple[NamedVariableFactories, GraphWithNamedArgs]":
        state = self._state
        state.reset()
        self._own_graph = True
        try:
            graph = popxl.gir().create_graph(self, *args, **kwargs)
            inputs, infos = state.inputs.copy(), state.all_grad_infos()
            named = GraphWithNamedArgs(graph, inputs, None, self, state.aux.take(), infos)
            of(graph).has_own_gradient = self.implements_grad_graph
            return state.factories.copy(), named
        finally:
            self._own_graph = False
            state.reset()

    def build_grad(self, *grads: popxl.Tensor) -> Any:
        """Writes the gradient's ops, for `create_grad_graph`; to be overridden.

        It takes a fixed number of gradients of outputs, one a parameter. `self.aux[name]` gives
        what `build` kept; `self.var_grad[name] = grad` sets the gradient of a variable. Returns
        the gradients of the other inputs, in their order, or None.
        """
        raise NotImplementedError(f"{type(self).__name__} must define build_grad().")

    def create_grad_graph(
        self,
        fwd_graph: GraphWithNamedArgs,
        grads_provided: "Iterable[popxl.Tensor] | None" = None,
        grads_required: "Iterable[popxl.Tensor] | None" = None,
    ) -> GraphWithNamedArgs:
        """The gradient graph of `fwd_graph`, which this module made, as `build_grad` writes it.

        grads_provided: outputs whose gradients it takes; all by default.
        grads_required: inputs whose gradients it gives, those with names behind the others; all by
            default.
        Its inputs are those gradients, then the tensors of `aux` in the order in which they are
        read. The tensors of `aux` become outputs of `fwd_graph`: call it before calling that.
        ValueError: tensors of another graph or twice; gradients of other shapes. TypeError:
        build_grad takes any number of gradients. NotImplementedError: there is none.
        RuntimeError: it gives too many gradients, or too few.
        """
        if not self.implements_grad_graph:
            raise NotImplementedError(f"{type(self).__name__} must define build_grad().")
        state = self._made()
        more = (fwd_graph, grads_provided, grads_required)
        return grad_graph(self.build_grad, state.aux, state.var_grad, *more)

    def call_module(
        self,
        module: "Module",
        name: "str | None" = None,
        autodiff: str = "auto",
        grads_provided: "ChooseTensors | None" = None,
        grads_required: "ChooseTensors | None" = None,
    ) -> CallModule:
        """In `build`: a function that calls a graph of `module`; its outputs are a tuple.

        The variables of `module` become this module's under `name`, by default the class's name.
        The graph's gradient graph is made, and known to `autodiff` of this module's graph.
        autodiff: 'auto' makes it if there is a `build_grad`, 'build_grad' by that, 'autodiff' from
            the ops, 'none' not at all. ValueError: another.
        grads_provided, grads_required: functions of the graph, giving tensors of it.
        """
        return CallModule(self, module, name, autodiff, grads_provided, grads_required)

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

        data_iter: a function or iterable that gives the variable's data; see VariableFactory.
        by_ref: what the graph writes reaches the variable.
        ValueError: the name, or the first part of a dotted one, is taken, unless `overwrite`.
        """
        factory = VariableFactory(data_iter, dtype, name, by_ref, replica_grouping)
        return self._add(name, factory, overwrite)

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
        shards = shard_over or fill_none_group(replica_grouping).group_size
        factory = VariableFactory(data_iter, dtype, name, by_ref, replica_grouping, shards)
        return self._add(name, factory, overwrite)

    def add_variable_factory(
        self, variable_f: VariableFactory, name: "str | None" = None
    ) -> popxl.Tensor:
        """As `add_variable_input`, with a factory. name: the factory's by default."""
        key = name or variable_f.name
        if key is None:
            raise ValueError("A factory without a name needs one here.")
        return self._add(key, variable_f, False)

    def _add(self, name: str, factory: VariableFactory, overwrite: bool) -> popxl.Tensor:
        if popxl.gcg() is popxl.gmg():
            raise ValueError(
                f"{name!r} is state of a {type(self).__name__}, an input of its graph, and the "
                "main graph has none. Make a graph: factories, graph = module.create_graph(...), "
                "and call graph.bind(factories.init())."
            )
        state = self._made()
        state.factories.insert(name, factory, overwrite)
        made = factory.create_input(None if factory.name else name)
        return state.inputs.insert(name, made, overwrite)

    def add_variable_inputs(
        self, name: "str | int", factories: NamedVariableFactories, overwrite: bool = False
    ) -> NamedTensors:
        """Inputs of the current graph for all factories, under `name`. ValueError: it is taken."""
        state = self._made()
        state.factories.insert(name, factories, overwrite)
        with popxl.name_scope(str(name)):
            named = NamedTensors.from_dict(
                {key: f.create_input() for key, f in factories.to_dict().items()}
            )
        return state.inputs.insert(name, named, overwrite)

    @classmethod
    def from_list(cls, modules: "Iterable[Module]") -> "Module":
        """A module that holds others as "0", "1", ..., and gives them one by one."""
        made = _Listed()
        for i, module in enumerate(modules):
            made.append(i, module)
        return made

    @classmethod
    def from_variable_factories(cls, variable_factories: "Iterable[VariableFactory]") -> "Module":
        """In `build`: a module that holds an input for every factory as "0", "1", ..."""
        made = _Listed()
        for i, factory in enumerate(variable_factories):
            made.append(i, made.add_variable_factory(factory, str(i)))
        return made

    def get(self, key: "str | int") -> Any:
        """The attribute called `key`, e.g. a module below this one. KeyError when there is none."""
        found: Any = self
        for part in str(key).split("."):
            try:
                found = getattr(found, part)
            except AttributeError:
                raise KeyError(key) from None
        return found

    def __getitem__(self, key: "str | int") -> Any:
        return self.get(key)

    def __iter__(self) -> Iterator[Any]:
        raise AttributeError(f"{type(self).__name__} is no list: Module.from_list makes one.")


class _Listed(Module):
    """A module that holds things as "0", "1", ..."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def append(self, index: int, value: Any) -> None:
        setattr(self, str(index), value)
        self._count = index + 1

    def get(self, key: "str | int") -> Any:
        """The thing called `key`; negative numbers count from behind. KeyError: there is none."""
        return super().get(key + self._count if isinstance(key, int) and key < 0 else key)

    def __iter__(self) -> Iterator[Any]:
        return iter([self.get(i) for i in range(self._count)])

    def __len__(self) -> int:
        return self._count

    def __bool__(self) -> bool:
        return True
