"""What a group of options holds: its values, and the session options of all groups together.

A value's name that begins with an underscore is known to programs that look inside, but is none of
those that toDict() and exists() tell of.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Session:
    """How an option is kept as session options, which `opts._Popart.options` has.

    write: what the option's value makes of them by name. A dict is added to what is there by its
    name; None removes what is.
    read: the option's value, of all of them. KeyError where they say nothing of it.
    replaces: what `write` gives is all that there is.
    """

    write: Callable[[Any], dict[str, Any]]
    read: Callable[[dict[str, Any]], Any]
    replaces: bool = False

    def record(self, session: dict[str, Any], value: Any) -> None:
        """Writes a value into the session options."""
        if self.replaces:
            session.clear()
        for name, said in self.write(value).items():
            if said is None:
                session.pop(name, None)
            elif isinstance(said, dict) and not self.replaces:
                session[name] = {**session.get(name, {}), **said}
            else:
                session[name] = said


def recorded_as(name: str, kind: Callable[[Any], Any] = bool) -> Session:
    """Kept under one name; kind: makes the option's value of what is there."""
    return Session(lambda value: {name: value}, lambda session: kind(session[name]))


@dataclass
class State:
    """What a group of options holds."""

    values: dict[str, Any]  # by attribute
    groups: dict[str, Any] = field(default_factory=dict)  # those within it
    session: dict[str, Any] = field(default_factory=dict)  # one dict of all groups
    frozen: bool = False
    # What setters do beyond storing waits here until a draft is taken; None: it is done at once.
    effects: list[Callable[[], object]] | None = None

    def check_free(self) -> None:
        """Raises AttributeError where nothing may change any more."""
        if self.frozen:
            raise AttributeError("Can't modify frozen Options")

    def store(self, values: dict[str, Any]) -> None:
        """Takes values that are checked."""
        self.check_free()
        self.values.update(values)

    def freeze(self, frozen: bool = True) -> None:
        """From now on nothing changes, in the groups within it neither; or it does again."""
        self.frozen = frozen
        for group in self.groups.values():
            state_of(group).freeze(frozen)

    def share_session(self) -> None:
        """The groups within it have their session options in common, with it."""
        for group in self.groups.values():
            self.session.update(state_of(group).session)
            state_of(group).session = self.session

    def become(self, other: "State") -> None:
        """Takes everything but the groups over."""
        self.check_free()
        for mine, others in ((self.values, other.values), (self.session, other.session)):
            if mine is not others:
                mine.clear()
                mine.update(others)

    def when_taken(self, effect: Callable[[], object]) -> None:
        """Something that a setter does beyond storing: now, or when the draft is taken."""
        if self.effects is None:
            effect()
        else:
            self.effects.append(effect)

    def public(self) -> dict[str, Any]:
        """The values that programs are told of."""
        return {name: value for name, value in self.values.items() if name[0] != "_"}

    def copied(self, memo: dict) -> "State":
        """One that is not frozen."""
        return State(*copy.deepcopy((self.values, self.groups, self.session), memo))


def state_of(group: Any) -> State:
    """What a group of options holds, for us: users see attributes."""
    return group.__dict__["_state"]


def add_values(into: dict[str, Any], values: dict[str, Any]) -> None:
    """Adds options to others. Raises AssertionError for names that are there."""
    twice = sorted(into.keys() & values.keys())
    if twice:
        raise AssertionError(f"Options of the same name: {twice}.")
    into.update(values)
