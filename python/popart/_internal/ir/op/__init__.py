"""Classes of ops: `op.AddOp` is the class of ops of type "Add".

This package also has the names of its modules, such as `op.exchange.HostLoadOp`.
"""

from typing import Any

from popart._internal.ir.op import collectives, dynamic, exchange
from popart._internal.ir.op.classes import (
    ConvOptions,
    MatMulPartialsType,
    Op,
    is_class_name,
    op_class,
)

__all__ = ["ConvOptions", "MatMulPartialsType", "Op", "collectives", "dynamic", "exchange"]


def __getattr__(name: str) -> Any:
    if not is_class_name(name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return op_class(name)
