"""Warns about containers and objects among the arguments that forward changes while it is traced.

Forward has copies of them, so the caller's objects keep their items and attributes.
"""

from collections.abc import Sequence
from typing import Any

import torch
from poptorch._impl.pytree.structures import Node, Visits, flatten, walk
from poptorch._logging import logger_of

logger = logger_of(__name__)


class ArgumentWatch:
    """Compares the arguments before and after forward; `names` are those of positional ones."""

    def __init__(
        self, names: Sequence[str], positional: list[Any], keyword: dict[str, Any]
    ) -> None:
        named = [*zip(names, positional, strict=False), *keyword.items()]
        # Plain tensors cannot get other items.
        self._named = [pair for pair in named if not isinstance(pair[1], torch.Tensor)]
        self._before = self._flattened()

    def look(self) -> None:
        """Warns if forward has set an item or an attribute."""
        (before, tensors), (after, others) = self._before, self._flattened()
        for one, other in zip(walk(before), walk(after), strict=False):
            if one.kind != other.kind or one.keys != other.keys:
                return _warn(one.name)
            if one.kind == "tensor" and tensors[one.index] is not others[other.index]:
                return _warn(one.name)
            if one.kind == "constant" and type(one.value) is not type(other.value):
                return _warn(one.name)
        return None

    def _flattened(self) -> tuple[list[Node], list[torch.Tensor]]:
        visits = Visits()
        leaves: list[torch.Tensor] = []
        return [flatten(value, leaves, name, visits) for name, value in self._named], leaves


def _warn(name: str) -> None:
    logger.warning(
        f"[call] forward changes {name} of its arguments, but it has a copy: the caller's object "
        "does not change. Return the new value"
    )
