"""Structures of arguments and results (see structures.Node) as JSON, for files of executables.

Types must be imported by the program; reading a file imports nothing.
"""

import collections
import dataclasses
import sys
from typing import Any

import torch
from poptorch._impl.pytree import objects
from poptorch._impl.pytree.node import Attribute, Node, registration_of, walk
from poptorch_core import Error

_PLAIN = (type(None), bool, int, float, str)
_BUILTIN: dict[str, type] = {
    kind.__name__: kind for kind in (tuple, list, dict, collections.OrderedDict)
}
_NAME_OF = {kind: name for name, kind in _BUILTIN.items()}
_FIRST_ADDED = 1 << 32  # the first number of nodes that have none in the file
# The default_factory of a defaultdict in a file is one of these.
_FACTORIES: dict[str, Any] = {
    kind.__name__: kind for kind in (list, dict, set, tuple, int, float, str, bool)
}


def encode(node: Node) -> dict[str, Any]:
    """Converts a node to JSON data for decode().

    Raises poptorch.Error for types with a registered parser, and for constants other than numbers,
    texts and dtypes.
    """
    made: dict[str, Any] = {"kind": node.kind, "name": node.name}
    if node.place >= 0:
        made["place"] = node.place
    if node.kind == "tensor":
        assert node.shape is not None
        return {**made, "shape": list(node.shape), "dtype": _dtype_name(node.dtype),
                "index": node.index}  # fmt: skip
    if node.kind == "constant":
        return {**made, "value": _encode_plain(node, node.value)}
    if node.kind in ("shared", "weak"):
        return {**made, "of": node.value.place}
    if node.kind == "custom":
        raise _unsaved(node, f"a {node.type.__name__}, which has a registered parser")
    made["type"] = _NAME_OF.get(node.type) or [node.type.__module__, node.type.__qualname__]
    made["keys"] = [_encode_key(node, key) for key in node.keys]
    made["children"] = [encode(child) for child in node.children]
    return made


def decode(made: dict[str, Any]) -> Node:
    """Returns the node of which encode() made the data.

    Raises poptorch.Error for a type that is not imported, and KeyError or TypeError for other data.
    """
    places: dict[int, Node] = {}
    node = _decode(made, places, ())
    for part in walk([node]):
        if part.kind in ("shared", "weak"):
            part.value = places[part.value]
            part.type = part.value.type
    return node


def _decode(made: dict[str, Any], places: dict[int, Node], closed: tuple[int, ...]) -> Node:
    """Like decode(), but a reference has the number of its target, which is not in `closed`.

    Those are the numbers of containers that are complete only when all of their items are.
    """
    kind, name, place = made["kind"], made["name"], made.get("place", -1)
    if type(place) is not int or place in places:
        raise TypeError(f"{place} is not the number of one object")
    if kind == "tensor":
        dtype, index = dtype_named(made["dtype"]), made["index"]
        shape = torch.Size(made["shape"])
        node = Node(kind, torch.Tensor, shape=shape, dtype=dtype, index=index, name=name)
    elif kind == "constant":
        value = _decode_plain(made["value"])
        node = Node(kind, type(value), value=value, name=name)
    elif kind in ("shared", "weak"):
        if made["of"] in closed:
            raise TypeError(f"{name} contains itself")
        return Node(kind, object, value=made["of"], name=name)
    else:
        keys = tuple(_decode_plain(key) for key in made["keys"])
        if kind == "dataclass":  # in files of version 3.4
            kind, keys = "object", tuple(Attribute(key) for key in keys)
        node = Node(kind, _type(kind, made["type"], name), keys, name=name)
        if place >= 0:
            places[place] = node
        is_closed = kind in ("fields", "registered") or issubclass(node.type, tuple)
        closed = (*closed, place) if is_closed and place >= 0 else closed
        node.children = tuple(_decode(child, places, closed) for child in made["children"])
        if kind == "dict" and dataclasses.is_dataclass(node.type):
            _add_fields(node, places)
        _check_attributes(node, place)
    if place >= 0:
        places[place] = node
    node.place = place
    return node


def _add_fields(node: Node, places: dict[int, Node]) -> None:
    """Makes the items attributes, too: files of version 3.4 have only the items."""
    if any(isinstance(key, Attribute) for key in node.keys):
        return
    names = {field.name for field in dataclasses.fields(node.type)}
    for key, child in zip(node.keys, node.children, strict=True):
        if key in names:
            if child.place < 0:
                child.place = _FIRST_ADDED + len(places)
                places[child.place] = child
            shared = Node("shared", object, value=child.place, name=child.name)
            node.keys, node.children = (*node.keys, Attribute(key)), (*node.children, shared)


def _check_attributes(node: Node, place: int) -> None:
    for key, child in zip(node.keys, node.children, strict=True):
        name = key.name if isinstance(key, Attribute) else ""
        if name == "__dict__" and (child.kind != "shared" or child.value != place):
            raise TypeError("an object has another object's attributes")
        if name == "maxlen" and issubclass(node.type, collections.deque):
            if child.kind != "constant" or type(child.value) not in (type(None), int):
                raise TypeError("the longest length of a deque is not a number")


def _unsaved(node: Node, what: str) -> Error:
    return Error(
        f"[save] {node.name or 'the result'} is {what}: it cannot be saved. Pass and return "
        "tensors, numbers and texts in tuples, lists, dicts and attributes of objects."
    )


def _encode_key(node: Node, key: Any) -> Any:
    return {"attribute": key.name} if isinstance(key, Attribute) else _encode_plain(node, key)


def _encode_plain(node: Node, value: Any) -> Any:
    if isinstance(value, type) and value in _FACTORIES.values():
        return {"factory": value.__name__}
    if isinstance(value, torch.dtype):
        return {"dtype": _dtype_name(value)}
    if type(value) not in _PLAIN:
        raise _unsaved(node, f"{value!r}")
    return value


def _decode_plain(made: Any) -> Any:
    if not isinstance(made, dict):
        return made
    if "attribute" in made:
        return Attribute(str(made["attribute"]))
    return _FACTORIES[made["factory"]] if "factory" in made else dtype_named(made["dtype"])


def _dtype_name(dtype: torch.dtype | None) -> str:
    return str(dtype).removeprefix("torch.")


def tensors_of(node: Node) -> list[Node]:
    """Returns the nodes of its tensors, in order."""
    if node.kind == "tensor":
        return [node]
    return [leaf for child in node.children for leaf in tensors_of(child)]


def dtype_named(name: str) -> torch.dtype:
    """Returns the dtype of a name; raises TypeError for other names."""
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise TypeError(f"{name} is not a dtype")
    return found


def _type(kind: str, said: str | list[str], name: str) -> type:
    module, qualified = ("builtins", said) if isinstance(said, str) else said
    found: Any = sys.modules.get(module)
    for part in qualified.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    if isinstance(said, str):
        found = _BUILTIN.get(said)
    fits = isinstance(found, type) and {
        "sequence": issubclass(found, (tuple, list, collections.deque)),
        "fields": issubclass(found, tuple) and hasattr(found, "_fields"),
        "dict": issubclass(found, dict),
        "object": objects.base_of(found) is object and not issubclass(found, objects.CODE),
        "registered": registration_of(found) is not None,
    }.get(kind)
    if fits and kind != "registered" and not issubclass(found, tuple):
        fits = objects.can_be_made(found)  # without code of the class
    if not fits:
        raise Error(
            f"[load] {name or 'the result'} of the saved model is a {module}.{qualified}, which "
            "this program has not imported. Import it before loading."
        )
    return found
