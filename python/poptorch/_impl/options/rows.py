"""What a row of the option table is, and the setter that it makes.

A row gives an option's setter, default, check, documentation and where it takes effect, and what
the compiler is told of it; option_group.py makes classes of rows, core_options.py rows of the
compiler's own table. For type checkers the annotations of checks and setters are written out in
types.pyi.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from poptorch._impl.options.stored_values import Session, state_of

# Where an option takes effect.
COMPILE = "compilation"
RUN = "run time"
HOST = "host"
RECORDED = "recorded only: the emulator's values do not depend on it"


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
    `created`: the attribute is there once it is set. `session`: how the option is kept among the
    session options, which makes the attribute one that is read from there.
    `says`, of an option that the compiler is told of: the name of the compiler's option that takes
    the value as it is, or what gives the value of each such option. Of a value that is a group, the
    keyword and name of the line that the group's options make.
    """

    name: str
    default: Any
    check: Callable[[Any], Any] | None
    effect: str
    doc: str
    attribute: str = ""
    argument: str = ""  # of the setter that has one; its own name in snake case if empty
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

    def said_names(self) -> list[str]:
        """The compiler's options that it says."""
        return [self.says] if isinstance(self.says, str) else [*self.says]

    def said(self, options: Any) -> dict[str, Any]:
        """What the values become for the compiler: option by name."""
        if not isinstance(self.says, str):
            return {name: value(options) for name, value in self.says.items()}
        return {self.says: self.value(options, *self.values())} if self.says else {}

    def value(self, options: Any, attribute: str) -> Any:
        """What a group has of it, or the default where it was not set."""
        state, default = state_of(options), self.values()[attribute]
        if self.session is None:
            return state.values.get(attribute, default)
        try:
            return self.session.read(state.session)
        except (KeyError, TypeError, ValueError):  # whatever a program may have recorded
            return default

    def checked(self) -> Callable[[Any], Any]:
        """The check, of a row that has one."""
        assert self.check is not None
        return self.check


def make_setter(row: Row) -> Callable:
    """The method of an option group that the row describes."""
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
    defaults = ", ".join(f"{value!r}" for value in row.values().values())
    method.__doc__ = f"{row.doc}\n\nDefault: {defaults}. Takes effect at: {row.effect}."
    return method


def _signature(row: Row) -> inspect.Signature:
    """Of a setter: the arguments of the row's own, or one of the type that its check takes."""
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if row.setter is not None:
        return inspect.Signature([this, *[*inspect.signature(row.setter).parameters.values()][1:]])
    (checked,) = inspect.signature(row.checked()).parameters.values()
    default = inspect.Parameter.empty if row.argument_default is ... else row.argument_default
    name = row.argument or snake_case(row.name)
    return inspect.Signature([this, checked.replace(name=name, default=default)])
