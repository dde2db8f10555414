"""Rows of poptorch.Options from the compiler's option table.

Each option of that table with a setter becomes a row, with the table's default, range and
documentation. Rows of other setters name the compiler's options that they set (Row.says).
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Set
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


def check_named(name: str) -> Callable[[Any], Any]:
    """Returns the check of the compiler's option of a name, for setters of several values."""
    return next(_check_of(option) for option in option_table() if option.name == name)


def rows_of(
    group: str,
    table: Iterable[Option] | None = None,
    kept: Callable[[Option, str], dict[str, Any]] = lambda option, setter: {},
) -> tuple[Row, ...]:
    """Returns a row for each option of the compiler with a setter in the group.

    group: "" for the setters of Options itself. table: the compiler's table by default.
    kept: returns fields of the row, from the option and its setter's name, that replace these.
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
    """Returns the fields of a location's row: created when set, with booleans as numbers."""
    kept: dict[str, Any] = {"attribute": setter, "created": True}
    if option.type.startswith("bool"):
        kept["check"] = as_number if option.type == "bool" else as_optional_number
        kept["default"] = None if option.default is None else int(option.default)
    if setter == "useOnChipStorage":
        kept["attribute"] = "onChip"
    return kept


LOCATION_ROWS = rows_of("TensorLocationSettings", kept=_of_location)


def said_by(options: OptionGroup, keyword: str) -> dict[str, Any]:
    """Returns the compiler's "host" or "execution" options by name, without those that are None."""
    return dict(_said(options, _names_of(keyword)))


@functools.cache
def _names_of(keyword: str) -> frozenset[str]:
    return frozenset(option.name for option in option_table() if option.keyword == keyword)


# Execution needs only these options for its answers. The compilation checks the others.
_COUNTS = {"device_iterations", "gradient_accumulation", "replication_factor"}
_COUNTS |= {"input_group_size", "strategy"}


def execution_of(options: OptionGroup) -> Execution:
    """Returns the execution of a model for inference: batching factors and strategy."""
    return Execution([("execution", "", dict(_said(options, _COUNTS)))])


def lines_of(options: OptionGroup) -> list[Line]:
    """Returns the lines of tensor locations, from TensorLocationSettings as dicts."""
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


def _said(options: OptionGroup, names: Set[str] | None = None) -> Iterator[tuple[str, Any]]:
    """Yields the compiler's options that rows set; `names` selects options and skips other rows."""
    for group in groups_of(options).values():
        for row in group.ROWS:
            if names is not None and names.isdisjoint(row.said_names()):
                continue
            for name, value in row.said(group).items():
                if value is not None and (names is None or name in names):
                    yield name, _typed(name, value)


def _typed(name: str, value: Any) -> Any:
    """Converts numbers that programs store to the booleans that the compiler expects."""
    return bool(value) if name in _TRUTHS else value


_TRUTHS = {option.name for option in option_table() if option.type.startswith("bool")}
