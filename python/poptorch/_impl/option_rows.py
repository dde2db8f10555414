"""What a row of the option table is, and the class that a table makes.

A row gives an option's setter, default, check, documentation and where it takes effect; the
methods, attributes, repr, freezing and copies of the options classes come from the rows alone. For
type checkers the annotations of checks and setters are written out in option_types.pyi.
"""

import copy
import difflib
import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

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
    `stored` is the type of a value whose default None does not tell it.
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
    stored: Any = None

    def values(self) -> dict[str, Any]:
        """Attribute name → default."""
        if self.defaults is not None:
            return self.defaults
        return {self.attribute or snake_case(self.name): self.default}

    def assigned(self, options: Any, attribute: str, value: Any) -> dict[str, Any]:
        """What to store when the attribute is assigned, after the setter's own checks."""
        if self.assign is not None:
            return self.assign(options, attribute, value)
        check = self.checked()
        return {attribute: getattr(check, "of_stored", check)(value)}

    def checked(self) -> Callable[[Any], Any]:
        """The check, of a row that has one."""
        assert self.check is not None
        return self.check


def _unannotated(row: Row) -> Callable:
    if row.setter is not None:
        stored = row.setter

        def several(self, *arguments, **keywords):
            self._take(row.name, lambda: stored(self, *arguments, **keywords))
            return self

        return several
    check = row.checked()

    def one(self, value):
        self._take(row.name, lambda: dict.fromkeys(row.values(), check(value)))
        return self

    if row.argument_default is not ...:
        one.__defaults__ = (row.argument_default,)
    return one


def _make_setter(row: Row) -> Callable:
    method: Any = _unannotated(row)
    method.__signature__ = _signature(row, inspect.signature(method))
    if row.effect == PENDING:
        method = _with_warning(method, row.name)
    method.__name__ = row.name
    defaults = ", ".join(f"{value!r}" for value in row.values().values())
    method.__doc__ = f"{row.doc}\n\nDefault: {defaults}. Takes effect at: {row.effect}."
    return method


def _signature(row: Row, made: inspect.Signature) -> inspect.Signature:
    """That of a setter: the arguments of the row's own, or of `made` with the type of its check."""
    first, *rest = made.parameters.values()
    if row.setter is not None:
        rest = list(inspect.signature(row.setter).parameters.values())[1:]
    else:
        (checked,) = inspect.signature(row.checked()).parameters.values()
        rest = [rest[0].replace(annotation=checked.annotation)]
    return inspect.Signature([first, *rest])


def _with_warning(method: Callable, name: str) -> Callable:
    @functools.wraps(method)
    def warning_method(self, *arguments, **keywords):
        logger.warning(f"Option {name} has no effect in this version")
        return method(self, *arguments, **keywords)

    warning_method.__wrapped__ = method  # whose signature it has
    return warning_method


_Group = TypeVar("_Group", bound="OptionGroup")
_STATE = ("_frozen", "_effects")  # of an object itself: copies have their own


class OptionGroup:
    """Holds the values of one table. Unknown names and wrong types are refused."""

    ROWS: tuple[Row, ...] = ()
    _values: dict[str, Any]
    _frozen: bool
    _effects: list[Callable[[], object]] | None

    def __init_subclass__(cls, **keywords) -> None:
        super().__init_subclass__(**keywords)
        for row in cls.__dict__.get("ROWS", ()):
            if row.name not in cls.__dict__:  # a method written by hand wins
                method = _make_setter(row)
                method.__qualname__ = f"{cls.__name__}.{row.name}"
                setattr(cls, row.name, method)

    def __init__(self) -> None:
        values: dict[str, Any] = {}
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

    def _when_taken(self, effect: Callable[[], object]) -> None:
        """Something that a setter does beyond storing: now, or when the draft is taken."""
        if self._effects is None:
            effect()
        else:
            self._effects.append(effect)

    def _draft(self: _Group) -> _Group:
        """A copy to change, which `_adopt` takes over at once, with what setters do beside."""
        made = copy.deepcopy(self)
        effects: list[Callable[[], object]] = []
        for group in (made, *made._subgroups().values()):
            group.__dict__["_effects"] = effects
        return made

    def _adopt(self, draft: "OptionGroup") -> None:
        self._check_free()
        for name, group in draft._subgroups().items():
            self._subgroups()[name]._store(group._values)
        self._store(draft._values)
        for effect in draft._effects or ():
            effect()

    if not TYPE_CHECKING:  # which knows the names, and would take any other as well

        def __getattr__(self, name: str):
            values = self.__dict__.get("_values", {})
            if name in values:
                return values[name]
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
        known = [*self.__dict__.get("_values", {}), *(row.name for row in self.ROWS)]
        close = difflib.get_close_matches(name, [*known, *self._subgroups()], 1)
        hint = f" Did you mean {close[0]}?" if close and close[0] != name else ""
        for path, group in self._subgroups().items():
            if any(name == row.name for row in group.ROWS):
                hint = f" Did you mean {path}.{name}?"
        return AttributeError(f"Invalid attribute {name}.{hint}")

    def _row(self, attribute: str) -> Row:
        for row in self.ROWS:
            if attribute in row.values():
                return row
        raise self._invalid(attribute)

    def _subgroups(self) -> dict[str, "OptionGroup"]:
        return {k: v for k, v in self.__dict__.items() if isinstance(v, OptionGroup)}

    def _recorded(self, prefix: str = "") -> dict[str, Any]:
        """By dotted name, what was set of the options that only hardware could honour."""
        found: dict[str, Any] = {}
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

    def __deepcopy__(self: _Group, memo: dict) -> _Group:
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
