"""Digests of objects, by which a loader notices what the program has changed in its data set."""

import collections
import functools
import hashlib
import pickle
import sys
import types
import zlib
from collections.abc import Iterable
from typing import Any

import torch
import torch.utils.data
from poptorch._impl.data import host_rng

numpy = host_rng.numpy
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_LARGEST = 256 << 20  # bytes of tensors and arrays that a digest reads completely
_SAMPLE = 64 << 10  # bytes that it reads of each further one
_MOST_OBJECTS = 1_000_000
# The attributes of a torch DataLoader that its workers get. Others change in every pass.
_OF_LOADERS = ("dataset", "sampler", "batch_sampler", "collate_fn", "worker_init_fn", "generator")
# Attributes that change without the program.
_IGNORED = ("__weakref__", "_poptorch_digest")


def digest(*objects: Any) -> bytes:
    """Returns a digest of the objects and of everything they refer to.

    Two digests in one process are equal unless the program has changed something in between. Of
    tensors and arrays beyond 256 MiB it sees new objects, torch's writes, and a sample. Objects of
    compiled classes without attributes are compared by identity.
    """
    walk = _Walk()
    for value in objects:
        walk.add(value)
    return walk.result()


class _Walk:
    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._seen: dict[int, int] = {}
        self._held: list[Any] = []  # keeps ids of temporary objects valid
        self._bytes = 0
        self._waiting: list[Any] = []

    def add(self, value: Any) -> None:
        """Adds an object and everything it refers to."""
        self._waiting.append(value)
        while self._waiting:
            held = self._waiting.pop()
            try:
                self._visit(held)
            except Exception:  # of the object's methods
                self._say(id(held))

    def result(self) -> bytes:
        return self._hash.digest()

    def _say(self, *parts: Any) -> None:
        self._hash.update(repr(parts).encode(errors="surrogatepass"))

    def _visit(self, value: Any) -> None:
        kind = type(value)
        if kind in _PLAIN:
            self._say(kind.__name__, value)
            return
        known = self._seen.get(id(value))
        if known is not None or len(self._seen) >= _MOST_OBJECTS:
            self._say("known", known if known is not None else id(value))
            return
        self._seen[id(value)] = len(self._seen)
        self._held.append(value)
        self._say(kind.__module__, kind.__qualname__)
        if isinstance(value, torch.Tensor):
            self._visit_tensor(value)
        elif numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
            self._visit_array(value)
        elif (state := host_rng.state_of(value)) is not None:
            self._waiting.append(state)
        elif isinstance(value, torch.utils.data.DataLoader):
            self._waiting += [getattr(value, name, None) for name in _OF_LOADERS]
        else:
            self._waiting += self._parts_of(value)

    def _parts_of(self, value: Any) -> Iterable[Any]:
        """Returns what the object refers to; adds what is known of it otherwise."""
        if isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType)):
            self._say(id(value))
            return ()
        if isinstance(value, types.FunctionType):
            return self._parts_of_function(value)
        if isinstance(value, types.MethodType):
            return value.__func__, value.__self__
        if isinstance(value, functools.partial):
            return value.func, value.args, value.keywords
        found: list[Any] = []
        if isinstance(value, (list, tuple, set, frozenset, collections.deque)):
            found += self._items(value)
        elif isinstance(value, dict):
            found += (*self._items(value), *self._items(value.values()))
        elif _is_opaque(type(value)):
            self._say(_identity(value))
            return ()
        found += _attributes(value)
        return found

    def _parts_of_function(self, value: types.FunctionType) -> Iterable[Any]:
        self._say(id(value.__code__))
        cells = value.__closure__ or ()
        held = [cell.cell_contents for cell in cells if _is_full(cell)]
        return (*held, value.__defaults__, value.__kwdefaults__)

    def _items(self, items: Any) -> Iterable[Any]:
        self._say(len(items))
        if set(map(type, items)).issubset(_PLAIN):
            values = sorted(items, key=repr) if isinstance(items, (set, frozenset)) else items
            self._hash.update(pickle.dumps(list(values)))
            return ()
        return items

    def _visit_tensor(self, value: torch.Tensor) -> None:
        with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
            self._say(tuple(value.shape), str(value.dtype))
            try:
                size = value.numel() * value.element_size()
                if not self._reads(size):
                    self._say(id(value), value._version)
                    value = value.flatten()[: _SAMPLE // max(1, value.element_size())]
                flat = value.detach().cpu().contiguous().flatten().view(torch.uint8)
                content: Any = flat.numpy()
                self._say(zlib.crc32(content))
            except Exception:  # sparse, quantised and other tensors without such memory
                self._say(id(value), getattr(value, "_version", 0))

    def _visit_array(self, value: Any) -> None:
        self._say(value.shape, str(value.dtype))
        if value.dtype.hasobject:
            self._waiting += value.flatten().tolist()
            return
        if isinstance(value, numpy.memmap) or not self._reads(value.nbytes):
            self._say(id(value))
            value = value.flat[: _SAMPLE // max(1, value.itemsize)]
        content: Any = numpy.ascontiguousarray(value).reshape(-1).view(numpy.uint8)
        self._say(zlib.crc32(content))

    def _reads(self, size: int) -> bool:
        self._bytes += size
        return self._bytes <= _LARGEST


def _attributes(value: Any) -> list[Any]:
    """Returns names and values of the object's attributes and slots."""
    found: list[Any] = []
    for name, held in getattr(value, "__dict__", {}).items():
        if name not in _IGNORED:
            found += (name, held)
    for base in type(value).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", *_IGNORED) and hasattr(value, name):
                found += (name, getattr(value, name))
    return found


def _is_opaque(kind: type) -> bool:
    """Returns whether objects of the class are compared by identity, or by their own equality."""
    root = kind.__module__.partition(".")[0]
    if root in sys.stdlib_module_names and not (
        root == "collections" or kind is types.SimpleNamespace
    ):
        return True
    return not any("__dict__" in base.__dict__ or "__slots__" in base.__dict__
                   for base in kind.__mro__[:-1])  # fmt: skip


def _identity(value: Any) -> int:
    try:
        return hash(value)
    except TypeError:
        return id(value)


def _is_full(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
