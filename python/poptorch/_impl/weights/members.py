"""The modules and parameters of a model, by path, as torch's named_modules() and others list them.

torch's generators pass each item through all levels of the model. A compilation lists the members
many times, so these functions build the list in one walk.
"""

import contextlib
import threading
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch

_LISTS = ("named_modules", "named_parameters", "named_buffers", "_named_members")
# Whether a class has torch's methods. The classes of wrapped models end with their wrappers.
_plain_classes: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()
_known = threading.local()  # `lists`: by model and kind of member, inside listed_once()


@contextlib.contextmanager
def listed_once() -> Iterator[None]:
    """Makes this thread list the members of each model at most once in the body.

    The body must neither run code of the user nor change which members a model has.
    """
    outer = getattr(_known, "lists", None)
    if outer is None:
        _known.lists = {}
    try:
        yield
    finally:
        _known.lists = outer


def named_modules(model: torch.nn.Module) -> Iterable[tuple[str, torch.nn.Module]]:
    """Returns path and module of all modules, each once."""
    found: list[tuple[str, torch.nn.Module]] = []
    if _walk(model, "", found, set()):
        return found
    return model.named_modules()


def named_parameters(model: torch.nn.Module) -> Iterable[tuple[str, torch.Tensor]]:
    """Returns path and tensor of all parameters, each once, without fetching weights."""
    return _named(model, "_parameters", "named_parameters")


def named_buffers(model: torch.nn.Module) -> Iterable[tuple[str, torch.Tensor]]:
    """Returns path and tensor of all buffers, each once, without fetching weights."""
    return _named(model, "_buffers", "named_buffers")


def _named(model: torch.nn.Module, kind: str, method: str) -> Iterable[tuple[str, torch.Tensor]]:
    lists = getattr(_known, "lists", None)
    if lists is not None and (id(model), kind) in lists:
        return lists[id(model), kind][1]
    modules: list[tuple[str, torch.nn.Module]] = []
    if not _walk(model, "", modules, set()):
        return getattr(model, method)()
    seen: set[int] = set()
    found = []
    for path, module in modules:
        members = module.__dict__[kind]
        for name, tensor in members.items() if members else ():
            if tensor is not None and id(tensor) not in seen:
                seen.add(id(tensor))
                found.append((f"{path}.{name}" if path else name, tensor))
    if lists is not None:
        lists[id(model), kind] = model, found
    return found


def _walk(module: Any, path: str, found: list[tuple[str, torch.nn.Module]], seen: set[int]) -> bool:
    """Adds a module and those inside; returns False if one lists its members in another way."""
    if id(module) in seen:
        return True
    if not _is_plain(type(module)):
        return False
    seen.add(id(module))
    found.append((path, module))
    children = module.__dict__["_modules"]
    for name, child in children.items() if children else ():
        inner = f"{path}.{name}" if path else name
        if child is not None and not _walk(child, inner, found, seen):
            return False
    return True


def _is_plain(kind: type) -> bool:
    """Returns whether modules of a class list their members as torch.nn.Module does."""
    known = _plain_classes.get(kind)
    if known is None:
        known = not issubclass(kind, torch.jit.ScriptModule) and all(
            getattr(kind, name) is getattr(torch.nn.Module, name) for name in _LISTS
        )
        _plain_classes[kind] = known
    return known
