"""A stand-in of horovod.torch: the functions that distributed programs call, over popdist."""

from collections.abc import Iterable, Mapping
from typing import Any

import popdist
import torch
from popdist import collectives, compat

Average, Sum, Min, Max = "mean", "sum", "min", "max"


def init(*_: Any, **__: Any) -> None:
    """Joins the instances, unless popdist.init() has done so."""
    popdist.init()


def is_initialized() -> bool:
    """Returns whether init() was called."""
    return popdist.isBackendInitialized()


def shutdown() -> None:
    """Does nothing: popdist may need the other instances until the program ends."""


def rank() -> int:
    """Returns this instance's number."""
    return popdist.getInstanceIndex()


def size() -> int:
    """Returns the number of instances."""
    return popdist.getNumInstances()


def local_rank() -> int:
    """Returns this instance's number on its host."""
    return popdist.getLocalInstanceIndex()


def local_size() -> int:
    """Returns the number of instances on this host."""
    from popdist.instance import this_instance

    return this_instance().local_count


def allreduce(
    tensor: torch.Tensor, average: bool | None = None, name: str | None = None, *, op: Any = None
) -> torch.Tensor:
    """Returns the mean over the instances, or op's result, as a new tensor like the given one."""
    if op is not None and average is not None:
        raise ValueError("The op parameter supersedes average. Please provide only one of them.")
    if op is None:
        op = Sum if average is False else Average
    return collectives.all_reduce(tensor, op, name=name)


def grouped_allreduce(
    tensors: Iterable[torch.Tensor], average: bool | None = None, name: str | None = None, *,
    op: Any = None,
) -> list[torch.Tensor]:  # fmt: skip
    """Returns allreduce of each tensor; types may differ."""
    return [
        allreduce(tensor, average, None if name is None else f"{name}.{i}", op=op)
        for i, tensor in enumerate(tensors)
    ]


def allgather(tensor: torch.Tensor, name: str | None = None) -> torch.Tensor:
    """Returns the tensors of all instances, joined along dimension 0, whose sizes may differ."""
    return collectives.all_gather(tensor, name=name)


def broadcast(tensor: torch.Tensor, root_rank: int = 0, name: str | None = None) -> torch.Tensor:
    """Returns the root's value; the argument stays as it is."""
    return collectives.broadcast(tensor, root_rank, name=name)


def broadcast_parameters(params: Any, root_rank: int = 0) -> None:
    """Copies the root's values into the tensors of a state dict or of (name, tensor) pairs."""
    pairs = sorted(params.items()) if isinstance(params, Mapping) else list(params)
    with torch.no_grad():
        for _, tensor in pairs:
            if isinstance(tensor, torch.Tensor):
                tensor.copy_(collectives.broadcast(tensor, root_rank))


def __getattr__(name: str) -> Any:
    compat.refuse("horovod.torch", name)
