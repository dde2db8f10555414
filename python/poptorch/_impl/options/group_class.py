"""The base class of option groups: attributes, repr, freezing, copies and drafts."""

import copy
import difflib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from poptorch._impl.inspection.source_lines import user_location
from poptorch._impl.options.rows import RECORDED, Row, make_setter
from poptorch._impl.options.stored_values import State, add_values, state_of
from poptorch_core import Error

_Group = TypeVar("_Group", bound="OptionGroup")
_PLAIN = (int, str, list, dict)  # for other types, the option's check decides


class OptionGroup:
    """Holds the values of one table of options; raises for unknown names and wrong types."""

    ROWS: tuple[Row, ...] = ()
    ROW_OF: dict[str, Row] = {}  # by attribute

    def __init_subclass__(cls, **keywords) -> None:
        super().__init_subclass__(**keywords)
        # The first row of an attribute counts.
        cls.ROW_OF = {name: row for row in reversed(cls.ROWS) for name in row.values()}
        for row in cls.__dict__.get("ROWS", ()):
            if row.name not in cls.__dict__:  # a method in the class has precedence
                method = make_setter(row)
                method.__qualname__ = f"{cls.__name__}.{row.name}"
                setattr(cls, row.name, method)

    def __init__(self, **groups: "OptionGroup") -> None:
        state = State({}, groups)
        for row in self.ROWS:
            if not row.created and row.session is None:
                state.values.update(copy.deepcopy(row.values()))
        state.share_session()
        self.__dict__["_state"] = state

    def _take(self, name: str, values: Callable[[], dict[str, Any]]) -> None:
        """Stores values of an option; adds its name and the user's line to errors."""
        state = state_of(self)
        state.check_free()
        try:
            store(self, values())
        except (Error, AssertionError, ValueError) as error:
            if state.effects is not None:  # the reader of an option file adds the line
                raise
            text = error.message if isinstance(error, Error) else str(error)
            raise type(error)(f"{text} ({name}, given at {user_location()})") from None

    def _assign(self, name: str, value: Any) -> None:
        """Assigns an option after its setter's checks. Raises AssertionError for other types."""
        row = self._row(name)
        default = row.values()[name]
        if isinstance(default, _PLAIN):
            if not isinstance(value, type(default)):
                raise AssertionError(
                    f"Unexpected type {type(value)} for option {name}: expected {type(default)}."
                )
        if type(value) is type(default) and value == default:
            self._take(name, lambda: {name: copy.deepcopy(default)})
        else:
            self._take(name, lambda: row.assigned(self, name, value))

    def _exchange(self, name: str, group: Any) -> None:
        """Replaces a subgroup; launchers use classes that derive from the group's class."""
        state = state_of(self)
        state.check_free()
        base = type(state.groups[name]).__name__
        if not any(kind.__name__ == base for kind in type(group).__mro__):
            raise AssertionError(
                f"Unexpected type {type(group)} for {name}: expected {type(state.groups[name])}."
            )
        state.groups[name] = group
        state.share_session()

    if not TYPE_CHECKING:  # type checkers know the names; this would allow all others, too

        def __getattr__(self, name: str):
            state = self.__dict__.get("_state")
            for named in (state.values, state.groups) if state else ():
                if name in named:
                    return named[name]
            row = self._find_row(name) if state else None
            if row is not None and row.session is not None:
                return row.value(self, name)
            raise self._invalid(name)

        def __setattr__(self, name: str, value) -> None:
            own = name[0] == "_" and self._find_row(name) is None
            if name == "__class__" or (own and hasattr(type(self), name)):
                object.__setattr__(self, name, value)
            elif name in state_of(self).groups:
                self._exchange(name, value)
            elif own:
                raise AttributeError(f"Invalid private attribute {name}")
            else:
                self._assign(name, value)

    def _invalid(self, name: str) -> AttributeError:
        state = self.__dict__.get("_state") or State({})
        known = [*state.values, *state.groups, *(row.name for row in self.ROWS)]
        close = difflib.get_close_matches(name, known, 1)
        hint = f" Did you mean {close[0]}?" if close else ""
        if any(name == row.name for row in self.ROWS):
            hint = f" It is a method: call {name}(...)."
        for path, group in state.groups.items():
            if any(name == row.name for row in group.ROWS):
                hint = f" Did you mean {path}.{name}?"
        return AttributeError(f"Invalid attribute {name}.{hint}")

    def _find_row(self, attribute: str) -> Row | None:
        return self.ROW_OF.get(attribute)

    def _row(self, attribute: str) -> Row:
        row = self._find_row(attribute)
        if row is None:
            raise self._invalid(attribute)
        return row

    def __call__(self, option: str) -> Any:
        """Returns the value of an option.

        Raises:
            AssertionError: The option does not exist.
        """
        if not self.exists(option):
            raise AssertionError(f"Invalid option {option}. Call exists() before.")
        return state_of(self).values[option]

    def set(self, **values: Any) -> None:
        """Assigns options by name.

        Raises:
            AssertionError: An option does not exist, or a value is of a wrong type.
        """
        for name, value in values.items():
            self._replace(name, value, self(name))

    def createOrSet(self, **values: Any) -> None:
        """Assigns options by name and creates missing ones, which the compilation checks.

        Raises:
            AssertionError: A value is of a wrong type.
        """
        for name, value in values.items():
            if self._find_row(name) is not None:
                self._assign(name, value)
            elif self.exists(name):
                self._replace(name, value, self(name))
            else:
                state_of(self).store({name: value})

    def _replace(self, name: str, value: Any, former: Any) -> None:
        if self._find_row(name) is not None:
            return self._assign(name, value)
        if not isinstance(value, type(former)):
            raise AssertionError(
                f"Unexpected type {type(value)} for option {name}: expected {type(former)}."
            )
        return state_of(self).store({name: value})

    def exists(self, name: str) -> bool:
        """Returns whether an option of that name exists."""
        return name in state_of(self).public()

    def deleteIfExists(self, name: str) -> None:
        """Removes an option.

        Raises:
            AttributeError: The options are frozen.
        """
        self.checkIsFrozen()
        if self.exists(name):
            del state_of(self).values[name]

    def toDict(self) -> dict[str, Any]:
        """Returns a copy of the values by name."""
        return copy.deepcopy(state_of(self).public())

    def update(self, other_dict: dict[str, Any]) -> dict[str, Any]:
        """Adds the values to a dict and returns that dict.

        Raises:
            AssertionError: The dict has one of the names already.
        """
        add_values(other_dict, OptionGroup.toDict(self))
        return other_dict

    def checkIsFrozen(self, option: str | None = None) -> None:
        """Raises AttributeError if the options are frozen."""
        state_of(self).check_free()

    def _freeze(self) -> None:
        state_of(self).freeze()

    def _unfreeze(self) -> None:
        state_of(self).freeze(False)

    def __deepcopy__(self: _Group, memo: dict) -> _Group:
        """Returns a copy that is not frozen."""
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        made.__dict__["_state"] = state_of(self).copied(memo)
        return made

    def __repr__(self) -> str:
        """Returns the options that differ from their defaults."""
        state = state_of(self)
        defaults = {name: value for row in self.ROWS for name, value in row.values().items()}
        shown = {n: repr(v) for n, v in state.values.items() if repr(v) != repr(defaults.get(n))}
        groups = {name: repr(group) for name, group in state.groups.items()}
        shown |= {name: text for name, text in groups.items() if not text.endswith("()")}
        values = ", ".join(f"{name.lstrip('_')}={text}" for name, text in shown.items())
        return f"{type(self).__name__.lstrip('_')}({values})"


