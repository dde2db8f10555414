"""Takes nested values apart into tensors and a description: see node.Node."""

from __future__ import annotations

import copy
import weakref
from dataclasses import dataclass, field
from typing import Any

import torch
from poptorch._impl.pytree import objects
from poptorch._impl.pytree.node import CHANGING, Attribute, Node, parser_of, registration_of, walk
from poptorch_core import Error
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]


def flatten(
    value, leaves: list[torch.Tensor], name: str = "", visits: Visits | None = None
) -> Node:
    """Appends the tensors of `value` to `leaves`; returns its structure.

    visits: the objects that earlier calls for the same arguments have visited.
    """
    try:
        return _Flattening(leaves, visits or Visits()).node(value, name)
    except RecursionError:
        raise Error(
            f"[call] {name or 'the structure'} is nested too deeply. Pass tensors in a list."
        ) from None


@dataclass
class Visits:
    """The objects that a flattening has visited.

    every: a container that is at two places is rebuilt as one object, as results are. Arguments
    are rebuilt as two, so that another call may pass two.
    """

    every: bool = False
    nodes: dict[int, Node] = field(default_factory=dict)
    places: int = 0
    kept: list[Any] = field(default_factory=list)  # of which `nodes` has the ids

    def shared(self, node: Node, name: str, kind: str = "shared") -> Node:
        """Returns a node that refers to `node`."""
        if node.place < 0:
            node.place = self.places
            self.places += 1
        return Node(kind, node.type, value=node, name=name)


_Part = tuple[Any, Any, str]  # the key of a child, its value and its name in messages


class _Flattening:
    """One call of flatten()."""

    def __init__(self, leaves: list[torch.Tensor], visits: Visits) -> None:
        self._leaves, self._visits = leaves, visits
        self._open: dict[int, Node] = {}  # the objects that contain the present one

    def node(self, value: Any, name: str) -> Node:
        """Returns the structure of a value."""
        if isinstance(value, torch.Tensor):
            return self._tensor(value, name)
        kind = type(value)
        if objects.is_value(value):
            return Node("constant", kind, value=value, name=name)
        if parser := parser_of(value):
            tensors = enumerate(parser.yieldTensors(value))
            parts: list[_Part] = [(i, tensor, f"{name}[{i}]") for i, tensor in tensors]
            return self._filled(Node("custom", kind, value=value, name=name), value, parts)
        if registered := registration_of(kind):
            items, context = registered.flatten_fn(value)
            parts = [(i, item, f"{name}[{i}]") for i, item in enumerate(items)]
            parts.append((Attribute("context"), context, f"the context of {name}"))
            return self._filled(Node("registered", kind, name=name), value, parts)
        if objects.is_code(value):
            used = objects.used_by_code(value)
            return Node("constant", kind, value=value, name=name, used=used)
        if isinstance(value, CHANGING):
            return Node("constant", kind, value=copy.copy(value), name=name)
        if isinstance(value, weakref.ref):
            target = self._visits.nodes.get(id(value()))
            if target is not None:
                return self._visits.shared(target, name, "weak")
        return self._container(value, name)

    def _tensor(self, value: torch.Tensor, name: str) -> Node:
        self._leaves.append(value)
        # A tensor without shape is refused later, where its values are needed.
        has_shape = not isinstance(value, UninitializedTensorMixin) and not value.is_nested
        shape, place = value.shape if has_shape else None, len(self._leaves) - 1
        return Node("tensor", type(value), shape=shape, dtype=value.dtype, index=place, name=name)

    def _container(self, value: Any, name: str) -> Node:
        kind: Any = type(value)
        base: Any = objects.base_of(kind)
        is_tuple = base is tuple
        if id(value) in self._open:
            if is_tuple:
                raise Error(f"[call] {name} contains itself. Keep the tensors in a list.")
            return self._visits.shared(self._open[id(value)], name)
        if (self._visits.every or base is object) and not is_tuple:
            if id(value) in self._visits.nodes:
                return self._visits.shared(self._visits.nodes[id(value)], name)
        parts: list[_Part]
        if issubclass(base, dict):
            parts = [(key, item, f"{name}[{key!r}]") for key, item in base.items(value)]
        elif base is not object:
            items = enumerate(base.__iter__(value))
            parts = [(i, item, f"{name}[{i}]") for i, item in items]
        else:
            parts = []
        if kind not in _PLAIN:
            parts += self._attributes(value, base, name)
        if base is object and not parts:
            return Node("constant", kind, value=value, name=name)
        made, first = Node(_kind_of(kind, base), kind, name=name), len(self._leaves)
        if not is_tuple:
            self._visits.nodes[id(value)] = made
            self._visits.kept.append(value)
        self._filled(made, value, parts)
        if base is object and not _needs_copy(made):
            made.value = value
        elif kind not in _PLAIN and not is_tuple and not objects.can_be_made(kind):
            del self._leaves[first:]
            return Node("constant", kind, value=value, name=name)
        return made

    def _attributes(self, value: Any, base: type, name: str) -> list[_Part]:
        found = objects.attributes_of(value)
        for special in ("default_factory", "maxlen"):
            if hasattr(base, special):
                found[special] = object.__getattribute__(value, special)
        found |= {
            key: part
            for key, part in objects.class_fields_of(value, found).items()
            if objects.holds_tensor([part])[0]
        }
        return [(Attribute(key), part, f"{name}.{key}") for key, part in found.items()]

    def _filled(self, node: Node, value: Any, parts: list[_Part]) -> Node:
        """Sets the keys and children of a node."""
        self._open[id(value)] = node
        keys: list[Any] = []
        children: list[Node] = []
        items: dict[int, Node] = {}
        for key, part, label in parts:
            if isinstance(key, Attribute) and id(part) in items:  # an item is an attribute, too
                child = self._visits.shared(items[id(part)], label)
            else:
                child = self.node(part, label)
                if child.kind not in ("constant", "shared", "weak"):
                    items[id(part)] = child
            keys.append(key)
            children.append(child)
        del self._open[id(value)]
        node.keys, node.children = tuple(keys), tuple(children)
        return node


def _needs_copy(node: Node) -> bool:
    """Returns whether an object has tensors, or parts that belong to other objects, too."""
    parts = list(walk([node]))
    own = {id(part) for part in parts}
    return any(
        id(part.value) not in own and part.value.value is None
        if part.kind in ("shared", "weak")
        else part.kind in ("tensor", "custom", "registered")
        for part in parts
    )


# Containers without attributes.
_PLAIN = (tuple, list, dict)


def _kind_of(kind: type, base: type) -> str:
    if issubclass(base, dict):
        return "dict"
    if base is object:
        return "object"
    return "fields" if base is tuple and hasattr(kind, "_fields") else "sequence"
