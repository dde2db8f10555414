"""What a row of the option table is, and the class that a table makes.

A row gives an option's setter, default, check, documentation and where it takes effect; the
methods, attributes, repr, freezing and copies of the options classes come from the rows alone.
"""

import copy
import difflib
import functools
import inspect
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from poptorch._impl.locations import user_location
from poptorch._logging import logger
from poptorch_core import Error

# Where an option takes effect.
COMPILE = "compilation"
RUN = "run time"
HOST = "host"
RECORDED = "recorded only: the emulator's values do not depend on it"
PENDING = "nothing yet: setting it logs a warning"


def snake_case(name: str) -> str:
    """deviceIterations → device_iterations, autoRoundNumIPUs → auto_round_num_ipus."""
    name = re.sub(r"IPUs?|IO", lambda m: m[0].capitalize(), name)
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


@dataclass(frozen=True)
class Row:
    """One option. `check(value)` gives the value to store or raises.

    `setter(options, *arguments)`, instead of `check`, gives all values to store as a dict, for
    options that are more than one value; `defaults` are their defaults, and
    `assign(options, attribute, value)` gives what to store when one of them is assigned.
    `inside`, of an option that names a folder: its argument, and what gives the folder that a file
    of options must stay in (see option_files.py).
    """

    name: str
    default: Any
    check: Callable[[Any], Any] | None
    effect: str
    doc: str
    attribute: str = ""
    argument_default: Any = ...  # of the setter's argument; ... when it is required
    setter: Callable[..., dict] | None = None
    defaults: dict[str, Any] | None = None
    assign: Callable[[Any, str, Any], dict] | None = None
    inside: tuple[str, Callable[[Any], str]] | None = None

    def values(self) -> dict[str, Any]:
        """Attribute name → default."""
        if self.defaults is not None:
            return self.defaults
        return {self.attribute or snake_case(self.name): self.default}

    def assigned(self, options: Any, attribute: str, value: Any) -> dict[str, Any]:
        """What to store when the attribute is assigned, after the setter's own checks."""
        if self.assign is not None:
            return self.assign(options, attribute, value)
        return {attribute: getattr(self.check, "of_stored", self.check)(value)}


LARGEST = 2**31 - 1  # products of two such numbers are numbers of 64 bits


def whole(least: int, most: int = LARGEST) -> Callable:
    """Accepts whole numbers of a range."""

    def check(value):
        assert isinstance(value, int) and not isinstance(value, bool), (
            f"[options] expected an integer but got {value!r}."
        )
        if not least <= value <= most:
            raise ValueError(
                f"[options] expected a whole number from {least} to {most} but got {value}."
            )
        return value

    return check


def positive_int(value):
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= LARGEST:
        raise Error(
            f"[options] expected a positive integer but got {value!r}. Pass 1 to {LARGEST}."
        )
    return value


def boolean(value):
    if not isinstance(value, bool):
        raise ValueError(f"[options] expected True or False but got {value!r}.")
    return value


def optional_boolean(value):
    return value if value is None else boolean(value)


def strings(value):
    """Accepts several strings, but not one: it would be taken for its letters."""
    is_list = isinstance(value, Iterable) and not isinstance(value, str)
    assert is_list and all(isinstance(item, str) for item in value), (
        f"[options] expected a list of strings but got {value!r}."
    )
    return list(value)


def string(value):
    assert isinstance(value, str), f"[options] expected a string but got {value!r}."
    return value


def file_name(value):
    """Accepts what can be a part of a file's name."""
    string(value)
    bad = [c for c in value if c in "/\\" or not c.isprintable()]
    if bad or value in (".", "..") or len(value.encode()) > 200:
        raise ValueError(
            f"[options] expected a name of up to 200 bytes without / and \\, as files are named "
            f"after it, but got {value!r}."
        )
    return value


def folder(value):
    """Accepts a path, or None."""
    assert value is None or isinstance(value, (str, os.PathLike)), (
        f"[options] expected a folder or None but got {value!r}."
    )
    return value


def member(enum: type[IntEnum]) -> Callable:
    """Accepts members of one enumeration; stores their number."""

    def check(value):
        assert isinstance(value, enum), (
            f"[options] expected a member of {enum.__name__} but got {value!r}."
        )
        return int(value)

    check.of_stored = lambda value: number_in(enum, value)
    return check


def number_in(enum: type[IntEnum], value) -> int:
    """The number of a member, which may be given as its number."""
    if isinstance(value, bool) or value not in list(enum):
        names = ", ".join(f"{enum.__name__}.{name}" for name in enum.__members__)
        raise ValueError(f"[options] expected one of {names} but got {value!r}.")
    return int(value)


