"""replicaGrouping: weights that have a value for each group of replicas.

On the host such a weight has a first dimension more, of as many as there are values; a trace sees
one replica's part.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from poptorch.enums import CommGroupType, VariableRetrievalMode
from poptorch_core import Error, _core


class Request(NamedTuple):
    """What replicaGrouping was called with."""

    comm_group_type: CommGroupType
    shards: int
    variable_retrieval_mode: VariableRetrievalMode


class Groupings:
    """The replica groupings of the parameters of a wrapper with so many replicas, of all
    processes."""

    def __init__(self, replicas: int) -> None:
        self.replicas = replicas
        self._requests: dict[int, Request] = {}
        self.closed = False  # the model is compiled

    def request(self, tensor, comm_group_type, shards, variable_retrieval_mode) -> None:
        """Notes the grouping of a parameter; the last one holds."""
        if self.closed:
            raise Error(
                "[replicas] replicaGrouping was called after the model was compiled. Call it "
                "before the first run, or after destroy()."
            )
        for value, kind in (
            (comm_group_type, CommGroupType),
            (variable_retrieval_mode, VariableRetrievalMode),
        ):
            if not isinstance(value, kind):
                raise ValueError(f"[replicas] expected a poptorch.{kind.__name__}, not {value!r}.")
        if not isinstance(shards, int):
            raise ValueError(f"[replicas] a group has a whole number of replicas, not {shards!r}.")
        # By its memory: a wrapper may hand out a view of the model's parameter.
        self._requests[tensor.data_ptr()] = Request(
            comm_group_type, shards, variable_retrieval_mode
        )

    def requests(self, model: Any) -> dict[str, Request]:
        """By parameter: what was asked for, if anything was."""
        if not self._requests:  # so for functions, which have no parameters
            return {}
        named = [(name, tensor.data_ptr()) for name, tensor in model.named_parameters()]
        return {name: self._requests[place] for name, place in named if place in self._requests}

    def request_all(self, model: torch.nn.Module, requests: dict[str, Request]) -> None:
        """Asks for what requests gave of a copy of the model."""
        for name, request in requests.items():
            self.request(model.get_parameter(name), *request)

    def of(self, model: Any) -> dict[str, _core.ReplicaGroup]:
        """By parameter: its group. Raises ValueError for groups that do not fit."""
        asked = self.requests(model)  # of tied ones, the first is the slot's
        if not asked:
            return {}
        tensors = dict(model.named_parameters())
        return {
            name: _group_of(name, tensors[name], request, self.replicas)
            for name, request in asked.items()
        }

    @contextlib.contextmanager
    def stand_ins(self, model) -> Iterator[dict[int, torch.Tensor]]:
        """Meanwhile grouped parameters are one replica's part; gives who holds their values.

        The keys are the ids of the parts.
        """
        groups = self.of(model)
        if not groups:
            yield {}
            return
        parts = {}
        for name, tensor in list(model.named_parameters()):
            if name in groups and groups[name].values(self.replicas) > 1:
                part = torch.nn.Parameter(tensor.detach()[0].clone(), tensor.requires_grad)
                parts[id(tensor)] = (tensor, part)
        replaced = []
        for module in model.modules():
            for name, tensor in list(module._parameters.items()):
                if id(tensor) in parts:
                    replaced.append((module._parameters, name, tensor))
                    module._parameters[name] = parts[id(tensor)][1]
        try:
            yield {id(part): tensor for tensor, part in parts.values()}
        finally:
            for parameters, name, tensor in replaced:
                parameters[name] = tensor


def _group_of(name: str, tensor, request: Request, replicas: int) -> _core.ReplicaGroup:
    kind, shards, retrieval = request
    every = retrieval == VariableRetrievalMode.AllReplicas
    try:
        return _core.group_parameter(name, tensor.shape, kind.name, shards, every, replicas)
    except Error as error:
        raise ValueError(error.message) from None


class Grouped:
    """Mixed into the class of a wrapper's parameters; the class names the wrapper's Groupings."""

    def replicaGrouping(
        self,
        comm_group_type: CommGroupType,
        shards: int,
        variable_retrieval_mode: VariableRetrievalMode,
    ) -> None:
        """Gives each group of `shards` replicas a value of its own. Call it before the first run.

        The parameter's first dimension is the number of groups (of replicas, with AllReplicas).
        Gradients are added up in each group; Mean divides by all replicas. Raises ValueError for
        other types, poptorch.Error once the model is compiled.
        """
        groupings = type(self).__dict__["_poptorch_groupings"]
        groupings.request(self, comm_group_type, shards, variable_retrieval_mode)


def grouped(parameter: torch.nn.Parameter, groupings: Groupings) -> torch.nn.Parameter:
    """A parameter with the memory of `parameter` that has replicaGrouping."""
    kind = type(
        "GroupedParameter", (Grouped, torch.nn.Parameter), {"_poptorch_groupings": groupings}
    )
    return torch.Tensor._make_subclass(kind, parameter.detach(), parameter.requires_grad)
