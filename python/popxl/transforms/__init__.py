"""Transforms: graphs made from graphs."""

from popxl.missing import refuse
from popxl.transforms.autodiff import (
    ExpectedConnection,
    ExpectedConnectionType,
    GradGraphInfo,
    autodiff,
)

__all__ = ["ExpectedConnection", "ExpectedConnectionType", "GradGraphInfo", "autodiff"]

__getattr__ = refuse("popxl.transforms")
