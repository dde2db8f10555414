"""The compiler's options as poptorch.Options has them, by the compiler's own table.

What its table gives a setter becomes a row here, with the table's default, range and documentation;
rows of special setters tell what they say (Row.says).
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from poptorch._impl.options.checks import (
    as_number,
    as_optional_number,
    boolean,
    even,
    one_of,
    optional_boolean,
    positive,
    whole,
)
from poptorch._impl.options.group_class import OptionGroup, groups_of
from poptorch._impl.options.rows import COMPILE, Row
from poptorch_core._core import Execution, Option, option_table

Line: TypeAlias = tuple[str, str, dict[str, Any]]  # keyword, name, options by name

_SETTER = re.compile(r"((?P<group>\w+)\.)?(?P<name>\w+)\((?P<argument>\w+)(?P<default>=true)?\)")


def _check_of(option: Option) -> Callable[[Any], Any]:
    if option.type == "str":
        return one_of(option.words)
    if option.type == "int":
        least, most = option.least, option.most
        if least is None or most is None:
            raise AssertionError(f"{option.name} has no range")
        if option.even:
            return even(least, most, option.allowed)
        return positive(most) if least == 1 else whole(least, most)
    return {"bool": boolean, "bool?": optional_boolean}[option.type]


def rows_of(
    group: str,
    table: Iterable[Option] | None = None,
    kept: Callable[[Option, str], dict[str, Any]] = lambda option, setter: {},
) -> tuple[Row, ...]:
    """A row for each of the compiler's options with a setter in the group; "": in Options itself.

    table: the compiler's, where none is given. kept: what the row of an option, of a setter's name,
    has otherwise, as it keeps the value.
    """
    rows = []
    for option in option_table() if table is None else table:
        setter = _SETTER.fullmatch(option.setter)
        if setter is None or (setter["group"] or "") != group:
            continue
        fields = {
            "default": option.default,
            "check": _check_of(option),
            "argument": setter["argument"],
            "argument_default": True if setter["default"] else ...,
            "says": option.name,
            **kept(option, setter["name"]),
        }
        rows.append(Row(setter["name"], effect=COMPILE, doc=option.doc, **fields))
    return tuple(rows)


def _of_location(option: Option, setter: str) -> dict[str, Any]:
    """Only what was set is there, by the setter's name, and truth values are numbers."""
    kept: dict[str, Any] = {"attribute": setter, "created": True}
    if option.type.startswith("bool"):
        kept["check"] = as_number if option.type == "bool" else as_optional_number
        kept["default"] = None if option.default is None else int(option.default)
    if setter == "useOnChipStorage":
        kept["attribute"] = "onChip"
    return kept


LOCATION_ROWS = rows_of("TensorLocationSettings", kept=_of_location)


def said_by(options: OptionGroup, keyword: str) -> dict[str, Any]:
    """What the compiler is told in "host" or "execution" options, by name. None is not told."""
    return dict(_said(options, {o.name for o in option_table() if o.keyword == keyword}))


# Execution answers questions from these options alone. The compilation checks the others.
_COUNTS = {"device_iterations", "gradient_accumulation", "replication_factor"}
_COUNTS |= {"input_group_size", "strategy"}


def execution_of(options: OptionGroup) -> Execution:
    """How often and by which strategy this process executes a model, for inference."""
    return Execution([("execution", "", dict(_said(options, _COUNTS)))])


def lines_of(options: OptionGroup) -> list[Line]:
    """Where tensors of some kind live: of TensorLocationSettings as dicts."""
    lines = []
    for name, value in _said(options):
        if isinstance(value, dict):
            keyword, _, kind = name.partition(" ")
            lines.append((keyword, kind, _location(value)))
    return lines


def _location(settings: dict[str, Any]) -> dict[str, Any]:
    return {
        str(row.says): _typed(str(row.says), settings[name])
        for row in LOCATION_ROWS
        for name in row.values()
        if name in settings
    }


def _said(options: OptionGroup, names: set[str] | None = None) -> Iterator[tuple[str, Any]]:
    """What rows say; with names, those alone, and no other row is asked."""
    for group in groups_of(options).values():
        for row in group.ROWS:
            if names is not None and names.isdisjoint(row.said_names()):
                continue
            for name, value in row.said(group).items():
                if value is not None and (names is None or name in names):
                    yield name, _typed(name, value)


def _typed(name: str, value: Any) -> Any:
    """Programs may read and write numbers where the compiler has truth values."""
    return bool(value) if name in _TRUTHS else value


_TRUTHS = {option.name for option in option_table() if option.type.startswith("bool")}
