"""The description of a nested structure, without its tensors, and the user's parsers of types."""

from __future__ import annotations

import abc
import array
import collections
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from poptorch._impl.pytree import objects
from poptorch_core import Error
from torch.utils import _pytree as torch_pytree

# Values without items for tensors that can change: a copy is compared and returned.
CHANGING = (set, bytearray, array.array)


class ICustomArgParser(abc.ABC):
    """Defines how PopTorch extracts the tensors of a user's type and rebuilds an object."""

    @abc.abstractmethod
    def yieldTensors(self, struct) -> Iterator[torch.Tensor]:
        """Yields the tensors of `struct`, always in the same order.

        Args:
            struct: The object that holds the tensors.
        """

    @abc.abstractmethod
    def reconstruct(self, original_structure, tensor_iterator):
        """Returns a copy of `original_structure` with the next tensors of the iterator.

        Args:
            original_structure: An object of the type.
            tensor_iterator: An iterator over tensors, of which it takes as many as yieldTensors()
                yields.
        """


_parsers: dict[type, ICustomArgParser] = {}


def registerCustomArgParser(arg_data_type: type, arg_parser: ICustomArgParser | None) -> None:
    """Registers the parser of a type and its subclasses.

    Args:
        arg_data_type: The type.
        arg_parser: Its parser; None removes a parser.

    Raises:
        poptorch.Error: `arg_parser` is not an ICustomArgParser.
    """
    if arg_parser is None:
        _parsers.pop(arg_data_type, None)
        return
    if not isinstance(arg_parser, ICustomArgParser):
        raise Error(
            f"arg_parser must inherit from ICustomArgParser but is a {type(arg_parser).__name__}."
        )
    _parsers[arg_data_type] = arg_parser


def parser_of(value) -> ICustomArgParser | None:
    for kind in type(value).__mro__:
        if kind in _parsers:
            return _parsers[kind]
    return None


# Types whose registration in torch does not have all parts of the object.
_OWN = frozenset(
    (tuple, list, dict, torch.Size, collections.OrderedDict, collections.defaultdict,
     collections.deque)
)  # fmt: skip


def registration_of(kind: type) -> Any:
    """Returns how torch's pytrees take objects of exactly this class apart, or None."""
    if kind in _OWN or kind.__module__ == "torch.return_types":
        return None
    return torch_pytree.SUPPORTED_NODES.get(kind)


@dataclass(frozen=True)
class Attribute:
    """A key of a node: the child is an attribute of the object, not an item of the container."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


@dataclass
class Node:
    """One level of a structure; `keys` are the positions, fields or keys of its `children`.

    The kinds are tensor, constant, sequence (also sets' relatives without keys: deques), fields (a
    named tuple), dict, object (only attributes), custom (with a parser of the user), registered
    (in torch's pytree registry; the last child is torch's context), shared (an object that is at
    another place, too) and weak (a weak reference to such an object).
    """

    kind: str
    type: type
    keys: tuple = ()
    children: tuple[Node, ...] = ()
    # A constant's value; the original of a custom type, or of an object without tensors; the node
    # that a shared or weak node refers to.
    value: Any = None
    shape: torch.Size | None = None
    dtype: torch.dtype | None = None
    index: int = -1  # a tensor's index among the leaves
    name: str = ""  # its name in messages
    place: int = -1  # the number of a node that others refer to
    used: tuple = ()  # by a constant that is code: see objects.used_by_code()


def items_of(node: Node) -> int:
    """Returns the number of children that are items; attributes come after them."""
    count = len(node.keys)
    while count and isinstance(node.keys[count - 1], Attribute):
        count -= 1
    return count


def hiding_values(node: Node) -> list[Any]:
    """Returns what may hold tensors that are not among the leaves: see objects.holds_tensor()."""
    if node.kind == "dict":
        return [(key,) for key in node.keys if not isinstance(key, (str, int, Attribute))]
    if node.kind == "constant":
        is_plain = objects.is_value(node.value) or objects.is_code(node.value)
        return [] if is_plain else [node.value]
    is_foreign = node.kind == "object" and not objects.can_be_made(node.type)
    return [node.value] if is_foreign else []


def walk(nodes: list[Node]) -> Iterator[Node]:
    """Yields the nodes and all their descendants, in the order of their leaves."""
    waiting = nodes[::-1]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.children[::-1]
