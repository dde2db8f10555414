"""An example that is started without its arguments prints a usage line."""

import ast
import re
import sys
from pathlib import Path

import pytest
import zygote

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PYTHON = sorted(str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*.py"))
CPP = sorted(str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*.cpp"))
# The numbers of arguments that examples need. The others run without any.
NEEDED = {"custom_ops/train.py": 1, "cpp/serve/export_digits.py": 2}


def usages(tree):
    """Returns whether the program parses its arguments, and its uses of sys.argv."""
    parses, uses = False, []
    for node in ast.walk(tree):
        parses |= isinstance(node, ast.Attribute) and node.attr == "ArgumentParser"
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.argv":
            uses.append(node)
    return parses, uses


def guarded(tree):
    """Returns the uses of sys.argv in conditions on its length, and where these hold."""
    held = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.IfExp)) and "len(sys.argv)" in ast.unparse(node.test):
            body = node.body if isinstance(node.body, list) else [node.body]
            held |= {use for part in (node.test, *body) for use in ast.walk(part)}
    return held


def required(tree):
    """Returns the number of positional arguments that a parser requires."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    added = [c for c in calls if ast.unparse(c.func).endswith(".add_argument")]
    return sum(
        not c.args[0].value.startswith("-") and all(k.arg != "nargs" for k in c.keywords)
        for c in added
    )


@pytest.mark.parametrize("name", PYTHON)
def test_arguments_are_parsed_or_optional(name):
    tree = ast.parse((EXAMPLES / name).read_text())
    parses, uses = usages(tree)
    assert set(uses) <= guarded(tree), "sys.argv is read without a check of its length"
    assert (required(tree) if parses else 0) == NEEDED.get(name, 0)


@pytest.mark.parametrize("text, unguarded", [
    ("import sys\nprint(sys.argv[1])", True),
    ("import sys\nmain(*sys.argv[1:])", True),
    ("import sys\nif len(sys.argv) > 1:\n  f(sys.argv[1])\nelse:\n  g()", False),
    ("import sys\nif len(sys.argv) > 1:\n  f()\nelse:\n  g(sys.argv[1])", True),
    ("import sys\nx = sys.argv[1] if len(sys.argv) > 1 else 0", False),
])  # fmt: skip
def test_unguarded_uses_are_found(text, unguarded):
    tree = ast.parse(text)
    assert bool(set(usages(tree)[1]) - guarded(tree)) == unguarded


@pytest.mark.parametrize("name", CPP)
def test_cpp_arguments_are_counted(name):
    text = (EXAMPLES / name).read_text()
    if re.search(r"arguments\[\d\]|argv\[\d\]", text):
        assert re.search(
            r"count > 1 \?|if \(count != \d\) \{\s*std::fprintf\(stderr, \"usage", text
        )


@pytest.mark.parametrize("name, given", [(n, k) for n, most in NEEDED.items() for k in range(most)])
def test_a_missing_argument_gives_a_usage_line(name, given, tmp_path):
    command = [sys.executable, str(EXAMPLES / name), *["file"] * given]
    done = zygote.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == ""
    assert f"usage: {Path(name).name}" in done.stderr and "Traceback" not in done.stderr
    assert "the following arguments are required" in done.stderr
