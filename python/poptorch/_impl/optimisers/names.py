"""Names of parameters that stay the same in all wrappers that share an optimiser."""

import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from poptorch._impl.weights import members
from poptorch._impl.wrapper.state import Wrapper, wrapper_state

_UNKNOWN: tuple[Callable[[], None], str] = (lambda: None, "")


class Names:
    """The names of an optimiser's parameters in its state_dict, and the wrappers that use it.

    A parameter has the name of the first wrapper with this parameter. If the wrappers name several
    parameters alike, the later ones get a number: `fc.weight#2`.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref, str]] = {}  # by the id of the parameter
        self._holders: dict[str, weakref.ref] = {}  # parameter by name
        self._wrappers: list[weakref.ref] = []

    def wrappers(self) -> list[Wrapper]:
        """Returns the wrappers that use the optimiser."""
        return [wrapper for held in self._wrappers if (wrapper := held()) is not None]

    def join(self, wrapper: Wrapper) -> dict[str, str]:
        """Adds a wrapper. Returns new names by former ones, if no other wrapper uses them."""
        others = [other for other in self.wrappers() if other is not wrapper]
        if not others and self._names_exactly(wrapper):
            self._wrappers = [weakref.ref(wrapper)]
            return {}
        former = {} if others else self._known
        if not others:
            self._known, self._holders, self._wrappers = {}, {}, []
        if wrapper not in others and all(held() is not wrapper for held in self._wrappers):
            self._wrappers.append(weakref.ref(wrapper))
        renamed = {}
        for name, parameter in named_parameters(wrapper):
            now = self._name(parameter, name)
            held, before = former.get(id(parameter), (None, now))
            if held is not None and held() is parameter and before != now:
                renamed[before] = now
        return renamed

    def leave(self, wrapper: Wrapper) -> None:
        """Removes a wrapper. The names stay."""
        self._wrappers = [held for held in self._wrappers if held() not in (None, wrapper)]

    def of(self, wrapper: Wrapper) -> dict[str, str]:
        """Returns the names of a wrapper's parameters by those in its model."""
        found = {}
        for name, tensor in named_parameters(wrapper):
            held, known = self._known.get(id(tensor), _UNKNOWN)
            found[name] = known if held() is tensor else self._name(tensor, name)
        return found

    def in_groups(self, optimizer: torch.optim.Optimizer) -> list[list[str]]:
        """Returns the known names of the parameters of each group."""
        return [
            [
                name
                for tensor in group["params"]
                for held, name in (self._known.get(id(tensor), (None, "")),)
                if held is not None and held() is tensor
            ]
            for group in optimizer.param_groups
        ]

    def is_known(self, name: str) -> bool:
        """Returns whether a living parameter has the name."""
        held = self._holders.get(name)
        return held is not None and held() is not None

    def _names_exactly(self, wrapper: Wrapper) -> bool:
        """Returns whether the wrapper's parameters are all known ones, by their names in it."""
        parameters = list(named_parameters(wrapper))
        if len(parameters) != len(self._known) or len(parameters) != len(self._holders):
            return False
        for name, parameter in parameters:
            held, known = self._known.get(id(parameter), _UNKNOWN)
            if held() is not parameter or known != name:
                return False
        return True

    def _name(self, parameter: torch.Tensor, wanted: str) -> str:
        held, name = self._known.get(id(parameter), (None, wanted))
        if held is not None and held() is parameter:
            return name
        name, number = wanted, 1
        while self.is_known(name):
            number += 1
            name = f"{wanted}#{number}"
        self._known[id(parameter)] = weakref.ref(parameter), name
        self._holders[name] = weakref.ref(parameter)
        return name


def named_parameters(wrapper: Wrapper) -> Iterable[tuple[str, torch.Tensor]]:
    """Returns name and tensor of the model's parameters, without fetching weights."""
    return members.named_parameters(wrapper_state(wrapper).wrapped.trained_model)


def all_renamed(entries: Mapping[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """Returns entries of `ipu_state` or `ipu_param` with other names of their parameters."""
    changed = {before: now for before, now in names.items() if before != now}
    if not changed:
        return dict(entries)
    return {renamed(key, changed): value for key, value in entries.items()}


def renamed(key: str, names: dict[str, str]) -> str:
    """Returns a key of `ipu_state` or `ipu_param` with another name of its parameter."""
    start, parameter = parts(key)
    return start + names.get(parameter, parameter)


def parts(key: str) -> tuple[str, str]:
    """Divides a key of `ipu_state` or `ipu_param` into its beginning and its parameter's name.

    The name is empty for a key that belongs to no parameter.
    """
    for mark in ("___specific___", "___"):
        start, found, parameter = key.partition(mark)
        if found:
            return start + found, parameter
    return key, ""
