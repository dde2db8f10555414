"""Writes the stubs of the native modules, python/poptorch_core/_core.pyi and _torch.pyi.

Names, signatures and docstrings come from the built modules. Information that the modules lack is
kept from the current stub: missing docstrings, names of arguments that are only numbered, the
contents of a bare `dict`, `list` or `Any`, and that a result may be None. --check writes nothing;
the exit status says whether the stubs are up to date.
"""

import ast
import importlib
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import torch  # noqa: F401  # before _torch, which needs its libraries
from pybind11_stubgen import CLIArgs, Printer, arg_parser, stub_parser_from_args
from pybind11_stubgen.parser.errors import InvalidExpressionError
from pybind11_stubgen.structs import QualifiedName

FOLDER = Path(__file__).resolve().parents[1] / "python/poptorch_core"
MODULES = ("_core", "_torch")
OPEN = ("dict", "list", "Any")
# A number's caster accepts what can become one; pybind11 gives its text.
NUMBERS = {
    "typing.SupportsInt | typing.SupportsIndex": "int",
    "typing.SupportsFloat | typing.SupportsIndex": "float",
}
DOTTED = {
    "collections.abc": ("Callable", "Mapping", "Sequence", "Set"),
    "typing": ("Any", "ClassVar", "overload"),
    "torch": ("Tensor",),
    "numpy": ("ndarray",),
    "poptorch_core._core": ("Fabric",),
}


def generated(name):
    """Returns the module's stub as pybind11-stubgen makes it, as a tree."""
    base = type(stub_parser_from_args(arg_parser().parse_args([name], namespace=CLIArgs())))

    class Parser(base):
        def parse_annotation_str(self, text):
            for long, short in NUMBERS.items():
                text = text.replace(long, short)
            # A class that is bound after the signature that names it has its C++ name there.
            return super().parse_annotation_str(re.sub(r"poptorch::\w+::", f"{name}.", text))

        def report_error(self, error):
            unknown = isinstance(error, InvalidExpressionError) and str(error)
            if unknown and "object at 0x" not in unknown:  # a default without literal is `...`
                raise ValueError(f"{name}: {unknown}")

    parser = Parser()
    module = parser.handle_module(QualifiedName.from_str(name), importlib.import_module(name))
    parser.finalize()
    return ast.parse("\n".join(Printer(invalid_expr_as_ellipses=True).print_module(module)))


class _Shorten(ast.NodeTransformer):
    """Removes the module from names of DOTTED; `found` collects them, by module."""

    def __init__(self):
        self.found = {}

    def visit_Attribute(self, node):
        module = ast.unparse(node.value)
        if node.attr not in DOTTED.get(module, ()):
            return self.generic_visit(node)
        self.found.setdefault(module, set()).add(node.attr)
        return ast.Name(node.attr)


def _refined(fresh, kept):
    """Returns `kept` if it only fills a part that `fresh` leaves open; else `fresh`."""
    if fresh is None or kept is None:
        return fresh
    if ast.unparse(kept) == f"{ast.unparse(fresh)} | None":  # pointers do not say so
        return kept
    if isinstance(fresh, ast.Name) and fresh.id in OPEN:
        same = isinstance(kept, ast.Subscript) and ast.unparse(kept.value) == fresh.id
        return kept if same or fresh.id == "Any" else fresh
    if isinstance(fresh, ast.Subscript) and isinstance(kept, ast.Subscript):
        return ast.Subscript(fresh.value, _refined(fresh.slice, kept.slice))
    if isinstance(fresh, ast.BinOp) and isinstance(kept, ast.BinOp):
        left, right = _refined(fresh.left, kept.left), _refined(fresh.right, kept.right)
        return ast.BinOp(left, fresh.op, right)
    if isinstance(fresh, ast.Tuple) and isinstance(kept, ast.Tuple):
        if len(fresh.elts) == len(kept.elts):
            return ast.Tuple([_refined(a, b) for a, b in zip(fresh.elts, kept.elts, strict=True)])
    return fresh


