"""Writes option_types.pyi: the classes that the rows of poptorch's option tables produce.

The setters are made at run time from the rows. The stub lists their names, arguments and attributes
for type checkers and editors. --check writes nothing; the exit status says whether the file is up
to date.
"""

import inspect
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import poptorch  # noqa: F401  # whose modules have the tables
from poptorch._impl.options import group_class, rows

FILE = Path(__file__).resolve().parents[1] / "python/poptorch/_impl/options/types.pyi"
HEAD = '''"""The setters and attributes that option tables give their classes, for type checkers.

tools/write_option_types.py makes this file from the tables.
"""

'''


class Names:
    """Texts of annotations, and the imports that they need."""

    def __init__(self):
        self.imports = {
            "from typing import Any, Self",
            "from poptorch._impl.options.group_class import OptionGroup",
        }

    def text(self, annotation):
        """Returns the annotation without modules. ValueError if there is none."""
        if annotation is inspect.Parameter.empty:
            raise ValueError("an argument or a check is not annotated")
        return re.sub(r"((?:\w+\.)*\w+)\.(\w+)", self._short, inspect.formatannotation(annotation))

    def _short(self, match):
        module, name = match.groups()
        self.imports.add(f"from {module} import {name}")
        return name


def attribute_type(row, default, names):
    """Returns the type of an option's value: of its check's result, or else of its default."""
    if row.check is not None:
        text = names.text(inspect.signature(row.check).return_annotation)
    elif default is None:
        text = names.text(row.stored or inspect.Parameter.empty)
    else:
        text = {dict: "dict[str, Any]"}.get(type(default), type(default).__name__)
    optional = default is None and not row.created and "None" not in text.split(" | ")
    return f"{text} | None" if optional else text


def argument(parameter, names):
    """Returns `name: type`, and ` = default`."""
    star = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else ""
    text = f"{star}{parameter.name}: {names.text(parameter.annotation)}"
    return text if parameter.default is parameter.empty else f"{text} = {parameter.default!r}"


def docstring(text):
    """Returns a literal of the text, with long paragraphs wrapped."""
    lines = [
        wrapped
        for line in text.splitlines()
        for wrapped in textwrap.wrap(line, 88, subsequent_indent=" " * 8 if line[:1] == " " else "")
        or [""]
    ]
    return '"""' + "\n".join(lines) + '\n"""'


def class_lines(group, names):
    base = group.__name__.removesuffix("Options") or "Options"
    yield f"class {base}Rows(OptionGroup):"
    for row in group.ROWS:
        own = [item for item in row.values().items() if not hasattr(group, item[0])]
        for name, default in own:  # others are methods, whose values are read by name
            yield f"    {name}: {attribute_type(row, default, names)}"
    for row in group.ROWS:
        method = getattr(group, row.name)
        if method.__module__ != rows.__name__:  # written by hand, in the class itself
            continue
        _, *given = inspect.signature(method).parameters.values()
        arguments = ", ".join(["self", *(argument(p, names) for p in given)])
        doc = textwrap.indent(docstring(method.__doc__), " " * 8).lstrip()
        other = hasattr(group_class.OptionGroup, row.name)
        ignored = "  # type: ignore[override]" * other
        yield f"    def {row.name}({arguments}) -> Self:{ignored}\n        {doc}"


def text():
    names = Names()
    groups = group_class.OptionGroup.__subclasses__()
    classes = ["\n".join(class_lines(group, names)) for group in groups]
    made = HEAD + "\n".join(sorted(names.imports)) + "\n\n" + "\n\n".join(classes) + "\n"
    for command in (["check", "--fix", "--select", "I"], ["format"]):
        made = subprocess.run(
            [Path(sys.executable).with_name("ruff"), *command, "-q"]
            + ["--stdin-filename", FILE, "-"],
            **{"input": made, "capture_output": True, "text": True, "check": True},
        ).stdout
    return made


def main():
    if sys.argv[1:] == ["--check"]:
        return FILE.read_text() != text()
    FILE.write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
