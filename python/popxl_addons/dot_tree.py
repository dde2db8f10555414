"""DotTree: a collection of named values, nested by the dots in their names."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Self, TypeVar

from popxl_addons.utils import OrderedDict

Leaf = TypeVar("Leaf")


def sanitise(name: str) -> str:
    """Returns `name` as an identifier: other characters become "_", and a first digit gets "_".

    Args:
        name: The text.
    """
    return re.sub(r"\W|^(?=\d)", "_", name)


def to_mapping(a: "DotTree", b: "DotTree") -> dict[Any, Any]:
    """Returns {value of a: value of b with the same name}, for names that both have.

    Args:
        a: The collection whose values are the keys.
        b: The collection with the other values.
    """
    theirs = b.to_dict()
    return {v: theirs[k] for k, v in a.to_dict().items() if k in theirs}


def _held(tree: "DotTree") -> dict[str, Any]:
    """Returns values and trees at the top."""
    return vars(tree)["_map"]


def _checked(key: "str | int") -> str:
    text = str(key)
    for part in text.split("."):
        if not (part.isidentifier() or part.isdigit()):
            raise ValueError(f"{part!r} of {key!r} is not a valid python identifier or a number.")
    return text


def _resolved(tree: "DotTree", part: str) -> str:
    """Returns the key for "-k": k before the next number."""
    if part.startswith("-") and part[1:].isdigit():
        numbers = [int(key) for key in _held(tree) if key.isdigit()]
        return str(max(numbers, default=-1) + 1 + int(part))
    return part


class DotTree(Generic[Leaf]):
    """Values by name. "a.b" is value "b" of the tree "a"; attributes work like items.

    Trees are kept by reference: later insertions into a nested tree are visible in the outer one.
    A tree is always true. The constructor's keyword arguments are the first values.

    Args:
        **values: The first values, by name.
    """

    def __init__(self, **values: "Leaf | DotTree[Leaf]") -> None:
        self._map: OrderedDict[str, Any] = OrderedDict()
        for key, value in values.items():
            self.insert(key, value)

    def insert(
        self, key: "str | int", value: "Leaf | DotTree[Leaf]", overwrite: bool = False
    ) -> Any:
        """Adds a value or tree, and returns it.

        Args:
            key: The name. The first part of a dotted key names a tree at the top, which is made if
                it is missing.
            value: The value or tree.
            overwrite: Whether each part of the key may exist; other entries stay.

        Raises:
            ValueError: The first part exists, or a part is neither an identifier nor a number.
        """
        first, _, rest = _checked(key).partition(".")
        if first in self._map and not overwrite:
            raise ValueError(f"{first!r} already exists: {key!r} needs overwrite=True.")
        if rest:
            known = self._map.get(first)
            tree = known if isinstance(known, DotTree) else type(self)()
            tree.insert(rest, value, overwrite)
            self._map[first] = tree
        else:
            self._map[first] = value
        return value

    def _find(self, key: "str | int") -> "tuple[dict[str, Any], str]":
        """Returns the map that holds `key`, and its name there. Raises KeyError if missing."""
        *path, last = str(key).split(".")
        node: Any = self
        for part in path:
            node = _held(node).get(_resolved(node, part))
            if not isinstance(node, DotTree):
                raise KeyError(key)
        name = _resolved(node, last)
        if name not in _held(node):
            raise KeyError(key)
        return _held(node), name

    def get(self, key: "str | int") -> Any:
        """Returns the value or tree named `key`. Raises KeyError if it is missing.

        -k is the number k before the next number: -1 is the largest.

        Args:
            key: The name, or an int.
        """
        held, name = self._find(key)
        return held[name]

    def __getitem__(self, key: "str | int") -> Any:
        return self.get(key)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_map":
            raise AttributeError(name)
        try:
            return self.get(name)
        except KeyError:
            known = ", ".join(self._map) or "nothing"
            raise AttributeError(f"The collection has no {name!r}; it has {known}.") from None

    def __contains__(self, key: Any) -> bool:
        try:
            self._find(key)
            return True
        except KeyError:
            return False

    def pop(self, key: "str | int") -> Any:
        """Removes a value or tree and returns it. Raises KeyError if it is missing.

        Args:
            key: The name, or an int.
        """
        held, name = self._find(key)
        return held.pop(name)

    def _clear(self) -> None:
        """Removes all values, but not the trees, to which others may have references."""
        _drop_leaves(self)

    def to_dict(self) -> "dict[str, Leaf]":
        """Returns all values by dotted name, in the order of insertion."""
        out: dict[str, Leaf] = {}
        for key, value in self._map.items():
            if isinstance(value, DotTree):
                out.update({f"{key}.{inner}": leaf for inner, leaf in value.to_dict().items()})
            else:
                out[key] = value
        return out

    @classmethod
    def from_dict(cls, values: "Mapping[Any, Leaf | DotTree[Leaf]]") -> Self:
        """Makes a collection of values by dotted names or ints.

        Args:
            values: The values, by dotted name or int.

        Raises:
            ValueError: A name is that of a value and of a tree.
        """
        tree = cls()
        for key, value in values.items():
            parts = str(key).split(".")
            for count in range(1, len(parts)):
                above = ".".join(parts[:count])
                if above in tree and not isinstance(tree.get(above), DotTree):
                    raise ValueError(f"{above!r} is a value and cannot contain {key!r}.")
            tree.insert(key, value, overwrite=len(parts) > 1)
        return tree

    @classmethod
    def pack(cls, keys: Iterable[str], values: "Iterable[Leaf]") -> Self:
        """Makes a collection of `values` named `keys`; excess keys or values are ignored.

        Args:
            keys: The names.
            values: The values, in the order of the names.
        """
        return cls.from_dict(dict(zip(keys, values, strict=False)))

    def unpack(self) -> "tuple[Any, Any]":
        """Returns names and values, sorted by name."""
        items = sorted(self.to_dict().items())
        if not items:
            return [], []
        return tuple(k for k, _ in items), tuple(v for _, v in items)

    def update(self, values: "DotTree[Leaf] | Mapping[str, Leaf]", overwrite: bool = False) -> None:
        """Adds a copy of the top entries of `values`. Raises ValueError if a name exists.

        Args:
            values: The collection or mapping to add.
            overwrite: Whether existing names may be replaced.
        """
        for key, value in _held(_copied(values, type(self))).items():
            self.insert(key, value, overwrite)

    def copy(self) -> Self:
        """Returns a collection of the same values with copied trees."""
        return self.map(lambda value: value)

    def filter_keys(self, keys: "Iterable[str | int]") -> Self:
        """Returns a collection of the values and trees that `keys` name, in their order.

        Args:
            keys: The names.

        Raises:
            ValueError: A key is given twice.
            KeyError: A key is missing.
        """
        wanted, out = [str(key) for key in keys], type(self)()
        if len(set(wanted)) < len(wanted):
            raise ValueError(f"Each key can be named once, but got {wanted}.")
        for key in wanted:
            value = self.get(key)
            out.insert(key, value.copy() if isinstance(value, DotTree) else value, overwrite=True)
        return out

    def keys(self) -> list[str]:
        """Returns the names of values and trees at the top."""
        return list(self._map.keys())

    def values(self) -> list[Any]:
        """Returns the values and trees at the top."""
        return list(self._map.values())

    def keys_flat(self) -> list[str]:
        """Returns the dotted names of all values."""
        return list(self.to_dict().keys())

    def values_flat(self) -> "list[Leaf]":
        """Returns all values."""
        return list(self.to_dict().values())

    def len(self) -> int:
        """Returns the number of values and trees at the top."""
        return len(self._map)

    def len_flat(self) -> int:
        """Returns the number of all values."""
        return len(self.to_dict())

    def map(self, fn: "Callable[[Leaf], Any]") -> Self:
        """Returns a collection with `fn` applied to every value.

        Args:
            fn: The function of one value.
        """
        out = type(self)()
        for key, value in self._map.items():
            out.insert(key, value.map(fn) if isinstance(value, DotTree) else fn(value))
        return out

    def to_mapping(self, other: "DotTree[Any]") -> "dict[Leaf, Any]":
        """Returns {value: value of `other` with the same name}, for names that both have.

        Args:
            other: The collection with the other values.
        """
        return to_mapping(self, other)

    def __repr__(self) -> str:
        return repr(self.to_dict())


def _copied(values: "DotTree | Mapping[str, Any]", kind: type[DotTree]) -> DotTree:
    return values.copy() if isinstance(values, DotTree) else kind.from_dict(values)


def _drop_leaves(tree: DotTree) -> None:
    for key, value in tuple(_held(tree).items()):
        if isinstance(value, DotTree):
            _drop_leaves(value)
        else:
            del _held(tree)[key]