def _complete_function(fresh, kept):
    arguments = fresh.args.args
    known = kept and [*kept.args.posonlyargs, *kept.args.args]
    if not known or len(known) != len(arguments):
        known = [None] * len(arguments)
    unnamed = [i for i, a in enumerate(arguments) if re.fullmatch(r"arg\d+", a.arg)]
    for argument, old in zip(arguments, known, strict=True):
        if old is not None:
            argument.annotation = _refined(argument.annotation, old.annotation)
            if re.fullmatch(r"arg\d+", argument.arg):
                argument.arg = old.arg
    for argument, default in zip(reversed(arguments), reversed(fresh.args.defaults), strict=False):
        text = ast.unparse(argument.annotation)
        if ast.unparse(default) == "None" and "None" not in text.split(" | "):
            argument.annotation = ast.parse(f"{text} | None", mode="eval").body
    if unnamed:
        fresh.args.posonlyargs = arguments[: unnamed[-1] + 1]
        fresh.args.args = arguments[unnamed[-1] + 1 :]
    if fresh.args.vararg is not None and fresh.args.vararg.annotation is None:
        fresh.args.vararg.annotation = ast.Name("Any")
    fresh.returns = _refined(fresh.returns, kept and kept.returns)


def _named(body):
    """Returns definitions of a body by distinct keys: overloads and setters share their names."""
    found = {}
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            key = (node.name, *map(ast.unparse, node.decorator_list))
            found[(*key, sum(k[:-1] == key for k in found))] = node
        elif isinstance(node, ast.AnnAssign):
            found[(ast.unparse(node.target), 0)] = node
    return found


def _complete(fresh, kept):
    """Fills open parts of a tree, or of a definition in it, from `kept`."""
    if isinstance(fresh, ast.AnnAssign):
        fresh.annotation = _refined(fresh.annotation, getattr(kept, "annotation", None))
        return
    if isinstance(fresh, ast.FunctionDef):
        _complete_function(fresh, kept)
    else:
        old = _named(kept.body) if kept else {}
        for key, node in _named(fresh.body).items():
            _complete(node, old.get(key))
    if kept and ast.get_docstring(kept) and not ast.get_docstring(fresh):
        body = [n for n in fresh.body if not isinstance(n, ast.Pass)]
        fresh.body = [kept.body[0], *body]
    if text := ast.get_docstring(fresh):
        if "\n" not in text:  # one line, or several if it is too long
            lines = textwrap.wrap(text, 84)
            fresh.body[0].value.value = "\n    ".join([*lines, ""] if lines[1:] else lines)
        if isinstance(fresh, ast.FunctionDef):
            fresh.body = fresh.body[:1]


def stub(module, kept):
    """Returns the text of a module's stub. kept: the previous text, or ""."""
    fresh = generated(f"poptorch_core.{module}")
    shorten = _Shorten()
    fresh = shorten.visit(fresh)
    _complete(fresh, ast.parse(kept))
    if "Any" in ast.unparse(fresh):
        shorten.found.setdefault("typing", set()).add("Any")
    fresh.body = [n for n in fresh.body if not isinstance(n, ast.Import) and not _is_future(n)]
    imports = [
        ast.ImportFrom(name, [ast.alias(n) for n in sorted(names)], 0)
        for name, names in shorten.found.items()
    ]
    place = 1 if ast.get_docstring(fresh) else 0
    fresh.body[place:place] = imports
    text = ast.unparse(ast.fix_missing_locations(fresh))
    for command in (["check", "--fix", "--select", "I,UP,F401"], ["format"]):
        text = subprocess.run(
            [Path(sys.executable).with_name("ruff"), *command, "-q"]
            + ["--stdin-filename", FOLDER / f"{module}.pyi", "-"],
            **{"input": text, "capture_output": True, "text": True, "check": True},
        ).stdout
    return text


def _is_future(node):
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def main():
    stale = []
    for module in MODULES:
        file = FOLDER / f"{module}.pyi"
        before = file.read_text() if file.exists() else ""
        text = stub(module, before)
        if text != before:
            stale.append(file.name)
            if sys.argv[1:] != ["--check"]:
                file.write_text(text)
    print(f"stubs: {', '.join(stale) or 'none'} differed from the built modules")
    return bool(stale) if sys.argv[1:] == ["--check"] else 0


if __name__ == "__main__":
    sys.exit(main())
