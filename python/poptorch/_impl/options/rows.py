"""Rows of the option table, and the setters made from them.

A row has an option's setter, default, check, documentation, the time at which it takes effect, and
its value for the compiler. group_class.py makes classes from rows; core_table.py makes rows from
the compiler's table. types.pyi repeats the annotations of checks and setters for type checkers.
"""

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from poptorch._impl.options import argument_texts
from poptorch._impl.options.stored_values import Session, state_of

# When or where an option takes effect.
COMPILE = "compilation"
RUN = "run time"
HOST = "host"
RECORDED = "recorded only: the emulator's values do not depend on it"


@functools.cache
def snake_case(name: str) -> str:
    """deviceIterations → device_iterations, autoRoundNumIPUs → auto_round_num_ipus."""
    name = re.sub(r"IPUs?|IO", lambda m: m[0].capitalize(), name)
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


@dataclass(frozen=True)
class Row:
    """One option. `check(value)` returns the value to store or raises.

    `setter(options, *arguments)` replaces `check` for options of several values: it returns a dict
    of all values to store. `defaults` are their defaults, and `assign(options, attribute, value)`
    returns the values to store when one of them is assigned.
    `inside` is for options that name a folder: the argument's name, and a function that returns the
    folder that an option file must stay in (see parsing.py).
    `stored` is the type of the value if its default is None.
    `created`: the attribute exists only after it was set.
    `session`: how the option is kept in the session options, where the attribute is read from.
    `says` is for options of the compiler: the name of the compiler's option that gets the value, or
    a function for the value of each such option. If the value is a group, it is the keyword and
    name of the line that has the group's options.
    """

    name: str
    default: Any
    check: Callable[[Any], Any] | None
    effect: str
    doc: str
    attribute: str = ""
    argument: str = ""  # name of the setter's argument; the setter's name in snake case if empty
    argument_default: Any = ...  # ... when it is required
    setter: Callable[..., dict] | None = None
    defaults: dict[str, Any] | None = None
    assign: Callable[[Any, str, Any], dict] | None = None
    inside: tuple[str, Callable[[Any], str]] | None = None
    stored: Any = None
    created: bool = False
    session: Session | None = None
    says: str | Mapping[str, Callable[[Any], Any]] = ""

    def values(self) -> dict[str, Any]:
        """Returns the defaults by attribute."""
        if self.defaults is not None:
            return self.defaults
        return {self.attribute or snake_case(self.name): self.default}

    def assigned(self, options: Any, attribute: str, value: Any) -> dict[str, Any]:
        """Checks a value that is assigned to the attribute; returns the values to store."""
        if self.assign is not None:
            return self.assign(options, attribute, value)
        check = self.checked()
        return {attribute: getattr(check, "of_stored", check)(value)}

    def said_names(self) -> list[str]:
        """Returns the names of the compiler's options that the row sets."""
        return [self.says] if isinstance(self.says, str) else [*self.says]

    def said(self, options: Any) -> dict[str, Any]:
        """Returns the values of the compiler's options by name."""
        if not isinstance(self.says, str):
            return {name: value(options) for name, value in self.says.items()}
        return {self.says: self.value(options, *self.values())} if self.says else {}

    def value(self, options: Any, attribute: str) -> Any:
        """Returns the value that a group has, or the default if it was not set."""
        state, default = state_of(options), self.values()[attribute]
        if self.session is None:
            return state.values.get(attribute, default)
        try:
            return self.session.read(state.session)
        except (KeyError, TypeError, ValueError):  # a program may have recorded any value
            return default

    def checked(self) -> Callable[[Any], Any]:
        """Returns the check of a row that has one."""
        assert self.check is not None
        return self.check


def make_setter(row: Row) -> Callable:
    """Returns the method of an option group that the row describes."""
    signature = _signature(row)
    stored = row.setter or (lambda _, value: dict.fromkeys(row.values(), row.checked()(value)))

    def method(self, *arguments, **keywords):
        try:
            given = signature.bind(self, *arguments, **keywords)
        except TypeError as error:
            raise TypeError(f"{row.name}() {error}") from None
        given.apply_defaults()
        self._take(row.name, lambda: stored(*given.args))
        return self

    method.__signature__ = signature  # type: ignore[attr-defined]
    method.__name__ = row.name
    method.__doc__ = _docstring(row, [*signature.parameters][1:])
    return method


def _docstring(row: Row, arguments: list[str]) -> str:
    values = [getattr(value, "name", repr(value)) for value in row.values().values()]
    effect = f"Default: {', '.join(values) or 'none'}. Takes effect at: {row.effect}."
    lines = [row.doc, "", effect]
    if arguments:
        texts = argument_texts.TEXTS.get(row.name, {})
        allowed = getattr(row.check, "allowed", "")
        ranged = f" Allowed: {allowed}." if allowed else ""
        lines += ["", "Args:"]
        lines += [f"    {name}: {texts.get(name, row.doc)}{ranged}" for name in arguments]
    lines += ["", "Returns:", "    The options, so that calls can be chained."]
    lines += ["", "Raises:", "    AttributeError: The options are frozen: a wrapper uses them.",
              "    AssertionError: A value is of another type, or is not allowed.",
              "    poptorch.Error: A number is not in the range of the option."]  # fmt: skip
    return "\n".join(lines)


def _signature(row: Row) -> inspect.Signature:
    """Returns a setter's signature: that of the row's setter, or one argument as its check has."""
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if row.setter is not None:
        return inspect.Signature([this, *[*inspect.signature(row.setter).parameters.values()][1:]])
    (checked,) = inspect.signature(row.checked()).parameters.values()
    default = inspect.Parameter.empty if row.argument_default is ... else row.argument_default
    name = row.argument or snake_case(row.name)
    return inspect.Signature([this, checked.replace(name=name, default=default)])
