"""DotTree: a collection of named values, nested by the dots of their names."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

Leaf = TypeVar("Leaf")


def _parts(key: "str | int") -> list[str]:
    parts = str(key).split(".") if not isinstance(key, int) else [str(key)]
    for part in parts:
        if not (part.isidentifier() or part.lstrip("-").isdigit()):
            raise ValueError(f"{key!r} is no key: its parts must be identifiers or numbers.")
    return parts


class DotTree(Generic[Leaf]):
    """Values by name. "a.b" is value "b" of the tree "a"; attributes work as well as items.

    Trees are kept by reference: what is inserted later into a nested tree shows in the outer one.
    """

    def __init__(self) -> None:
        object.__setattr__(self, "_map", {})

    _map: "dict[str, Any]"

    def insert(
        self, key: "str | int", value: "Leaf | DotTree[Leaf]", overwrite: bool = False
    ) -> Any:
        """Adds a value or tree; returns it. ValueError: the key is taken or no name."""
        *path, last = _parts(key)
        node = self
        for part in path:
            child = _held(node).setdefault(part, type(self)())
            if not isinstance(child, DotTree):
                raise ValueError(f"{part!r} of {key!r} is a value, not a collection.")
            node = child
        if last in _held(node) and not overwrite:
            raise ValueError(f"{key!r} is already in the collection.")
        _held(node)[last] = value
        return value

    def _find(self, key: "str | int") -> Any:
        node: Any = self
        for part in _parts(key):
            if not isinstance(node, DotTree):
                raise KeyError(key)
            node = _held(node)[_resolved(node, part)]
        return node

    def get(self, key: "str | int", default: Any = None) -> Any:
        """The value or tree called `key`, else `default`. Negative ints count from the largest."""
        try:
            return self._find(key)
        except KeyError:
            return default

    def __getitem__(self, key: "str | int") -> Any:
        return self._find(key)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self._map[name]
        except KeyError:
            known = ", ".join(self._map) or "nothing"
            raise AttributeError(f"The collection has no {name!r}; it has {known}.") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self.insert(name, value, overwrite=True)

    def __contains__(self, key: object) -> bool:
        try:
            self._find(key)  # type: ignore[arg-type]
            return True
        except (KeyError, ValueError):
            return False

    def pop(self, key: "str | int") -> Any:
        """Removes a value or tree and returns it. KeyError when there is none."""
        *path, last = _parts(key)
        node = self._find(".".join(path)) if path else self
        return _held(node).pop(_resolved(node, last))

    def to_dict(self) -> "dict[str, Leaf]":
        """All values by dotted name, in the order in which they were inserted."""
        out: dict[str, Leaf] = {}
        for key, value in self._map.items():
            if isinstance(value, DotTree):
                out.update({f"{key}.{inner}": leaf for inner, leaf in value.to_dict().items()})
            else:
                out[key] = value
        return out

    @classmethod
    def from_dict(cls, values: "Mapping[str, Leaf]") -> "DotTree[Leaf]":
        """The collection of these values."""
        tree = cls()
        for key, value in values.items():
            tree.insert(key, value)
        return tree

    @classmethod
    def pack(cls, names: Iterable[str], values: "Iterable[Leaf]") -> "DotTree[Leaf]":
        """The collection of `values`, called `names`."""
        return cls.from_dict(dict(zip(names, values, strict=True)))

    def unpack(self) -> "tuple[tuple[str, ...], tuple[Leaf, ...]]":
        """Names and values, sorted by name."""
        items = sorted(self.to_dict().items())
        return tuple(k for k, _ in items), tuple(v for _, v in items)

    def update(self, other: "DotTree[Leaf] | Mapping[str, Leaf]") -> None:
        """Adds all values of `other`. ValueError when a name is taken."""
        values = other.to_dict() if isinstance(other, DotTree) else other
        for key, value in values.items():
            self.insert(key, value)

    def copy(self) -> "DotTree[Leaf]":
        """A collection of the same values with trees of its own."""
        return self.from_dict(self.to_dict())

    def filter_keys(self, keys: "Iterable[str]") -> "DotTree[Leaf]":
        """The collection of those values whose name is, or is inside, one of `keys`."""
        wanted = tuple(keys)
        return self.from_dict(
            {
                k: v
                for k, v in self.to_dict().items()
                if any(k == w or k.startswith(f"{w}.") for w in wanted)
            }
        )

    def keys(self) -> Iterable[str]:
        """Names of values and trees at the top."""
        return self._map.keys()

    def values(self) -> Iterable[Any]:
        """Values and trees at the top."""
        return self._map.values()

    def items(self) -> "Iterable[tuple[str, Any]]":
        """Names with values and trees at the top."""
        return self._map.items()

    def keys_flat(self) -> Iterable[str]:
        """Dotted names of all values."""
        return self.to_dict().keys()

    def values_flat(self) -> "Iterable[Leaf]":
        """All values."""
        return self.to_dict().values()

    def __len__(self) -> int:
        return len(self._map)

    def len_flat(self) -> int:
        """The number of all values."""
        return len(self.to_dict())

    def __iter__(self) -> Iterator[str]:
        return iter(self._map)

    def map(self, fn: "Callable[[Leaf], Any]") -> "DotTree[Any]":
        """The collection of `fn` of every value."""
        return type(self).from_dict({k: fn(v) for k, v in self.to_dict().items()})

    def to_mapping(self, other: "DotTree[Any]") -> "dict[Leaf, Any]":
        """{value: the value that `other` has under the same name}, for names that both have."""
        theirs = other.to_dict()
        return {v: theirs[k] for k, v in self.to_dict().items() if k in theirs}

    def __repr__(self) -> str:
        return repr(self.to_dict())


def _held(tree: DotTree) -> dict[str, Any]:
    """Values and trees at the top: the only attribute, as all other names are the users'."""
    return vars(tree)["_map"]


def _resolved(tree: DotTree, part: str) -> str:
    if part.startswith("-"):  # from the end
        numbers = sorted(int(key) for key in _held(tree) if key.isdigit())
        if int(part) >= -len(numbers):
            return str(numbers[int(part)])
    return part
