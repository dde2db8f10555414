"""Rebuilds nested values from their description and other tensors: see node.Node.

No constructor of a class in Python runs: objects are made blank, and get their items and
attributes.
"""

from __future__ import annotations

import collections
import copy
import weakref
from collections.abc import Iterator
from typing import Any

from poptorch._impl.pytree import objects
from poptorch._impl.pytree.node import (
    CHANGING,
    Attribute,
    Node,
    items_of,
    parser_of,
    registration_of,
)
from poptorch_core import Error


def unflatten(node: Node, leaves: Iterator, made: dict[int, Any] | None = None):
    """Rebuilds a structure with the next leaves in place of its tensors.

    made: the objects that earlier calls for the same arguments have rebuilt, by their place.
    """
    made = {} if made is None else made
    if node.kind == "tensor":
        value = next(leaves)
    elif node.kind == "constant":
        value = node.value
        return copy.copy(value) if isinstance(value, CHANGING) else value
    elif node.kind == "shared":
        place = node.value.place
        return made[place] if place in made else unflatten(node.value, leaves, made)
    elif node.kind == "weak":
        return weakref.ref(made[node.value.place])
    elif parser := parser_of(node.value) if node.kind == "custom" else None:
        value = parser.reconstruct(node.value, leaves)
    elif node.kind == "object" and node.value is not None:
        value = node.value
    elif node.kind in ("registered", "custom"):
        items = [unflatten(child, leaves, made) for child in node.children]
        value = _registered(node.type).unflatten_fn(items[:-1], items[-1])
    else:
        return _rebuilt(node, leaves, made)
    if node.place >= 0:
        made[node.place] = value
    return value


def _rebuilt(node: Node, leaves: Iterator, made: dict[int, Any]) -> Any:
    """Rebuilds a container or an object."""
    kind, count = node.type, items_of(node)
    base = objects.base_of(kind)
    if base is tuple:
        items = [unflatten(child, leaves, made) for child in node.children[:count]]
        value = _tuple(kind, items)
    else:
        value = [] if kind is list else {} if kind is dict else objects.blank(kind)
    if node.place >= 0:
        made[node.place] = value
    if issubclass(base, dict):
        for key, child in zip(node.keys[:count], node.children, strict=False):
            base.__setitem__(value, key, unflatten(child, leaves, made))
    elif base is collections.deque:
        parts = dict(zip(node.keys[count:], node.children[count:], strict=True))
        items = [unflatten(child, leaves, made) for child in node.children[:count]]
        longest = parts.pop(_LONGEST, None)
        base.__init__(value, items, None if longest is None else longest.value)
    elif base is list:
        base.extend(value, (unflatten(child, leaves, made) for child in node.children[:count]))
    for key, child in zip(node.keys[count:], node.children[count:], strict=True):
        if key != _LONGEST or base is not collections.deque:
            objects.set_attribute(value, key.name, unflatten(child, leaves, made))
    return value


_LONGEST = Attribute("maxlen")


def _tuple(kind: type, items: list[Any]) -> Any:
    if kind is tuple:
        return tuple(items)
    try:
        return tuple.__new__(kind, items)
    except TypeError:  # torch.Size, and the results of torch's functions
        return kind(items)


def _registered(kind: type) -> Any:
    found = registration_of(kind)
    if found is None:
        raise Error(
            f"[call] {kind.__name__} is no longer in torch's pytree registry. Register it again."
        )
    return found
