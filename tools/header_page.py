"""Returns the reference of the public C++ headers: their comments and declarations."""

import re
from pathlib import Path

INCLUDE = Path(__file__).resolve().parents[1] / "poptorch_cpp/include/poptorch"
HEAD = """# C++ headers

Programs include `poptorch/NAME.hpp`. `poptorch.hpp` includes the headers that wrap LibTorch
modules; `runtime.hpp` and `custom_op.hpp` need no torch. [From C++](../cpp.md) shows complete
programs. This page has the comments and declarations of the headers.
"""
COMMENT = re.compile(r"^\s*// ?(.*)$")
SKIPPED = re.compile(r"^\s*(#|namespace |using namespace|friend |}|public:|private:|protected:)")
# The implementation's side of the headers, which programs do not use.
HIDDEN = ("namespace detail", "namespace internal")


def _declaration(lines, start):
    """Returns a declaration that begins on a line, and the line after it.

    A function's body is left out. Of a class only the first line is taken; its members follow.
    """
    taken, i = [], start
    while i < len(lines):
        line = lines[i]
        taken.append(line.split("//")[0].rstrip())
        text = " ".join(taken)
        i += 1
        if re.search(r";\s*$", text) or re.match(r"\s*(template.*> )?(class|struct) [^;]*{$", text):
            break
        if text.endswith("{") and not re.match(r"\s*enum ", text):
            depth = text.count("{") - text.count("}")
            while i < len(lines) and depth > 0:
                depth += lines[i].count("{") - lines[i].count("}")
                i += 1
            break
        if text.endswith("}"):
            break
    return re.sub(r"\s*{$", ";", "\n".join(taken)), i


def entries(text):
    """Yields (comment, declarations) of a header, in order."""
    lines = text.split("#pragma once", 1)[1].splitlines()
    comment, declarations, hidden, i = [], [], False, 0
    while i < len(lines):
        line = lines[i]
        if "private:" in line or any(name in line for name in HIDDEN):
            hidden = True
        elif line.startswith("}") or "public:" in line:
            hidden = False
        if not line.strip() or hidden or SKIPPED.match(line):
            if declarations:
                yield " ".join(comment), declarations
            comment, declarations, i = [], [], i + 1
        elif found := COMMENT.match(line):
            if declarations:
                yield " ".join(comment), declarations
                comment, declarations = [], []
            comment.append(found[1])
            i += 1
        else:
            declaration, i = _declaration(lines, i)
            declarations.append(declaration)
    if declarations:
        yield " ".join(comment), declarations


def _dedented(declarations):
    return [re.sub(r"^ {2}", "", text, flags=re.MULTILINE) for text in declarations]


def introduction(text):
    """Returns the comment at the head of a header, with its example as a block of code."""
    made, code = [], False
    for line in text.split("#pragma once", 1)[0].splitlines():
        said = COMMENT.match(line)[1] if COMMENT.match(line) else ""
        if said.startswith("  ") != code:
            made += ["", "```cpp"] if not code else ["```", ""]
            code = not code
        made.append(said[2:] if code else said)
    return "\n".join(made + ["```"] * code).strip()


def page():
    """Returns the page as Markdown."""
    parts = [HEAD]
    for header in sorted(INCLUDE.glob("*.hpp")):
        text = header.read_text()
        parts.append(f"## {header.name}\n\n{introduction(text)}\n")
        for comment, declarations in entries(text):
            block = "\n".join(_dedented(declarations))
            parts.append(f"```cpp\n{block}\n```\n\n{comment}\n")
    return "\n".join(parts)
