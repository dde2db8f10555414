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

    `build` declares state by `add_variable_input`: a named input of the graph, and a factory for
    its variable. Modules assigned to attributes pass theirs on under the attribute's name; their
    tensors are named `name/...`.

    Args:
        cache: True or a GraphCache: `create_graph` reuses a graph for equal arguments.
        grad_inlining_error: What happens if a module with a `build_grad` is called inline, where
            autodiff cannot use it: 'error' raises RuntimeError, 'warning' warns, 'none' does
            neither.

    Raises:
        ValueError: An argument has another value; a module with a `build_grad` has a cache.
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
                f"{type(self).__name__} has: the objects that `build` keeps are for one graph."
            )
        object.__setattr__(self, "_state", ModuleState())
        self._cache = cache if isinstance(cache, GraphCache) else GraphCache() if cache else None
        self._grad_inlining_error = grad_inlining_error

    _state: ModuleState
    _grad_inlining_error: str = "error"
    _name_scope: str | None = None
    _own_graph: bool = False  # the next call builds the module's graph

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
        """Names tensors of this module `name/...`.

        Args:
            name: The scope.
        """
        self._name_scope = name

    @property
    def implements_grad_graph(self) -> bool:
        """Whether the class defines `build_grad`."""
        return type(self).build_grad is not Module.build_grad

    @property
    def aux(self) -> Aux:
        """Tensors and other objects that `build` keeps for `build_grad`, by name.

        `build_grad` gets a tensor as an input of the gradient graph. Reading an item elsewhere
        raises RuntimeError.
        """
        return self._made().aux

    @property
    def var_grad(self) -> VarGrad:
        """The gradients of the variables by dotted name, in `build_grad`.

        Setting one raises TypeError for a value that is not a tensor, KeyError for an unknown
        variable, and ValueError for another shape.
        """
        return self._made().var_grad

    @property
    def called_graphs_grad_info(self) -> dict[popxl.Graph, GradGraphInfo]:
        """Gradient graphs of graphs that `build` calls; `call_module` adds entries."""
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
            f"of {name} are inline in graph {popxl.gcg().name!r}. Call a separate graph: "
            "self.call_module(module)(...), or create_graph and create_grad_graph."
        )
        if self._grad_inlining_error == "error":
            raise RuntimeError(text)
        warnings.warn(text, stacklevel=3)  # the caller of the module

    def create_graph(
        self, *args: Any, **kwargs: Any
    ) -> "tuple[NamedVariableFactories, GraphWithNamedArgs]":
        """Makes a graph of `build` for such arguments, and factories for its named inputs.

        The arguments are those of `popxl.Ir.create_graph`. The state that `build` collected is then
        reset.

        Args:
            *args: The arguments of `build`.
            **kwargs: The keyword arguments of `build`.
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
        """Writes the gradient's ops for `create_grad_graph`; subclasses may define it.

        It has one parameter for each output's gradient. `self.aux[name]` returns an object that
        `build` kept. `self.var_grad[name] = grad` sets the gradient of a variable.

        Args:
            *grads: The gradient of each output.

        Returns:
            The gradients of the other inputs, in order, or None.

        Raises:
            NotImplementedError: The module does not define it.
        """
        raise NotImplementedError(f"{type(self).__name__} must define build_grad().")

    def create_grad_graph(
        self,
        fwd_graph: GraphWithNamedArgs,
        grads_provided: "Iterable[popxl.Tensor] | None" = None,
        grads_required: "Iterable[popxl.Tensor] | None" = None,
    ) -> GraphWithNamedArgs:
        """Makes the gradient graph of `fwd_graph`, a graph of this module, by `build_grad`.

        Its inputs are the provided gradients, then the tensors of `aux` in the order of first use.
        The tensors of `aux` become outputs of `fwd_graph`: call this before calling that graph.

        Args:
            fwd_graph: The forward graph.
            grads_provided: Outputs whose gradients it takes; by default all.
            grads_required: Inputs whose gradients it returns, named ones last; by default all.

        Raises:
            ValueError: A tensor is of another graph or given twice; a gradient has another shape.
            TypeError: build_grad takes a variable number of gradients.
            NotImplementedError: The class does not define build_grad.
            RuntimeError: It returns too many gradients, or too few.
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
        """Returns a function for `build` that calls a graph of `module`; it returns a tuple.

        It also makes the graph's gradient graph, which `autodiff` of this module's graph uses.

        Args:
            module: The module.
            name: The name of its variables in this module; by default the class's name.
            autodiff: 'auto' makes the gradient graph if there is a `build_grad`, 'build_grad' by
                that method, 'autodiff' from the ops, 'none' does not make it.
            grads_provided: Maps the graph to tensors of it.
            grads_required: Maps the graph to tensors of it.

        Raises:
            ValueError: autodiff is another one.
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
        """Adds an input of the current graph named `name`, and a factory for its variable.

        Args:
            name: The name.
            data_iter: A function or iterable for the variable's data; see VariableFactory.
            dtype: The element type; by default the data's.
            by_ref: Whether the graph's writes change the variable.
            replica_grouping: The replicas that share data.
            overwrite: Whether the name may exist.

        Raises:
            ValueError: The name, or the first part of a dotted one, exists.
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
        """Like `add_variable_input`, for a variable that is sharded over the replicas of a group.

        The input is the flat shard; its meta shape is the variable's shape.

        Args:
            name: The name.
            data_iter: A function or iterable that gives the variable's host data.
            dtype: The data type.
            by_ref: Whether the graph may write to the variable.
            replica_grouping: The groups of replicas that share a value; by default all replicas
                form one.
            shard_over: The number of shards; by default the size of the groups.
            overwrite: Whether existing names may be replaced.
        """
        shards = shard_over or fill_none_group(replica_grouping).group_size
        factory = VariableFactory(data_iter, dtype, name, by_ref, replica_grouping, shards)
        return self._add(name, factory, overwrite)

    def add_variable_factory(
        self, variable_f: VariableFactory, name: "str | None" = None
    ) -> popxl.Tensor:
        """Like `add_variable_input`, with a factory.

        Args:
            variable_f: The factory.
            name: By default the factory's.

        Raises:
            ValueError: Neither the factory nor the input has a name.
        """
        key = name or variable_f.name
        if key is None:
            raise ValueError("The factory has no name: pass name=.")
        return self._add(key, variable_f, False)

    def _add(self, name: str, factory: VariableFactory, overwrite: bool) -> popxl.Tensor:
        if popxl.gcg() is popxl.gmg():
            raise ValueError(
                f"{name!r} is state of a {type(self).__name__}, an input of its graph, and the "
                "main graph has no inputs. Make a graph: factories, graph = "
                "module.create_graph(...), and call graph.bind(factories.init())."
            )
        state = self._made()
        state.factories.insert(name, factory, overwrite)
        made = factory.create_input(None if factory.name else name)
        return state.inputs.insert(name, made, overwrite)

    def add_variable_inputs(
        self, name: "str | int", factories: NamedVariableFactories, overwrite: bool = False
    ) -> NamedTensors:
        """Adds inputs for all factories, under `name`. Raises ValueError if the name exists.

        Args:
            name: The name under which they are added.
            factories: The factories, by name.
            overwrite: Whether existing names may be replaced.
        """
        state = self._made()
        state.factories.insert(name, factories, overwrite)
        with popxl.name_scope(str(name)):
            named = NamedTensors.from_dict(
                {key: f.create_input() for key, f in factories.to_dict().items()}
            )
        return state.inputs.insert(name, named, overwrite)

    @classmethod
    def from_list(cls, modules: "Iterable[Module]") -> "Module":
        """Makes a module that holds the `modules` as "0", "1", ..., and iterates over them."""
        made = _Listed()
        for i, module in enumerate(modules):
            made.append(i, module)
        return made

    @classmethod
    def from_variable_factories(cls, variable_factories: "Iterable[VariableFactory]") -> "Module":
        """Makes a module, in `build`, that holds an input for every factory as "0", "1", ...

        Args:
            variable_factories: The factories.
        """
        made = _Listed()
        for i, factory in enumerate(variable_factories):
            made.append(i, made.add_variable_factory(factory, str(i)))
        return made

    def get(self, key: "str | int") -> Any:
        """Returns the attribute named `key`, e.g. a module. Raises KeyError if it is missing.

        Args:
            key: The name, or an int.
        """
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
        raise AttributeError(f"{type(self).__name__} is not a list: use Module.from_list.")


class _Listed(Module):
    """A module that holds objects as "0", "1", ..."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def append(self, index: int, value: Any) -> None:
        setattr(self, str(index), value)
        self._count = index + 1

    def get(self, key: "str | int") -> Any:
        """Returns the object `key`; negative numbers count from the end. Raises KeyError."""
        return super().get(key + self._count if isinstance(key, int) and key < 0 else key)

    def __iter__(self) -> Iterator[Any]:
        return iter([self.get(i) for i in range(self._count)])

    def __len__(self) -> int:
        return self._count

    def __bool__(self) -> bool:
        return True
