"""Makes random nested structures of many kinds of containers, and describes them for comparison."""

import argparse
import collections
import dataclasses
import enum
import random
import types
from typing import Any, NamedTuple

import poptorch
import torch
from torch.utils import _pytree as trees


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Pair(NamedTuple):
    left: Any
    right: Any


class Triple(Pair):
    """A named tuple whose subclass has another constructor, and attributes."""

    def __new__(cls, left):
        made = super().__new__(cls, left, 3)
        made.note = "made"
        return made


class Counted(tuple):
    """A tuple with its own __new__, and attributes."""

    def __new__(cls, count, *items):
        made = super().__new__(cls, items)
        made.count = count
        return made


class Tagged(list):
    """A list with attributes, whose constructor takes other arguments."""

    def __init__(self, tag, mask, items):
        super().__init__(items)
        self.tag, self.mask = tag, mask


class ByName(dict):
    """A dict whose items are attributes, by __getattr__ and __setattr__."""

    def __getattr__(self, name):
        if name not in self:
            raise AttributeError(name)
        return self[name]

    def __setattr__(self, name, value):
        self[name] = value


class OwnDict(dict):
    """A dict that is its own __dict__."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.__dict__ = self


class Loud(dict):
    """A dict whose constructor and item access do more than a dict's."""

    def __init__(self, name, **items):
        super().__init__(items)
        self.name = name

    def __getitem__(self, key):
        return super().__getitem__(key.lower())


@dataclasses.dataclass
class Plain:
    a: Any
    b: int = 3
    c: Any = None


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: Any
    b: Any = dataclasses.field(default=None, init=False)


@dataclasses.dataclass(slots=True)
class Slotted:
    a: Any
    b: str = "b"


@dataclasses.dataclass
class Output(collections.OrderedDict):
    """A dataclass that is an OrderedDict of its fields, as result classes of libraries are."""

    loss: Any = None
    logits: Any = None

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if getattr(self, field.name) is not None:
                self[field.name] = getattr(self, field.name)


class Batch:
    """An object with attributes, private ones and a property."""

    def __init__(self, x, y):
        self._store = {"x": x}
        self.y = y
        self.count = 2

    @property
    def x(self):
        return self._store["x"]


class Leaf:
    __slots__ = ("_weight", "extra")

    def __init__(self, weight):
        self._weight = weight


class Child:
    """An object that refers to the object that holds it."""

    def __init__(self, parent, value):
        self.parent, self.value = parent, value


class Parent:
    def __init__(self, value):
        self.child = Child(self, value)


class Registered:
    """A type in torch's pytree registry."""

    def __init__(self, value, kind):
        self.value, self.kind = value, kind


@dataclasses.dataclass
class RegisteredData:
    a: Any
    b: Any


class Parsed:
    """A type with a parser of the program."""

    def __init__(self, a, b):
        self.a, self.b = a, b


class ParsedParser(poptorch.ICustomArgParser):
    def yieldTensors(self, struct):
        yield struct.a

    def reconstruct(self, original_structure, tensor_iterator):
        return Parsed(next(tensor_iterator), original_structure.b)


trees.register_pytree_node(
    Registered, lambda r: ([r.value], {"kind": r.kind}), lambda v, c: Registered(v[0], c["kind"])
)
trees.register_dataclass(RegisteredData)
poptorch.registerCustomArgParser(Parsed, ParsedParser())

CONSTANTS = (None, True, 3, 2.5, "word", Colour.RED, torch.float16, (1, "a"), [], {}, b"x", {1, 2})


class Maker:
    """Makes the structure of a seed, with the tensors that `tensor` returns for its numbers."""

    def __init__(self, seed, tensor):
        self._random, self._tensor, self._count = random.Random(seed), tensor, 0

    def structure(self, depth=3):
        """Returns a random structure of at most `depth` levels."""
        if depth == 0 or self._random.random() < 0.2:
            return self.leaf()
        return self._random.choice(MAKERS)(lambda: self.structure(depth - 1), self.tensor)

    def leaf(self):
        if self._random.random() < 0.3:
            chosen = self._random.choice(CONSTANTS)
            return type(chosen)(chosen) if isinstance(chosen, (list, dict, set)) else chosen
        return self.tensor()

    def tensor(self):
        self._count += 1
        return self._tensor(self._count)