def _make_setter(row: Row) -> Callable:
    if row.setter is not None:

        def method(self, *arguments, **keywords):
            self._take(row.name, lambda: row.setter(self, *arguments, **keywords))
            return self

        parameters = list(inspect.signature(row.setter).parameters.values())
        first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        method.__signature__ = inspect.Signature([first, *parameters[1:]])

    elif row.argument_default is ...:

        def method(self, value):
            self._take(row.name, lambda: dict.fromkeys(row.values(), row.check(value)))
            return self

    else:

        def method(self, value=row.argument_default):
            self._take(row.name, lambda: dict.fromkeys(row.values(), row.check(value)))
            return self

    if row.effect == PENDING:
        method = _with_warning(method, row.name)
    method.__name__ = row.name
    defaults = ", ".join(f"{value!r}" for value in row.values().values())
    method.__doc__ = f"{row.doc}\n\nDefault: {defaults}. Takes effect at: {row.effect}."
    return method


def _with_warning(method: Callable, name: str) -> Callable:
    @functools.wraps(method)
    def warning_method(self, *arguments, **keywords):
        logger.warning(f"Option {name} has no effect in this version")
        return method(self, *arguments, **keywords)

    warning_method.__wrapped__ = method  # whose signature it has
    return warning_method


_STATE = ("_frozen", "_effects")  # of an object itself: copies have their own


class OptionGroup:
    """Holds the values of one table. Unknown names and wrong types are refused."""

    ROWS: tuple[Row, ...] = ()

    def __init_subclass__(cls, **keywords) -> None:
        super().__init_subclass__(**keywords)
        for row in cls.__dict__.get("ROWS", ()):
            if row.name not in cls.__dict__:  # a method written by hand wins
                method = _make_setter(row)
                method.__qualname__ = f"{cls.__name__}.{row.name}"
                setattr(cls, row.name, method)

    def __init__(self) -> None:
        values = {}
        for row in self.ROWS:
            values.update(copy.deepcopy(row.values()))
        self.__dict__.update(_values=values, _frozen=False, _effects=None)

    def _check_free(self) -> None:
        if self._frozen:
            raise AttributeError("Can't modify frozen Options")

    def _store(self, values: dict[str, Any]) -> None:
        self._check_free()
        self._values.update(values)

    def _take(self, name: str, values: Callable[[], dict[str, Any]]) -> None:
        """Stores values of an option; an error says which it is and where it was given."""
        self._check_free()
        try:
            self._store(values())
        except (Error, AssertionError, ValueError) as error:
            if self._effects is not None:  # whoever reads the file says where
                raise
            text = error.message if isinstance(error, Error) else str(error)
            raise type(error)(f"{text} ({name}, given at {user_location()})") from None

    def _when_taken(self, effect: Callable[[], None]) -> None:
        """Something that a setter does beyond storing: now, or when the draft is taken."""
        if self._effects is None:
            effect()
        else:
            self._effects.append(effect)

    def _draft(self):
        """A copy to change, which `_adopt` takes over at once, with what setters do beside."""
        made = copy.deepcopy(self)
        effects: list[Callable] = []
        for group in (made, *made._subgroups().values()):
            group.__dict__["_effects"] = effects
        return made

    def _adopt(self, draft: "OptionGroup") -> None:
        self._check_free()
        for name, group in draft._subgroups().items():
            self._subgroups()[name]._store(group._values)
        self._store(draft._values)
        for effect in draft._effects:
            effect()

    def __getattr__(self, name: str):
        values = self.__dict__.get("_values", {})
        if name in values:
            return values[name]
        raise self._invalid(name)

    def _invalid(self, name: str) -> AttributeError:
        known = [*self.__dict__.get("_values", {}), *(row.name for row in self.ROWS)]
        close = difflib.get_close_matches(name, [*known, *self._subgroups()], 1)
        hint = f" Did you mean {close[0]}?" if close and close[0] != name else ""
        for path, group in self._subgroups().items():
            if any(name == row.name for row in group.ROWS):
                hint = f" Did you mean {path}.{name}?"
        return AttributeError(f"Invalid attribute {name}.{hint}")

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

    def _row(self, attribute: str) -> Row:
        for row in self.ROWS:
            if attribute in row.values():
                return row
        raise self._invalid(attribute)

    def _subgroups(self) -> dict[str, "OptionGroup"]:
        return {k: v for k, v in self.__dict__.items() if isinstance(v, OptionGroup)}

    def _recorded(self, prefix: str = "") -> dict[str, Any]:
        """By dotted name, what was set of the options that only hardware could honour."""
        found = {}
        for row in self.ROWS:
            if row.effect == RECORDED:
                for name, default in row.values().items():
                    if self._values[name] != default:
                        found[prefix + name] = self._values[name]
        for name, group in self._subgroups().items():
            found.update(group._recorded(f"{prefix}{name}."))
        return found

    def _freeze(self) -> None:
        self.__dict__["_frozen"] = True
        for group in self._subgroups().values():
            group._freeze()

    def _describe(self) -> dict[str, Any]:
        return {**self._values, **self._subgroups()}

    def __deepcopy__(self, memo):
        """A copy that is not frozen."""
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        made.__dict__.update(
            {k: copy.deepcopy(v, memo) for k, v in self.__dict__.items() if k not in _STATE}
        )
        made.__dict__.update(_frozen=False, _effects=None)
        return made

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self._describe().items())
        return f"{type(self).__name__.lstrip('_')}({values})"
