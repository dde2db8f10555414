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
SKIPPED = re.compile(r"^\s*(#|namespace |using namespace|friend |extern|}|public:)")
CLASS = re.compile(r"^( *)(?:template <.*> )?(?:class|struct) (\w+)[^;(]*{$")
# Declarations whose braces are part of them.
WHOLE = re.compile(r"^ *(enum|typedef struct)\b")
# Begins a part that programs do not use; the matching line ends it.
HIDDEN = re.compile(r"^( *)(?:private|protected):|^(namespace detail) {")


def end_of_hidden(lines, i, found):
    """Returns the index of the line after a part that programs do not use."""
    indent = len(found[1] or "")
    end = f"}}  // {found[2]}" if found[2] else " " * max(indent - 1, 0) + "};"
    while lines[i] != end:
        i += 1
    return i + (1 if found[2] else 0)  # the end of a class is read by the caller


def declaration(lines, i):
    """Returns a declaration without the body of a function, and the index of the line after it."""
    taken, whole = [], WHOLE.match(lines[i])
    while True:
        taken.append(re.sub(r"\s*//.*", "", lines[i]).rstrip())
        text = "\n".join(taken)
        i += 1
        depth = text.count("{") - text.count("}")
        if depth == 0 and re.search(r"[;}]$", text):
            break
        if depth > 0 and text.endswith("{") and not whole:
            while depth > 0:
                depth += lines[i].count("{") - lines[i].count("}")
                i += 1
            break
    if not whole:
        text = re.sub(r"\)( const| noexcept)*(\s*:\s[^;]*)? {.*$", r")\1;", text, flags=re.DOTALL)
    return text, i


def entries(text):
    """Yields (class or "", comment, declarations) of a header, in order.

    A class itself is an entry without declarations.
    """
    lines = text.split("#pragma once", 1)[1].splitlines()
    scopes, comment, taken, i = [], [], [], 0

    def flush():
        if taken:
            yield scopes[-1][1] if scopes else "", " ".join(comment), list(taken)
        taken.clear()
        comment.clear()

    while i < len(lines):
        line = lines[i]
        if found := HIDDEN.match(line):
            yield from flush()
            i = end_of_hidden(lines, i, found)
        elif scopes and line == scopes[-1][0] + "};":
            yield from flush()
            scopes.pop()
            i += 1
        elif found := CLASS.match(line):
            yield found[2], " ".join(comment), []
            comment.clear()
            scopes.append((found[1], found[2]))
            i += 1
        elif line.lstrip().startswith("template <") and CLASS.match(lines[i + 1]):
            i += 1
        elif not line.strip() or SKIPPED.match(line):
            yield from flush()
            i += 1
        elif found := COMMENT.match(line):
            if taken:
                yield from flush()
            comment.append(found[1])
            i += 1
        else:
            made, i = declaration(lines, i)
            taken.append(made)
    yield from flush()


def introduction(text):
    """Returns the comment at the head of a header, with its example as a block of code."""
    made, code = [], False
    for line in text.split("#pragma once", 1)[0].splitlines():
        said = COMMENT.match(line)[1] if COMMENT.match(line) else ""
        if said.startswith("  ") != code and said:
            made += ["```", ""] if code else ["", "```cpp"]
            code = not code
        made.append(said[2:] if code else said)
    return "\n".join(made + ["```"] * code).strip()


def dedented(declarations):
    """Returns declarations as a block, without the indentation of their class."""
    lines = "\n".join(declarations).splitlines()
    indent = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    return "\n".join(line[indent:] for line in lines)


def section(header):
    """Yields the Markdown of a header."""
    text = header.read_text()
    yield f"## {header.name}\n\n{introduction(text)}\n"
    within = ""
    for name, comment, declarations in entries(text):
        if name != within or not declarations:
            yield f"### {name or 'Others of ' + header.name}\n"
            within = name
        if declarations:
            yield f"```cpp\n{dedented(declarations)}\n```\n"
        if comment:
            yield f"{comment}\n"


def page():
    """Returns the page as Markdown."""
    headers = sorted(INCLUDE.glob("*.hpp"))
    return "\n".join([HEAD, *(part for header in headers for part in section(header))])
