"""Writes docs/options.md from the tables of options, compiler options and environment variables.

--check writes nothing; the exit status says whether the page is up to date.
"""

import os
import sys
from pathlib import Path

DEFAULTS_FOLLOW = (
    *("POPTORCH_CACHE_DIR", "POPTORCH_DEFAULT_OPTIONS"),
    *("POPTORCH_IPU_MODEL", "POPTORCH_SMALL_IPU_MODEL"),
)
for name in DEFAULTS_FOLLOW:
    os.environ.pop(name, None)

import poptorch  # noqa: E402
from poptorch._impl.options import definitions, environment  # noqa: E402
from poptorch_core import _core  # noqa: E402

PAGE = Path(__file__).resolve().parents[1] / "docs/options.md"
HEAD = """# Options

Every option of `poptorch.Options`. `python tools/write_options_page.py` makes this page from the
table that the code uses.

Setters return their object, so that calls can be chained; the attribute beside a setter reads the
value. Options without a default, "–", exist once they are set (`exists`). Each group also has
`set`, `createOrSet`, `exists`, `deleteIfExists`, `update` and `toDict`, and returns a value when it
is called with its name.

Options of PopART are in `_Popart.options`, so that `_Popart.set` and the setter do the same.
Compiling a model refuses names that the backend does not know. A model wrapper freezes its options;
`clone()` returns a copy that can be changed. Assigning an attribute runs the checks of its setter.

`loadFromFile` reads a file of setter calls, one per line without `options.`, and never executes it.
`from_json`, and the variable `POPTORCH_DEFAULT_OPTIONS`, take `{"Training.gradientAccumulation":
4}`. An error in either leaves all options unchanged. Folders in a file and in the text of
`from_json` are relative to the folders that the program has set, and must be inside them: `logDir`
to the current folder unless the program has set one, `devicePool` to the runtime folder
(`$XDG_RUNTIME_DIR/poptorch`, else `poptorch-<user>` beside temporary files). Environment variables
belong to the user: their folders may be anywhere.

An environment variable with a value that its table does not allow raises an error that names it.
"""
GROUPS = [
    ("Options", "General", poptorch.Options),
    ("Options.Precision", "Half precision", definitions.PrecisionOptions),
    ("Options.Training", "Training", definitions.TrainingOptions),
    ("Options.TensorLocations", "Where tensors live", definitions.TensorLocationOptions),
    ("TensorLocationSettings", "One kind of tensor", poptorch.TensorLocationSettings),
    ("Options.Distributed", "Several processes", definitions.DistributedOptions),
    ("Options.Emulator", "The emulator", definitions.EmulatorOptions),
    ("Options.Jit", "The old tracer", definitions.JitOptions),
    ("Options._Popart", "For experts", definitions.PopartOptions),
]

CORE_HEAD = """## Options of the compiler

This is the compiler's table, from which [a module's description of its execution](execution.md) is
made; C++ sets each option by its name. Passes determine the options marked "Found"; `host` options
do not depend on the program.

"""


def shown(value):
    text = getattr(value, "name", None) or repr(value)
    return f"`{text}`"


def rows(group):
    for row in group.ROWS:
        values = row.values()
        attributes = ", ".join(f"`{name}`" for name in values) or "–"
        created = {} if row.created else values
        defaults = ", ".join(shown(value) for value in created.values()) or "–"
        yield f"| `{row.name}` | {attributes} | {defaults} | {row.doc} | {row.effect} |"


def setters():
    """Returns (keyword, name) of the compiler's options → the setter."""
    said = {}
    for path, _, group in GROUPS:
        for row in group.ROWS:
            for name in row.said_names():
                said[name] = f"`{path}.{row.name}`".replace("`Options.", "`")
    return said


def core_rows():
    said = setters()
    for option in _core.option_table():
        default = "none" if option.default is None else f"`{option.default!r}`"
        takes = option.allowed or option.type.replace("?", " or nothing")
        told = f"`{option.keyword}`", f"`{option.name}`", default, takes
        yield f"| {' | '.join(told)} | {said.get(option.name, '–')} | {option.doc} |"


def page():
    parts = [HEAD]
    for path, title, group in GROUPS:
        table = ["| setter | attribute | default | what it does | takes effect |"]
        table += ["|---|---|---|---|---|", *rows(group)]
        parts.append(f"## {title}: `{path}`\n\n" + "\n".join(table) + "\n")
    table = ["| line | option | default | values | set by | what it says |", "|---" * 6 + "|"]
    parts.append(CORE_HEAD + "\n".join([*table, *core_rows()]) + "\n")
    table = ["| variable | values | what it does |", "|---|---|---|"]
    for name, kind, doc, allowed, (least, most), has_effect in environment.VARIABLES:
        ranges = {"flag": "`0`, `1`", "number": f"{least} to {most}", "names": "a,b"}
        values = ", ".join(f"`{value}`" for value in allowed) or ranges.get(kind, "text")
        effect = "" if has_effect else "; nothing yet: a warning"
        table.append(f"| `{name}` | {values} | {doc}{effect} |")
    parts.append("## Environment variables\n\n" + "\n".join(table) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(PAGE.read_text() != page())
    PAGE.write_text(page())
