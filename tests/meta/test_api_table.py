"""Compares every name, signature and enumeration of PopTorch's public interface with this package.

tools/api_table.py makes api_table.txt. api_reasons.txt lists the rows that differ from this
package, each after the reason. A reason for a row that does not differ is an error.
"""

import ast
import enum
import inspect
from pathlib import Path

import pytest
from public_objects import called, present

HERE = Path(__file__).parent
ROWS = [
    line
    for line in (HERE / "api_table.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
UNKNOWN = object()


def reasons():
    """Returns each excepted row with the heading above it."""
    found, heading = {}, None
    for line in (HERE / "api_reasons.txt").read_text().splitlines():
        if line.startswith("# "):
            heading = line
        elif line:
            found[line] = heading
    return found


REASONS = reasons()


def value_of(node):
    try:
        value = ast.literal_eval(node)
        return UNKNOWN if value is ... else value
    except ValueError:
        return UNKNOWN  # an expression: only the presence of a default is compared


def wanted(text):
    """Returns names and defaults of `(a, b=1, *c)`; a name with stars keeps them."""
    given = ast.parse(f"def f{text}: pass").body[0].args
    positional = given.posonlyargs + given.args
    defaults = [inspect.Parameter.empty] * (len(positional) - len(given.defaults))
    defaults += [value_of(node) for node in given.defaults]
    pairs = list(zip([argument.arg for argument in positional], defaults, strict=True))
    if given.vararg:
        pairs.append(("*" + given.vararg.arg, inspect.Parameter.empty))
    for argument, node in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        pairs.append((argument.arg, value_of(node) if node else inspect.Parameter.empty))
    if given.kwarg:
        pairs.append(("**" + given.kwarg.arg, inspect.Parameter.empty))
    return pairs


def parameters(function):
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    try:
        signature = inspect.signature(function)
    except ValueError:  # of a builtin that has none
        return []
    found = [
        (stars.get(parameter.kind, "") + parameter.name, parameter.default)
        for parameter in signature.parameters.values()
    ]
    return found[1:] if found and found[0][0] == "self" else found


def same_default(want, got):
    if want is inspect.Parameter.empty:
        return True  # left out
    if want is UNKNOWN:
        return got is not inspect.Parameter.empty
    if isinstance(got, enum.Enum):
        return want in (got, got.value, got.name)
    return got == want


def takes(function, text):
    want, got = wanted(text), parameters(function)
    return [name for name, _ in want] == [name for name, _ in got[: len(want)]] and all(
        same_default(value, has) for (_, value), (_, has) in zip(want, got, strict=False)
    )


def holds(row):
    kind, text = row.split(" ", 1)
    if kind == "name":
        return any(True for _ in present(text))
    if kind == "enum":
        name, *members = text.split(" ")
        want = dict(member.split("=") for member in members)
        return any(
            {member.name: str(member.value) for member in found} == want
            for found in called(name)
            if inspect.isclass(found) and issubclass(found, enum.Enum)
        )
    name, arguments = text.split("(", 1)
    return any(takes(function, "(" + arguments) for function in called(name))


@pytest.mark.parametrize("row", [row for row in ROWS if row not in REASONS])
def test_rows(row):
    name = row.split("(")[0].split(" ")[1]
    has = [parameters(found) for found in called(name)]
    assert holds(row), f"ours: {has or 'none'}"


def test_reasons_are_needed():
    assert [row for row in REASONS if row not in ROWS or holds(row)] == []
    assert all(REASONS.values())
