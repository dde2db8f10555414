"""Type aliases for all forms of graphs and gradient graphs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import popxl
from popxl.transforms import GradGraphInfo

if TYPE_CHECKING:
    from popxl_addons.graph import BoundGraph, GraphWithNamedArgs

GraphLike: TypeAlias = Union[popxl.Graph, "BoundGraph", "GraphWithNamedArgs"]
GradGraphInfoLike: TypeAlias = Union[GradGraphInfo, "GraphWithNamedArgs"]
CalledGraphsGradInfo: TypeAlias = Mapping[popxl.Graph, GradGraphInfo]
CalledGraphsGradInfoLike: TypeAlias = Mapping[Any, GradGraphInfoLike]  # keys: GraphLike