def store(group: OptionGroup, values: dict[str, Any]) -> None:
    """Stores checked values by attribute; None deletes an attribute of a row with `created`."""
    state = state_of(group)
    state.check_free()
    for name, value in values.items():
        row = group.ROW_OF[name]
        if row.session is not None:
            row.session.record(state.session, value)
        elif row.created and value is None:
            state.values.pop(name, None)
        else:
            state.values[name] = value


def value_of(group: OptionGroup, attribute: str) -> Any:
    """Returns an option's value, or its default if it was not set."""
    return group.ROW_OF[attribute].value(group, attribute)


def groups_of(options: OptionGroup) -> dict[str, OptionGroup]:
    """Returns the options and their subgroups by the prefix of setters: "", "Training."."""
    return {"": options, **{f"{name}.": g for name, g in state_of(options).groups.items()}}


def draft_of(options: _Group) -> _Group:
    """Returns a copy to change; take() applies its values and its setters' side effects at once."""
    made = copy.deepcopy(options)
    effects: list[Callable[[], object]] = []
    for group in groups_of(made).values():
        state_of(group).effects = effects
    return made


def take(options: OptionGroup, draft: OptionGroup) -> None:
    """Applies a draft to its options. Raises AttributeError if they are frozen."""
    for path, group in groups_of(draft).items():
        state_of(groups_of(options)[path]).become(state_of(group))
    for effect in state_of(draft).effects or ():
        effect()


def differing(options: OptionGroup) -> dict[str, Any]:
    """Returns the values that are not the defaults, by dotted name."""
    found: dict[str, Any] = {}
    for path, group in groups_of(options).items():
        for row in group.ROWS:
            for name, default in row.values().items():
                if (value := value_of(group, name)) != default:
                    found[path + name.lstrip("_")] = value
    return found


def recorded(options: OptionGroup) -> dict[str, Any]:
    """Returns the values that were set but have an effect only on hardware, by dotted name."""
    rows = [(path, group, row) for path, group in groups_of(options).items() for row in group.ROWS]
    used = {  # session options that have an effect
        name
        for _, group, row in rows
        if row.session is not None and row.effect != RECORDED
        for name in row.session.write(value_of(group, *row.values()))
    }
    found: dict[str, Any] = {}
    for path, group, row in rows:
        if row.effect != RECORDED or (row.session is not None and not row.session.replaces):
            continue
        for name, default in row.values().items():
            value = value_of(group, name)
            if row.session is not None:
                keys = [key for key in value if key not in used]
                value = {k: value[k] for k in keys if k not in default or value[k] != default[k]}
                default = {}
            if value != default:
                found[path + name] = value
    return found
