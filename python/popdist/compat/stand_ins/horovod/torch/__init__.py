"""A stand-in of horovod.torch: what programs for several instances call, over popdist's group."""

from collections.abc import Iterable, Mapping
from typing import Any

import popdist
import torch
from popdist import collectives, compat

Average, Sum, Min, Max = "mean", "sum", "min", "max"


def init(*_: Any, **__: Any) -> None:
    """Joins the instances, if popdist.init() has not."""
    popdist.init()


def is_initialized() -> bool:
    """Whether init() was called."""
    return popdist.isBackendInitialized()


def shutdown() -> None:
    """Leaves the other instances at the program's end, not before: popdist may need them."""


def rank() -> int:
    """This instance's number."""
    return popdist.getInstanceIndex()


def size() -> int:
    """How many instances there are."""
    return popdist.getNumInstances()


def local_rank() -> int:
    """This instance's number on its host."""
    return popdist.getLocalInstanceIndex()


def local_size() -> int:
    """Instances of this host."""
    from popdist.instance import this_instance

    return this_instance().local_count


def allreduce(
    tensor: torch.Tensor, average: bool | None = None, name: str | None = None, *, op: Any = None
) -> torch.Tensor:
    """The mean over the instances, or op's result: a new tensor of the same shape and type."""
    if op is not None and average is not None:
        raise ValueError("The op parameter supersedes average. Please provide only one of them.")
    if op is None:
        op = Sum if average is False else Average
    return collectives.all_reduce(tensor, op, name=name)


def grouped_allreduce(
    tensors: Iterable[torch.Tensor], average: bool | None = None, name: str | None = None, *,
    op: Any = None,
) -> list[torch.Tensor]:  # fmt: skip
    """allreduce of each; types may differ."""
    return [
        allreduce(tensor, average, None if name is None else f"{name}.{i}", op=op)
        for i, tensor in enumerate(tensors)
    ]


def allgather(tensor: torch.Tensor, name: str | None = None) -> torch.Tensor:
    """Those of all instances, joined along the first dimension, whose sizes may differ."""
    return collectives.all_gather(tensor, name=name)


def broadcast(tensor: torch.Tensor, root_rank: int = 0, name: str | None = None) -> torch.Tensor:
    """The root's value; the argument stays as it is."""
    return collectives.broadcast(tensor, root_rank, name=name)


def broadcast_parameters(params: Any, root_rank: int = 0) -> None:
    """Gives every instance the root's values of a state dict, or of pairs of name and tensor."""
    pairs = sorted(params.items()) if isinstance(params, Mapping) else list(params)
    with torch.no_grad():
        for _, tensor in pairs:
            if isinstance(tensor, torch.Tensor):
                tensor.copy_(collectives.broadcast(tensor, root_rank))


def __getattr__(name: str) -> Any:
    compat.refuse("horovod.torch", name)
