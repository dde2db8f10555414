"""The modules and parameters of a model, by path, as torch's named_modules() and others list them.

torch's generators pass each item through all levels of the model. A compilation lists the members
many times, so a native object makes all lists in one walk, and walks again only if the model has
changed.
"""

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch
from poptorch_core import _torch

_LISTS = ("named_modules", "named_parameters", "named_buffers", "_named_members")
# Whether a class has torch's methods. The classes of wrapped models end with their wrappers.
_plain_classes: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()
# `lists`: by model and kind of member, inside listed_once(), where those of kind "" have been
# compared with the model; `models`: by model, inside kept().
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

    The body must not change which members a model has. It may run code of the user only in
    listed_again().
    """
    outer = getattr(_known, "lists", None)
    if outer is None:
        _known.lists = {}
    try:
        yield
    finally:
        _known.lists = outer


@contextlib.contextmanager
def listed_again() -> Iterator[None]:
    """Makes listed_once() forget what it has listed, before the body and after it."""
    outer = getattr(_known, "lists", None)
    _known.lists = None
    try:
        yield
    finally:
        if outer is not None:
            outer.clear()
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
    found = _lists_of(model).listed(kind, not remove_duplicate, _is_unchanged(model))
    if found is None:
        return getattr(model, method)(remove_duplicate=remove_duplicate)
    if lists is not None:
        lists[key] = model, found
    return found


def _is_unchanged(model: torch.nn.Module) -> bool:
    """Returns whether the model has been compared with its lists; the caller is about to do so."""
    lists = getattr(_known, "lists", None)
    if lists is None or getattr(_known, "models", None) is None:
        return False
    known = (id(model), "") in lists
    lists[id(model), ""] = model, []
    return known


class Tensors(NamedTuple):
    """The parameters or buffers of a module at an earlier time. kind: "_parameters", "_buffers"."""

    module: torch.nn.Module
    kind: str
    before: dict[str, torch.Tensor | None]


def changed_tensors(model: torch.nn.Module) -> Callable[[], list[Tensors]]:
    """Returns a function that returns the former tensors of those modules that have others then."""
    held = _lists_of(model).held(_is_unchanged(model))
    if held is not None:
        return lambda: [Tensors(*changed) for changed in held.changed()]
    all_tensors = [
        Tensors(module, kind, dict(vars(module)[kind]))
        for _, module in named_modules(model)
        for kind in ("_buffers", "_parameters")
        if isinstance(vars(module).get(kind), dict)  # a script module's cannot be replaced
    ]
    return lambda: [each for each in all_tensors if _is_changed(*each)]


def _is_changed(module: torch.nn.Module, kind: str, before: dict) -> bool:
    now = vars(module).get(kind, {})
    return len(now) != len(before) or any(now.get(n, ...) is not t for n, t in before.items())


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
