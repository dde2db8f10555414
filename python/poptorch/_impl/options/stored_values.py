"""The state of a group of options: its values, and the session options that all groups share.

toDict() and exists() leave out values whose name begins with an underscore. Some programs read
these values directly.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Session:
    """Conversion of an option to and from session options, which `opts._Popart.options` holds.

    write: returns session options by name from the option's value. A dict is merged into the
    existing one of that name; None removes the session option.
    read: returns the option's value from all session options; KeyError if it is not among them.
    replaces: the result of `write` replaces all session options.
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
    """Keeps an option as one session option; `kind` converts that to the option's value."""
    return Session(lambda value: {name: value}, lambda session: kind(session[name]))


@dataclass
class State:
    """The state of a group of options."""

    values: dict[str, Any]  # by attribute
    groups: dict[str, Any] = field(default_factory=dict)  # subgroups
    session: dict[str, Any] = field(default_factory=dict)  # one dict for all groups
    frozen: bool = False
    # In a draft: side effects of setters, which wait until take(). None: they happen at once.
    effects: list[Callable[[], object]] | None = None

    def check_free(self) -> None:
        """Raises AttributeError if the options are frozen."""
        if self.frozen:
            raise AttributeError("Can't modify frozen Options")

    def store(self, values: dict[str, Any]) -> None:
        """Stores checked values."""
        self.check_free()
        self.values.update(values)

    def freeze(self, frozen: bool = True) -> None:
        """Forbids, or allows again, changes of this group and its subgroups."""
        self.frozen = frozen
        for group in self.groups.values():
            state_of(group).freeze(frozen)

    def share_session(self) -> None:
        """Makes the subgroups share this group's session options."""
        for group in self.groups.values():
            self.session.update(state_of(group).session)
            state_of(group).session = self.session

    def become(self, other: "State") -> None:
        """Copies values and session options, but not subgroups, from another state."""
        self.check_free()
        for mine, others in ((self.values, other.values), (self.session, other.session)):
            if mine is not others:
                mine.clear()
                mine.update(others)

    def when_taken(self, effect: Callable[[], object]) -> None:
        """Runs a side effect of a setter: now, or when the draft is taken."""
        if self.effects is None:
            effect()
        else:
            self.effects.append(effect)

    def public(self) -> dict[str, Any]:
        """Returns the values whose name does not begin with an underscore."""
        return {name: value for name, value in self.values.items() if name[0] != "_"}

    def copied(self, memo: dict) -> "State":
        """Returns a copy that is not frozen."""
        return State(*copy.deepcopy((self.values, self.groups, self.session), memo))


def state_of(group: Any) -> State:
    """Returns the state of a group of options. Users see attributes instead."""
    return group.__dict__["_state"]


def add_values(into: dict[str, Any], values: dict[str, Any]) -> None:
    """Adds options to a dict. Raises AssertionError for names that are there already."""
    twice = sorted(into.keys() & values.keys())
    if twice:
        raise AssertionError(f"Options of the same name: {twice}.")
    into.update(values)
