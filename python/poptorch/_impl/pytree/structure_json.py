"""Structures of arguments and results (see structures.Node) as JSON, for files of executables.

Types must be imported by the program; reading a file imports nothing.
"""

import collections
import dataclasses
import sys
from typing import Any

import torch
from poptorch._impl.pytree.structures import Node
from poptorch_core import Error

_PLAIN = (type(None), bool, int, float, str)
_BUILTIN: dict[str, type] = {
    kind.__name__: kind for kind in (tuple, list, dict, collections.OrderedDict)
}
_NAME_OF = {kind: name for name, kind in _BUILTIN.items()}


def encode(node: Node) -> dict[str, Any]:
    """Converts a node to JSON data for decode().

    Raises poptorch.Error for types with a registered parser, and for constants other than numbers,
    texts and dtypes.
    """
    made: dict[str, Any] = {"kind": node.kind, "name": node.name}
    if node.kind == "tensor":
        assert node.shape is not None
        return {**made, "shape": list(node.shape), "dtype": _dtype_name(node.dtype),
                "index": node.index}  # fmt: skip
    if node.kind == "constant":
        return {**made, "value": _encode_plain(node, node.value)}
    if node.kind == "custom":
        raise _unsaved(node, f"a {node.type.__name__}, which has a registered parser")
    made["type"] = _NAME_OF.get(node.type) or [node.type.__module__, node.type.__qualname__]
    made["keys"] = [_encode_plain(node, key) for key in node.keys]
    made["children"] = [encode(child) for child in node.children]
    return made


def decode(made: dict[str, Any]) -> Node:
    """Returns the node of which encode() made the data.

    Raises poptorch.Error for a type that is not imported, and KeyError or TypeError for other data.
    """
    kind, name = made["kind"], made["name"]
    if kind == "tensor":
        dtype = dtype_named(made["dtype"])
        shape = torch.Size(made["shape"])
        return Node(kind, torch.Tensor, shape=shape, dtype=dtype, index=made["index"], name=name)
    if kind == "constant":
        value = _decode_plain(made["value"])
        return Node(kind, type(value), value=value, name=name)
    found = _type(kind, made["type"], name)
    keys = tuple(_decode_plain(key) for key in made["keys"])
    children = tuple(decode(child) for child in made["children"])
    blank = object.__new__(found) if kind == "dataclass" else None
    return Node(kind, found, keys, children, blank, name=name)


def _unsaved(node: Node, what: str) -> Error:
    return Error(
        f"[save] {node.name or 'the result'} is {what}: it cannot be saved. Pass and return "
        "tensors, numbers and texts in tuples, lists, dicts, named tuples and dataclasses."
    )


def _encode_plain(node: Node, value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return {"dtype": _dtype_name(value)}
    if type(value) not in _PLAIN:
        raise _unsaved(node, f"{value!r}")
    return value


def _decode_plain(made: Any) -> Any:
    return dtype_named(made["dtype"]) if isinstance(made, dict) else made


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
        "sequence": issubclass(found, (tuple, list)),
        "fields": issubclass(found, tuple) and hasattr(found, "_fields"),
        "dict": issubclass(found, dict),
        "dataclass": dataclasses.is_dataclass(found),
    }.get(kind)
    if not fits:
        raise Error(
            f"[load] {name or 'the result'} of the saved model is a {module}.{qualified}, which "
            "this program has not imported. Import it before loading."
        )
    return found
