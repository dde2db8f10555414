"""The compiler's options as poptorch.Options has them, by the compiler's own table.

What its table gives a setter becomes a row here, with the table's default, range and documentation;
rows of special setters tell what they say (Row.says).
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from poptorch._impl.option_checks import boolean, one_of, optional_boolean, positive, whole
from poptorch._impl.option_group import OptionGroup, groups_of
from poptorch._impl.option_rows import COMPILE, Row
from poptorch_core._core import Option, option_table

Line: TypeAlias = tuple[str, str, dict[str, Any]]  # keyword, name, options by name

_SETTER = re.compile(r"((?P<group>\w+)\.)?(?P<name>\w+)\((?P<argument>\w+)(?P<default>=true)?\)")


def _check_of(option: Option) -> Callable[[Any], Any]:
    if option.type == "str":
        return one_of(option.words)
    if option.type == "int":
        least, most = option.least, option.most
        assert least is not None and most is not None, f"{option.name} has no range"
        return positive(most) if least == 1 else whole(least, most)
    return {"bool": boolean, "bool?": optional_boolean}[option.type]


def rows_of(group: str, table: Iterable[Option] | None = None) -> tuple[Row, ...]:
    """A row for each of the compiler's options with a setter in the group; "": in Options itself.

    table: the compiler's, where none is given.
    """
    rows = []
    for option in option_table() if table is None else table:
        setter = _SETTER.fullmatch(option.setter)
        if setter is None or (setter["group"] or "") != group:
            continue
        default = True if setter["default"] else ...
        rows.append(Row(setter["name"], option.default, _check_of(option), COMPILE, option.doc,
                        argument=setter["argument"], argument_default=default,
                        says=option.name))  # fmt: skip
    return tuple(rows)


def said_by(options: OptionGroup, keyword: str) -> dict[str, Any]:
    """What the compiler is told in "host" or "execution" options, by name. None is not told."""
    names = {option.name for option in option_table() if option.keyword == keyword}
    said = {name: value for group in groups_of(options).values() for name, value in _said(group)}
    return {name: value for name, value in said.items() if name in names}


def lines_of(options: OptionGroup) -> list[Line]:
    """Of the groups that options hold: where tensors of some kind live."""
    lines = []
    for group in groups_of(options).values():
        for name, value in _said(group):
            if isinstance(value, OptionGroup):
                keyword, _, kind = name.partition(" ")
                lines.append((keyword, kind, dict(_said(value))))
    return lines


def _said(group: OptionGroup) -> Iterator[tuple[str, Any]]:
    for row in group.ROWS:
        for name, value in row.said(group).items():
            if value is not None:
                yield name, value
