"""The states of a sampler and the samplers that it holds, as plain data.

A sampler with `state_dict()` and `load_state_dict()` defines its state. The state of others is the
random generators among its attributes. If the class is not torch's, attributes that are numbers or
texts are included.
"""

import copy
from collections.abc import Iterator
from typing import Any

import torch.utils.data
from poptorch._impl.data import host_rng
from poptorch._impl.data.object_digest import digest
from poptorch_core import Error

States = dict[str, dict[str, Any]]
_SAMPLERS = ("sampler", "batch_sampler", "_batches")  # attributes that count as samplers


def is_torchs(sampler: Any) -> bool:
    """Returns whether it draws a whole pass at its beginning, like torch's samplers."""
    return all(
        type(part).__module__.startswith(("torch.utils.data", "poptorch."))
        or isinstance(part, (range, list, tuple))
        for _, part in _parts(sampler)
    )


def states(sampler: Any) -> States:
    """Returns the states by path: "" for the sampler, "sampler.batches" for nested attributes."""
    return {place: _state(part) for place, part in _parts(sampler)}


def iterator_in(sampler: Any) -> Any:
    """Returns the sampler, or one that it holds, that is an iterator; None if there is none."""
    return next((part for _, part in _parts(sampler) if hasattr(part, "__next__")), None)


def name_of(sampler: Any) -> str:
    """Returns the class of the innermost sampler, which is usually the user's."""
    return type([part for _, part in _parts(sampler)][-1]).__name__


def check(sampler: Any, states: States) -> None:
    """Raises poptorch.Error if the states belong to different samplers."""
    parts = dict(_parts(sampler))
    for place, state in states.items():
        part = parts.get(place)
        if part is None or state["class"] != type(part).__name__:
            got = "none" if part is None else f"a {type(part).__name__}"
            raise Error(
                f"[data] the loader had a {state['class']} as sampler{place and ' ' + place} when "
                f"its state was saved, but now has {got}. Create the same sampler."
            )


def restore(sampler: Any, states: States) -> None:
    """Restores the states of the samplers."""
    parts = dict(_parts(sampler))
    for place, state in states.items():
        part = parts[place]
        if state["own"] is not None:
            part.load_state_dict(copy.deepcopy(state["own"]))
        for name, value in state["values"].items():
            setattr(part, name, value)
        for name, value in state["generators"].items():
            host_rng.restore_to(vars(part)[name], value)


def follow(states: States, before: States, now: States) -> None:
    """Replaces in `states` whatever differs between `before` and `now`."""
    for place, state in now.items():
        former = before.get(place)
        if former is None or place not in states or former["class"] != state["class"]:
            states[place] = copy.deepcopy(state)
            continue
        followed = states[place]
        for what, value in state.items():
            if isinstance(value, dict) and isinstance(followed[what], dict):
                for name in value:
                    if not equal(value[name], former[what].get(name)):
                        followed[what][name] = copy.deepcopy(value[name])
            elif not equal(value, former[what]):
                followed[what] = copy.deepcopy(value)
    for place in set(states) - set(now):
        del states[place]


def equal(one: Any, other: Any) -> bool:
    """Returns whether two states are equal."""
    return digest(one) == digest(other)


def _state(sampler: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "class": type(sampler).__name__, "own": None, "values": {}, "generators": {},
    }  # fmt: skip
    if _tells_its_state(sampler):
        found["own"] = copy.deepcopy(sampler.state_dict())
        return found
    for name, value in getattr(sampler, "__dict__", {}).items():
        generator = host_rng.state_of(value)
        if generator is not None:
            found["generators"][name] = generator
        elif type(value) in (bool, int, float, str) and not is_torchs(sampler):
            found["values"][name] = value
    return found


def _parts(sampler: Any) -> Iterator[tuple[str, Any]]:
    """Yields the sampler and those among its attributes by path, each once."""
    waiting, seen = [("", sampler)], set()
    while waiting:
        place, part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield place, part
        if _tells_its_state(part):
            continue
        for name, value in getattr(part, "__dict__", {}).items():
            held = isinstance(value, torch.utils.data.Sampler) or name in _SAMPLERS
            if held or _tells_its_state(value):
                waiting.append((f"{place}.{name}".lstrip("."), value))


def _tells_its_state(value: Any) -> bool:
    return all(callable(getattr(value, name, None)) for name in ("state_dict", "load_state_dict"))
