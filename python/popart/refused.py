"""Names of PopART that programs may import but not use: parts of ONNX models."""

from typing import Any

from popxl.errors import unsupported

NAMES = (
    *("Adam", "Adaptive", "Builder", "ConstSGD", "OptimizerValue", "SGD"),
    *("ClipNormSettings", "ExecutionPhaseSettings", "GraphTransformer", "InputShapeInfo"),
    *("AutomaticLossScalingSettings", "BatchSerializationSettings", "TensorInfo"),
)


def _refuse(self: Any, *args: Any, **kwargs: Any) -> None:
    raise unsupported(f"popart.{type(self).__name__}")


def refused(name: str) -> type:
    """Returns a class of this name whose constructor raises UnsupportedError."""
    return type(name, (), {"__init__": _refuse, "__doc__": "Refused: UnsupportedError."})
