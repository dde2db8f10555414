"""Options from text: files of setter calls, and JSON. Text is parsed and never executed.

A line is a chain of calls on the options object, `Training.gradientAccumulation(4)`. Arguments are
literals, lists, tuples, dicts, members of poptorch's enumerations, torch's dtypes, and poptorch's
option objects with their setters. A folder of a file or of a JSON text is relative to the folder
that the program has set, and inside it; one of an environment variable may be anywhere.
"""

import ast
import difflib
import inspect
import json
import warnings
from collections.abc import Iterable
from enum import Enum
from pathlib import Path

import torch
from poptorch import enums
from poptorch._impl.options.definitions import TensorLocationSettings
from poptorch._impl.options.group_class import OptionGroup, groups_of
from poptorch._impl.options.stored_values import state_of
from poptorch._impl.placement.phased_strategies import (
    ParallelPhasedExecution,
    Phase,
    SerialPhasedExecution,
)
from poptorch._impl.placement.strategies import PipelinedExecution, ShardedExecution, Stage

# The option objects that a text may construct.
_CONSTRUCTIBLE: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(TensorLocationSettings, PipelinedExecution, ShardedExecution, Stage),
        *(Phase, SerialPhasedExecution, ParallelPhasedExecution),
    )
}
# The methods that a text may call on such an object.
_SETTERS = {
    Stage: {"ipu"},
    Phase: {"ipus"},
    SerialPhasedExecution: {"setTensorsLiveness", "useSeparateBackwardPhase"},
    ParallelPhasedExecution: {"sendTensorsOffChipAfterFwd", "useSeparateBackwardPhase"},
}


# No option uses other integers, and Python refuses to print very large ones.
_INTEGERS = range(-(2**63), 2**64)


class Refused(Exception):
    """Raised, with the reason, for a text outside the grammar."""


def _parsed(text: str) -> ast.expr:
    """Parses an expression; raises Refused for any other text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise Refused(error.msg) from None
    except UnicodeError:
        raise Refused("it is not UTF-8") from None
    except (ValueError, MemoryError, RecursionError, SystemError):
        raise Refused("it has null bytes or is nested too deep") from None


def _bound(setter, name: str, arguments, keywords) -> inspect.BoundArguments:
    """Binds arguments to a setter's parameters; raises Refused if they do not fit."""
    try:
        return inspect.signature(setter).bind(*arguments, **keywords)
    except TypeError as error:
        raise Refused(f"{name}: {error}") from None


def _invoke(setter, *arguments):
    bound = _bound(setter, setter.__name__, arguments, {})
    return setter(*bound.args)


def _literal(node: ast.expr):
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, MemoryError, RecursionError):
        raise Refused(f"{ast.unparse(node)} is not a literal") from None
    if isinstance(value, int) and value not in _INTEGERS:
        raise Refused("an integer is beyond 64 bits")
    return value


