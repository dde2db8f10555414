"""Options as nested dicts of plain values, which JSON, YAML and Hydra can hold.

A key is the name of an attribute without underscores in front, or of a group. Members of
enumerations are texts, "OutputMode.All", as in Options.from_json; so are dtypes.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

import torch
from poptorch import enums
from poptorch._impl.options import parsing
from poptorch._impl.options.group_class import OptionGroup, groups_of, value_of
from poptorch._impl.options.rows import Row
from poptorch._impl.options.stored_values import state_of
from poptorch._impl.placement import strategy_dicts
from poptorch._impl.placement.strategies import ExecutionStrategy

# Stored as numbers, as in PopTorch.
_ENUMERATIONS: dict[str, type[Enum]] = {
    "output_mode": enums.OutputMode,
    "connection_type": enums.ConnectionType,
    "sync_pattern": enums.SyncPattern,
}


def to_dict(options: OptionGroup, only_set: bool) -> dict[str, Any]:
    """Returns the options as a nested dict.

    only_set: leaves out options that have their defaults.
    """
    found: dict[str, Any] = {}
    for path, group in groups_of(options).items():
        values = {}
        for row, attribute, default in _attributes(group):
            value, default = value_of(group, attribute), _plain(attribute, default)
            if _has_whole_session(row):
                rest = _unnamed_session(options)
                value = {n: v for n, v in rest.items() if not only_set or default.get(n) != v}
                default = {}
            value = _plain(attribute, value)
            is_missing = row.created and attribute not in state_of(group).values
            if not is_missing and not (only_set and value == default):
                values[_key(attribute)] = value
        if not path:
            found = values
        elif values:
            found[_key(path.rstrip("."))] = values
    return found


def apply(draft: OptionGroup, given: Mapping[str, Any]) -> None:
    """Assigns the options of a nested dict. Raises parsing.Refused or the checks' errors.

    draft: a draft of options: see group_class.draft_of.
    """
    if not isinstance(given, Mapping):  # YAML has None for a group without a line
        raise parsing.Refused(f"expected a dict of options but got {given!r}")
    groups = {_key(path.rstrip(".")): group for path, group in groups_of(draft).items()}
    nested = {name: given[name] for name in groups if name in given}
    nested[""] = {name: value for name, value in given.items() if name not in groups}
    # Session options come first: the rows of other groups merge their values into these.
    for name in sorted(nested, key=lambda name: name != "Popart"):
        values = nested[name]
        if not isinstance(values, Mapping):
            raise parsing.Refused(f"expected a dict of options for {name} but got {values!r}")
        _apply_group(groups[name], name, values, groups)


def _apply_group(
    group: OptionGroup, name: str, values: Mapping[str, Any], groups: dict[str, OptionGroup]
) -> None:
    known = {_key(attribute) for _, attribute, _ in _attributes(group)}
    for key in values:
        if key not in known:
            names = known if name else known | set(groups) - {""}
            hint = _owner_of(str(key), groups) or parsing.meant_by(str(key), names)
            raise parsing.Refused(f"there is no option {name and name + '.'}{key}{hint}")
    for row, attribute, default in _attributes(group):  # in this order: some checks need it
        if _key(attribute) in values:
            try:
                value = _stored(values[_key(attribute)], default, _ENUMERATIONS.get(attribute))
                _assign(group, row, attribute, value)
            except Exception as error:
                text = getattr(error, "message", str(error))
                raise parsing.Refused(f"{name and name + '.'}{_key(attribute)}: {text}") from None


def _owner_of(key: str, groups: dict[str, OptionGroup]) -> str:
    """Returns a hint that another group has an option of this name, or an empty text."""
    for name, group in groups.items():
        if key in {_key(attribute) for _, attribute, _ in _attributes(group)}:
            owner = f"the group {name}" if name else "the top level"
            return f" here. It is an option of {owner}, so move it there"
    return ""


def _assign(group: OptionGroup, row: Row, attribute: str, value: Any) -> None:
    current = value_of(group, attribute)
    if _has_whole_session(row):
        value = {**current, **copy.deepcopy(value)}
    # A session option that was never set stays so.
    if row.session is None or value != current:
        setattr(group, attribute, value)


def _has_whole_session(row: Row) -> bool:
    return row.session is not None and row.session.replaces


def _attributes(group: OptionGroup) -> Iterator[tuple[Row, str, Any]]:
    """Yields each attribute with its row and default."""
    for row in group.ROWS:
        for attribute, default in row.values().items():
            yield row, attribute, default


def _key(attribute: str) -> str:
    return attribute.lstrip("_")


def _unnamed_session(options: OptionGroup) -> dict[str, Any]:
    """Returns the session options without those that another row says."""
    rest = copy.deepcopy(state_of(options).session)
    for group in groups_of(options).values():
        for row in group.ROWS:
            if row.session is None or row.session.replaces:
                continue
            (attribute,) = row.values()
            for name, said in row.session.write(value_of(group, attribute)).items():
                if isinstance(said, dict) and isinstance(rest.get(name), dict):
                    rest[name] = {k: v for k, v in rest[name].items() if k not in said}
                    if rest[name]:
                        continue
                rest.pop(name, None)
    return rest


def _plain(attribute: str, value: Any) -> Any:
    if attribute in _ENUMERATIONS:
        value = _ENUMERATIONS[attribute](value)
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, torch.dtype):
        return str(value)
    if isinstance(value, ExecutionStrategy):
        return strategy_dicts.to_dict(value)
    if attribute == "available_memory_proportion":
        return {f"IPU{number}": share for number, share in value.items()}
    return list(value) if isinstance(value, tuple) else copy.deepcopy(value)


def _stored(value: Any, default: Any, kind: type[Enum] | None = None) -> Any:
    """Converts a value of a dict to that of an option. kind: the enumeration of its numbers."""
    if isinstance(default, Enum):
        kind = type(default)
    if isinstance(default, ExecutionStrategy):
        if isinstance(value, Mapping):
            return strategy_dicts.from_dict(value)
        if isinstance(value, str):
            raise parsing.Refused(f'a strategy is a dict, such as {{"kind": "{value}"}}')
    if isinstance(value, str) and isinstance(default, (int, Enum, torch.dtype)):
        found = parsing.member_named(value)
        if kind is not None and not isinstance(found, kind):
            members = ", ".join(f"{kind.__name__}.{member.name}" for member in kind)
            raise parsing.Refused(f"expected one of {members} but got {value!r}")
        return found
    if isinstance(value, Mapping):
        return {name: _stored(part, None) for name, part in value.items()}
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return list(value) if is_list else value