def _defaulting(part, _):
    made = collections.defaultdict(list, a=part())
    made["b"].append(part())
    return made


def _noted(part, tensor):
    made = types.SimpleNamespace(a=part(), mask=tensor())
    made.note = "later"
    return made


def _output_of_one(part, _):
    made = Output(loss=part())
    made.extra = part()
    return made


def _leaf_with_extra(part, tensor):
    made = Leaf(tensor())
    made.extra = part()
    return made


MAKERS = (
    lambda part, _: (part(), part()),
    lambda part, _: [part(), part()],
    lambda part, _: {"a": part(), 2: part()},
    lambda part, _: collections.OrderedDict(z=part(), a=part()),
    lambda part, _: Pair(part(), part()),
    lambda part, _: Triple(part()),
    lambda part, tensor: Counted(4, part(), tensor()),
    lambda part, tensor: Tagged("tag", tensor(), [part(), part()]),
    lambda part, tensor: ByName(x=tensor(), y=part()),
    lambda part, tensor: OwnDict(x=tensor(), y=part()),
    lambda part, _: Loud("name", a=part()),
    _defaulting,
    lambda part, tensor: collections.deque([part(), tensor(), part()], maxlen=2),
    lambda part, _: Plain(part(), c=part()),
    lambda part, _: Frozen(part()),
    lambda part, _: Slotted(part()),
    lambda part, tensor: Output(loss=tensor(), logits=part()),
    _output_of_one,
    _noted,
    lambda part, _: argparse.Namespace(a=part(), b=part()),
    lambda part, _: collections.UserDict(a=part(), b=part()),
    lambda part, _: collections.UserList([part(), part()]),
    lambda part, _: collections.ChainMap({"a": part()}, {"b": part()}),
    lambda part, _: Batch(part(), part()),
    lambda _, tensor: Leaf(tensor()),
    _leaf_with_extra,
    lambda part, _: Parent(part()),
    lambda part, _: Registered(part(), "kind"),
    lambda part, tensor: RegisteredData(part(), tensor()),
    lambda _, tensor: Parsed(tensor(), 5),
    lambda part, tensor: torch.return_types.max((tensor(), tensor())),
    lambda part, _: (torch.Size([2, 3]), part()),
)  # fmt: skip


def described(value, tensors, seen=None):
    """Returns types, items and attributes as plain data; appends the tensors to a list."""
    seen = {} if seen is None else seen
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return "tensor", tuple(value.shape), str(value.dtype)
    if type(value) in (type(None), bool, int, float, str, bytes, Colour, torch.dtype, type):
        return value
    if isinstance(value, (set, frozenset)):
        return type(value), value
    if id(value) in seen:
        return "seen", seen[id(value)]
    if not isinstance(value, tuple):
        seen[id(value)] = len(seen)
    made = [type(value)]
    if isinstance(value, dict):
        made.append([(k, described(v, tensors, seen)) for k, v in dict.items(value)])
    elif isinstance(value, (list, tuple, collections.deque)):
        made.append([described(item, tensors, seen) for item in value])
    if isinstance(value, collections.defaultdict):
        made.append(value.default_factory)
    if isinstance(value, collections.deque):
        made.append(value.maxlen)
    attributes = object.__getattribute__(value, "__dict__") if _has_dict(value) else {}
    slots = [n for n in getattr(type(value), "__slots__", ()) if hasattr(value, n)]
    made.append([(n, described(getattr(value, n), tensors, seen)) for n in slots])
    if attributes is value:
        return (*made, "its own __dict__")
    return (*made, sorted((n, described(v, tensors, seen)) for n, v in attributes.items()))


def _has_dict(value):
    try:
        object.__getattribute__(value, "__dict__")
    except AttributeError:
        return False
    return True
