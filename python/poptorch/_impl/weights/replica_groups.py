"""replicaGrouping: weights that have a value for each group of replicas.

On the host, such a weight has an additional first dimension, whose size is the number of values. A
trace sees the part of one replica.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from poptorch.enums import CommGroupType, VariableRetrievalMode
from poptorch_core import Error, _core


class Request(NamedTuple):
    """The arguments of a call of replicaGrouping."""

    comm_group_type: CommGroupType
    shards: int
    variable_retrieval_mode: VariableRetrievalMode


class Groupings:
    """The replica groupings of a wrapper's parameters. replicas: their number in all processes."""

    def __init__(self, replicas: int) -> None:
        self.replicas = replicas
        self._requests: dict[int, Request] = {}
        self.closed = False  # the model is compiled

    def request(self, tensor, comm_group_type, shards, variable_retrieval_mode) -> None:
        """Sets the grouping of a parameter; the last call counts."""
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
            raise ValueError(f"[replicas] expected a whole number of replicas, not {shards!r}.")
        # The key is the memory, because a wrapper may return a view of the model's parameter.
        self._requests[tensor.data_ptr()] = Request(
            comm_group_type, shards, variable_retrieval_mode
        )

    def requests(self, model: Any) -> dict[str, Request]:
        """Returns the requested groupings by parameter."""
        if not self._requests:  # always empty for functions, which have no parameters
            return {}
        named = [(name, tensor.data_ptr()) for name, tensor in model.named_parameters()]
        return {name: self._requests[place] for name, place in named if place in self._requests}

    def request_all(self, model: torch.nn.Module, requests: dict[str, Request]) -> None:
        """Sets the groupings that requests() of a copy of the model returned."""
        for name, request in requests.items():
            self.request(model.get_parameter(name), *request)

    def of(self, model: Any) -> dict[str, _core.ReplicaGroup]:
        """Returns the groups by parameter. Raises ValueError for groups that do not fit."""
        asked = self.requests(model)  # the first of tied parameters names the slot
        if not asked:
            return {}
        tensors = dict(model.named_parameters())
        return {
            name: _group_of(name, tensors[name], request, self.replicas)
            for name, request in asked.items()
        }

    @contextlib.contextmanager
    def stand_ins(self, model) -> Iterator[dict[int, torch.Tensor]]:
        """Replaces grouped parameters by the part of one replica in the body.

        Yields the original parameters by the ids of the parts.
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
        """Gives each group of replicas a separate value. Call it before the first run.

        Gradients are added up in each group; ReductionType.Mean divides by all replicas.

        Args:
            comm_group_type: The arrangement of groups.
            shards: The number of replicas in a group.
            variable_retrieval_mode: With AllReplicas, the parameter's first dimension is the number
                of replicas, else the number of groups.

        Raises:
            ValueError: An argument is of a wrong type.
            poptorch.Error: The model is compiled already.
        """
        groupings = type(self).__dict__["_poptorch_groupings"]
        groupings.request(self, comm_group_type, shards, variable_retrieval_mode)


def grouped(parameter: torch.nn.Parameter, groupings: Groupings) -> torch.nn.Parameter:
    """Returns a parameter with the memory of `parameter` and the method replicaGrouping."""
    kind = type(
        "GroupedParameter", (Grouped, torch.nn.Parameter), {"_poptorch_groupings": groupings}
    )
    return torch.Tensor._make_subclass(kind, parameter.detach(), parameter.requires_grad)