def _dotted(node: ast.expr) -> list[str]:
    """Splits poptorch.OutputMode.Final into ["poptorch", "OutputMode", "Final"]."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        return [*_dotted(node.value), node.attr]
    raise Refused(f"{ast.unparse(node)} is not a name")


def _named(parts: list[str]):
    """Returns the enumeration member or dtype of a dotted name."""
    path = [part for part in parts if part not in ("poptorch", "enums")]
    if len(path) == 2 and path[0] == "torch":
        value = getattr(torch, path[1], None)
        if isinstance(value, torch.dtype):
            return value
    if len(path) == 2:
        kind = getattr(enums, path[0], None)
        if isinstance(kind, type) and issubclass(kind, Enum) and path[1] in kind.__members__:
            return kind[path[1]]
    raise Refused(f"{'.'.join(parts)} is neither an enumeration member nor a torch dtype")


def member_named(text: str):
    """Returns the enumeration member or dtype that a text names, or the text if there is none."""
    if text.count(".") != 1:
        return text
    try:
        return _named(text.split("."))
    except Refused:
        return text


def _argument(node: ast.expr):
    if isinstance(node, (ast.List, ast.Tuple)):
        kind = list if isinstance(node, ast.List) else tuple
        return kind(_argument(item) for item in node.elts)
    if isinstance(node, ast.Dict) and None not in node.keys:  # None stands for `**`
        keys = [_argument(key) for key in node.keys if key is not None]
        if any(isinstance(key, (list, dict)) for key in keys):
            raise Refused("a key of a dict is a list or a dict")
        return dict(zip(keys, map(_argument, node.values), strict=True))
    if isinstance(node, ast.Attribute):
        return _named(_dotted(node))
    if isinstance(node, ast.Call):
        return _object(node)
    return _literal(node)


def _object(node: ast.Call):
    """Returns an option object from a call of its constructor, or of a setter on one."""
    if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
        return _call(_object(node.func.value), [node.func.attr], node)
    name = _dotted(node.func)[-1]
    if name not in _CONSTRUCTIBLE:
        raise Refused(f"{name} is not an option object")
    return _invoke(_CONSTRUCTIBLE[name], *map(_argument, node.args))


def _call(target, names: list[str], node: ast.Call, owner: OptionGroup | None = None):
    """Calls a setter of an option object, by its path of names.

    owner: the options that `target` is a draft of, if it is a draft.
    """
    if len(names) == 1 and names[0] in _SETTERS.get(type(target), ()) and not node.keywords:
        return _invoke(getattr(target, names[0]), *map(_argument, node.args))
    arguments = [_argument(value) for value in node.args]
    if any(keyword.arg is None for keyword in node.keywords):
        raise Refused("** is not taken")
    keywords = {keyword.arg: _argument(keyword.value) for keyword in node.keywords}
    return _set(target, names, arguments, keywords, owner)


def _set(target, names: list[str], arguments: list, keywords: dict, owner: OptionGroup | None):
    path, draft = ".".join(names), target
    for name in names[:-1]:
        target, owner = _subgroup(target, name), _subgroup(owner, name)
    rows = target.ROWS if isinstance(target, OptionGroup) else ()
    row = next((row for row in rows if row.name == names[-1]), None)
    if row is None:
        raise Refused(f"there is no option {path}{_meant(draft, names)}")
    setter = getattr(target, row.name)
    bound = _bound(setter, path, arguments, keywords)
    if row.inside and owner is not None:
        argument, folder_of = row.inside
        bound.apply_defaults()
        if bound.arguments[argument]:
            bound.arguments[argument] = _inside(bound.arguments[argument], folder_of(owner))
    return setter(*bound.args, **bound.kwargs)


def _meant(draft: OptionGroup, names: list[str]) -> str:
    """Returns a hint on what to write instead of an unknown name."""
    if not isinstance(draft, OptionGroup):
        return ""
    if names[0] in ("opts", "options"):
        return ". Leave out the name of the options object: write only the setter"
    known = {f"{path}{row.name}" for path, group in groups_of(draft).items() for row in group.ROWS}
    ends = [name for name in known if name.rpartition(".")[2] == names[-1]]
    path = ".".join(names)[: max(map(len, known))]
    if ends:
        return f". Did you mean {ends[0]}?"
    in_group = {name for name in known if name.rpartition(".")[0] == ".".join(names[:-1])}
    return meant_by(path, known, in_group or known)


def meant_by(name: str, known: Iterable[str], listed: Iterable[str] = ()) -> str:
    """Returns what to write instead of an unknown name: the nearest known one, or all of them.

    Args:
        name: The unknown name.
        known: The names of options.
        listed: The names to list if none of `known` is near. Lists `known` if this is empty.
    """
    close = difflib.get_close_matches(name, known, 1)
    if close:
        return f". Did you mean {close[0]}?"
    names = ", ".join(sorted(listed or known))
    return f". Use one of: {names}" if names else ". Leave it out"


def _subgroup(group, name: str):
    return state_of(group).groups.get(name) if isinstance(group, OptionGroup) else None


def _inside(given, folder: str) -> str:
    """Returns the path `given` in `folder`; raises Refused if it is outside."""
    path = Path(given) if isinstance(given, str) and "\0" not in given else None
    if path is None or path.is_absolute() or ".." in path.parts:
        raise Refused(
            f"{given!r} leaves {folder!r}, the folder that the program has set. Name one inside it"
        )
    whole = Path(folder, path)
    if not whole.resolve().is_relative_to(Path(folder).resolve()):
        raise Refused(f"{str(whole)!r} is a link that leads out of {folder!r}")
    return str(whole)


def apply_line(draft: OptionGroup, text: str, owner: OptionGroup) -> None:
    """Runs one line, without its leading `options.`. Raises Refused, or the setter's errors.

    draft: a draft of `owner`. Folders in the line must be inside the owner's folders.
    """

    def run(node):
        if not isinstance(node, ast.Call):
            raise Refused("a call of an option is expected")
        if isinstance(node.func, ast.Attribute):
            names = [node.func.attr]
            target = node.func.value
            while isinstance(target, ast.Attribute):
                names.insert(0, target.attr)
                target = target.value
            if isinstance(target, ast.Call):  # a chain of setters
                before = run(target)
                return _call(before, names, node, _same_group(before, draft, owner))
        return _call(draft, _dotted(node.func), node, owner)

    try:
        run(_parsed(text.strip()))
    except RecursionError:
        raise Refused("it is nested too deep") from None


def _same_group(group, draft: OptionGroup, owner: OptionGroup) -> OptionGroup | None:
    """Returns the group of `owner` that corresponds to `group` of its draft."""
    for path, part in groups_of(draft).items():
        if part is group:
            return groups_of(owner)[path]
    return None


def apply_json(draft: OptionGroup, text: str, owner: OptionGroup | None) -> None:
    """Calls setters from {"Training.gradientAccumulation": 4, "outputMode": "OutputMode.All"}.

    draft: a draft of `owner`, inside whose folders those of the text must be. None: anywhere.
    """

    def convert(value):
        if isinstance(value, list):
            return [convert(item) for item in value]
        return member_named(value) if isinstance(value, str) else value

    def once(pairs):
        names = [name for name, _ in pairs]
        for name in names:
            if names.count(name) > 1:
                raise Refused(f"{name} appears twice")
        return dict(pairs)

    try:
        given = json.loads(text, object_pairs_hook=once)
    except RecursionError:
        raise Refused("it is nested too deep") from None
    if not isinstance(given, dict):
        example = '{"Training.gradientAccumulation": 4}'
        raise Refused(f"expected an object such as {example}, not a {type(given).__name__}")
    for path, value in given.items():
        value = convert(value)
        arguments = value if isinstance(value, list) else [value]
        _set(draft, path.split("."), arguments, {}, owner)
