"""Writes tests/meta/api_table.txt from descriptions of the public interface.

`python tools/api_table.py FOLDER`. FOLDER holds poptorch.md, poptorch_details.md, popxl.md and
popxl_addons.md. A row is a signature in back-quotes, a row of a table of names, or an enumeration.
The second page of each pair corrects the first: for a callable that both describe, only its rows
are used.
"""

import ast
import re
import sys
from pathlib import Path

TABLE = Path(__file__).resolve().parents[1] / "tests/meta/api_table.txt"
PAIRS = (("poptorch.md", "poptorch_details.md"), ("popxl.md", "popxl_addons.md"))
SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
CALL = re.compile(r"([A-Za-z_][\w.]*)\((.*)\)(?: ?->.*)?")
ENUM = re.compile(r"`(\w+)`((?: [A-Z]\w+ (?:\d+|`\w+`),?)+)")
NAMES = re.compile(r"[.]?[A-Za-z_][\w.]*")
# Types by which a description names arguments.
TYPES = {"int", "float", "str", "bool", "list", "dict", "tuple", "path", "dir"}


def signature(name, arguments):
    """Returns `name(arguments)` in one notation; None for a call with values."""
    try:
        parsed = ast.parse(f"def f({arguments}): pass").body[0].args
    except SyntaxError:
        return None
    named = parsed.posonlyargs + parsed.args + parsed.kwonlyargs
    if any(argument.arg in TYPES for argument in named):
        return None
    return f"call {name}({ast.unparse(parsed)})"


def signatures(text):
    for span in SPAN.findall(re.sub(r"\s+", " ", text)):
        call = CALL.fullmatch(span.strip())
        if call and (row := signature(*call.groups())):
            yield row


def tabled_signatures(text):
    """Yields rows `callable / callable` | `arguments / arguments`."""
    for line in re.findall(r"^\| (`[^|]+) \| (`[^|]+) \|$", text, re.MULTILINE):
        names, arguments = (SPAN.findall(cell) for cell in line)
        if len(names) == len(arguments) and all(NAMES.fullmatch(name) for name in names):
            for name, given in zip(names, arguments, strict=True):
                if "(" not in given and (row := signature(name, given)):
                    yield row


def enumerations(text):
    for name, members in ENUM.findall(re.sub(r"\s+", " ", text)):
        yield f"enum {name} " + re.sub(r" (\w+) `?(\w+)`?,?", r" \1=\2", members).strip()


def exported(text, package):
    """Yields the names of section 1 outside its tables, and of the table of module paths."""
    section = re.search(r"^## 1\. .*?(?=^#)", text, re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^\|.*$", "", section[0] if section else "", flags=re.MULTILINE)
    for span in SPAN.findall(prose):
        for name in re.split(r"[/,]\s*", span.removesuffix("()")):
            if NAMES.fullmatch(name):
                yield "name " + (package + name if name.startswith(".") else name)
    layout = re.search(r"^## 1\.1 Layout.*?(?=^## 1\.2)", text, re.MULTILINE | re.DOTALL)
    table = layout[0] if layout else ""
    for line in re.findall(r"^\| (`[^|]+) \| ([^|]+) \|", table, re.MULTILINE):
        yield from laid_out(package, SPAN.findall(line[0]), SPAN.findall(line[1]))


def laid_out(package, paths, spans):
    """Yields the modules in a row of the table of module paths; for a single module, also its
    names.

    `X` stands for each name of the first span, which is in a package of the same name.
    """
    names = [name for span in spans for name in span.split(", ") if NAMES.fullmatch(name)]
    if paths[0].endswith(".X"):
        for name in spans[0].split(", "):
            yield f"name {package}.{paths[0].removesuffix('X')}{name}.{name}"
        return
    for path in paths:
        prefix = package if path == package else f"{package}.{path}"
        yield f"name {prefix}"
        for name in names if len(paths) == 1 else ():
            within_it = "" if name.startswith(".") else "."
            yield f"name {prefix}{within_it}{name.removeprefix(path + '.')}"


def called(row):
    """Returns the subject of a row, which a correction replaces."""
    return row.split("(")[0].rsplit(".", 1)[-1].removeprefix("call ") if "(" in row else row


def rows(folder):
    for first, second in PAIRS:
        package = second.split("_details")[0].removesuffix(".md")
        texts = [(folder / name).read_text() for name in (first, second)]
        found = [
            dict.fromkeys(
                [
                    *exported(text, name),
                    *enumerations(text),
                    *tabled_signatures(text),
                    *signatures(text),
                ]
            )
            for text, name in zip(texts, (package.split("_")[0], package), strict=True)
        ]
        corrected = {called(row) for row in found[1]}
        for name, table in zip((first, second), found, strict=True):
            yield f"# {name}"
            for row in table:
                if name == second or called(row) not in corrected:
                    yield row


def main(folder):
    TABLE.write_text("\n".join(rows(folder)) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
