"""The mapping from a gradient graph's inputs and outputs to the forward graph."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from popxl.tensor_base import Tensor


class ExpectedConnectionType(IntEnum):
    """The kind of a gradient graph's connection: a forward tensor, or the gradient of one."""

    Fwd = 0
    FwdGrad = 1


@dataclass(frozen=True, init=False)
class ExpectedConnection:
    """An input or output of a gradient graph, in terms of the forward graph. Made by autodiff."""

    fwd_tensor: Tensor
    connection_type: ExpectedConnectionType

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError("Cannot create an ExpectedConnection directly: autodiff does.")


def connect(t: Tensor, kind: ExpectedConnectionType) -> ExpectedConnection:
    """Returns the connection of a forward tensor, or of its gradient."""
    made = object.__new__(ExpectedConnection)
    vars(made).update(fwd_tensor=t, connection_type=kind)
    return made
