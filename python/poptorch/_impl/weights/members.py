"""The modules and parameters of a model, by path, as torch's named_modules() and others list them.

torch's generators pass each item through all levels of the model. A compilation lists the members
many times, so a native object makes all lists in one walk, and walks again only if the model has
changed.
"""

import contextlib
import threading
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from poptorch_core import _torch

_LISTS = ("named_modules", "named_parameters", "named_buffers", "_named_members")
# Whether a class has torch's methods. The classes of wrapped models end with their wrappers.
_plain_classes: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()
# `lists`: by model and kind of member, inside listed_once(); `models`: by model, inside kept().
_known = threading.local()


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Makes this thread keep the lists of each model's members until the end of the body.

    A list is made again if the model has changed. Former members live until then.
    """
    outer = getattr(_known, "models", None)
    if outer is None:
        _known.models = {}
    try:
        yield
    finally:
        _known.models = outer


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


def named_modules(
    model: torch.nn.Module, *, remove_duplicate: bool = True
) -> Iterable[tuple[str, torch.nn.Module]]:
    """Returns path and module of all modules, each once unless duplicates are asked for."""
    return _listed(model, "_modules", "named_modules", remove_duplicate)


def named_parameters(
    model: torch.nn.Module, *, remove_duplicate: bool = True
) -> Iterable[tuple[str, torch.Tensor]]:
    """Returns path and tensor of all parameters, without fetching weights."""
    return _listed(model, "_parameters", "named_parameters", remove_duplicate)


def named_buffers(
    model: torch.nn.Module, *, remove_duplicate: bool = True
) -> Iterable[tuple[str, torch.Tensor]]:
    """Returns path and tensor of all buffers, without fetching weights."""
    return _listed(model, "_buffers", "named_buffers", remove_duplicate)


def _listed(
    model: torch.nn.Module, kind: str, method: str, remove_duplicate: bool
) -> Iterable[tuple[str, Any]]:
    lists = getattr(_known, "lists", None)
    key = id(model), kind, remove_duplicate
    if lists is not None and key in lists:
        return lists[key][1]
    found = _lists_of(model).listed(kind, not remove_duplicate)
    if found is None:
        return getattr(model, method)(remove_duplicate=remove_duplicate)
    if lists is not None:
        lists[key] = model, found
    return found


def _lists_of(model: torch.nn.Module) -> _torch.MemberLists:
    models = getattr(_known, "models", None)
    if models is None:
        return _torch.MemberLists(model, _is_plain)
    if id(model) not in models:
        models[id(model)] = _torch.MemberLists(model, _is_plain)
    return models[id(model)]


def _is_plain(kind: type) -> bool:
    """Returns whether modules of a class list their members as torch.nn.Module does."""
    known = _plain_classes.get(kind)
    if known is None:
        known = not issubclass(kind, torch.jit.ScriptModule) and all(
            getattr(kind, name) is getattr(torch.nn.Module, name) for name in _LISTS
        )
        _plain_classes[kind] = known
    return known
