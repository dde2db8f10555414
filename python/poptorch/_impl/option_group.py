"""The class that a table of options makes: attributes, repr, freezing, copies and drafts."""

import copy
import difflib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from poptorch._impl.locations import user_location
from poptorch._impl.option_rows import RECORDED, Row, make_setter
from poptorch_core import Error

_Group = TypeVar("_Group", bound="OptionGroup")


@dataclass
class State:
    """What a group of options holds."""

    values: dict[str, Any]  # by attribute
    groups: dict[str, "OptionGroup"] = field(default_factory=dict)  # those within it
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

    def freeze(self) -> None:
        """From now on nothing changes, in the groups within it neither."""
        self.frozen = True
        for group in self.groups.values():
            state_of(group).freeze()

    def when_taken(self, effect: Callable[[], object]) -> None:
        """Something that a setter does beyond storing: now, or when the draft is taken."""
        if self.effects is None:
            effect()
        else:
            self.effects.append(effect)

    def everything(self) -> dict[str, Any]:
        """Values and groups by name."""
        return {**self.values, **self.groups}

    def copied(self, memo: dict) -> "State":
        """One that is not frozen."""
        return State(copy.deepcopy(self.values, memo), copy.deepcopy(self.groups, memo))


class OptionGroup:
    """Holds the values of one table. Unknown names and wrong types are refused."""

    ROWS: tuple[Row, ...] = ()

    def __init_subclass__(cls, **keywords) -> None:
        super().__init_subclass__(**keywords)
        for row in cls.__dict__.get("ROWS", ()):
            if row.name not in cls.__dict__:  # a method written by hand wins
                method = make_setter(row)
                method.__qualname__ = f"{cls.__name__}.{row.name}"
                setattr(cls, row.name, method)

    def __init__(self, **groups: "OptionGroup") -> None:
        values: dict[str, Any] = {}
        for row in self.ROWS:
            values.update(copy.deepcopy(row.values()))
        self.__dict__["_state"] = State(values, groups)

    def _take(self, name: str, values: Callable[[], dict[str, Any]]) -> None:
        """Stores values of an option; an error says which it is and where it was given."""
        state = state_of(self)
        state.check_free()
        try:
            state.store(values())
        except (Error, AssertionError, ValueError) as error:
            if state.effects is not None:  # whoever reads the file says where
                raise
            text = error.message if isinstance(error, Error) else str(error)
            raise type(error)(f"{text} ({name}, given at {user_location()})") from None

    if not TYPE_CHECKING:  # which knows the names, and would take any other as well

        def __getattr__(self, name: str):
            state = self.__dict__.get("_state")
            for named in (state.values, state.groups) if state else ():
                if name in named:
                    return named[name]
            raise self._invalid(name)

        def __setattr__(self, name: str, value) -> None:
            if name == "__class__":
                object.__setattr__(self, name, value)
                return
            row = self._row(name)
            default = row.values()[name]
            assert default is None or isinstance(value, type(default)), (
                f"Unexpected type {type(value)} for option {name}: expected {type(default)}."
            )
            if type(value) is type(default) and value == default:
                self._take(name, lambda: {name: copy.deepcopy(default)})
            else:
                self._take(name, lambda: row.assigned(self, name, value))

    def _invalid(self, name: str) -> AttributeError:
        state = self.__dict__.get("_state") or State({})
        known = [*state.everything(), *(row.name for row in self.ROWS)]
        close = difflib.get_close_matches(name, known, 1)
        hint = f" Did you mean {close[0]}?" if close and close[0] != name else ""
        for path, group in state.groups.items():
            if any(name == row.name for row in group.ROWS):
                hint = f" Did you mean {path}.{name}?"
        return AttributeError(f"Invalid attribute {name}.{hint}")

    def _row(self, attribute: str) -> Row:
        for row in self.ROWS:
            if attribute in row.values():
                return row
        raise self._invalid(attribute)

    def __deepcopy__(self: _Group, memo: dict) -> _Group:
        """A copy that is not frozen."""
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        made.__dict__["_state"] = state_of(self).copied(memo)
        return made

    def __repr__(self) -> str:
        values = ", ".join(f"{k}={value!r}" for k, value in state_of(self).everything().items())
        return f"{type(self).__name__.lstrip('_')}({values})"


def state_of(group: OptionGroup) -> State:
    """What the group holds, for us: users see attributes."""
    return group.__dict__["_state"]


def groups_of(options: OptionGroup) -> dict[str, OptionGroup]:
    """The options and the groups within them by what stands before a setter: "", "Training."."""
    return {"": options, **{f"{name}.": g for name, g in state_of(options).groups.items()}}


def draft_of(options: _Group) -> _Group:
    """A copy to change, which take() takes over at once, with what setters do beside."""
    made = copy.deepcopy(options)
    effects: list[Callable[[], object]] = []
    for group in groups_of(made).values():
        state_of(group).effects = effects
    return made


def take(options: OptionGroup, draft: OptionGroup) -> None:
    """The options become what their draft is. Raises AttributeError if they are frozen."""
    for path, group in groups_of(draft).items():
        state_of(groups_of(options)[path]).store(state_of(group).values)
    for effect in state_of(draft).effects or ():
        effect()


def recorded(options: OptionGroup) -> dict[str, Any]:
    """By dotted name, what was set of the options that only hardware could honour."""
    return {
        path + name: getattr(group, name)
        for path, group in groups_of(options).items()
        for row in group.ROWS
        for name, default in row.values().items()
        if row.effect == RECORDED and getattr(group, name) != default
    }
