"""Writes the files that are generated from the figures of report() and from the schema of reports.

The figures are the rows of poptorch_cpp/account/report_rows.cpp. They give the tables in
docs/machine.md, parts of the schema, and the TypedDicts of poptorch_core/reports/figures.py. The
schema gives docs/report-json.md. --check writes nothing; the exit status says whether all files are
up to date.
"""

import json
import re
import sys
from pathlib import Path

import report_json_page
from poptorch_core import _core

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/machine.md"
SCHEMA = ROOT / "python/poptorch_core/reports/report.schema.json"
TYPES = ROOT / "python/poptorch_core/reports/figures.py"
JSON_PAGE = ROOT / "docs/report-json.md"
BETWEEN = re.compile(r"(?<=<!-- figures -->\n).*(?=<!-- end of figures -->)", re.DOTALL)
FORMS = {
    "int": {"type": "integer", "minimum": 0},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "str": {"type": "string"},
    "list of str": {"type": "array", "items": {"type": "string"}},
}


def rows_by_list():
    """Returns the rows (name, type, unit, doc) by list of the report; "": of the report itself."""
    rows = {}
    for part, *row in _core.report_figures():
        rows.setdefault(part, []).append(row)
    return rows


def tables(rows, schema):
    """Returns the page's tables: one per list, below the schema's description of the list."""
    made = []
    for part, figures in rows.items():
        title = f'`report()["{part}"]`' if part else "`report()`"
        about = schema["properties"][part]["description"] if part else "The whole."
        lines = [f"{title}: {about}\n", "| figure | unit | is |", "|---|---|---|"]
        lines += [f"| `{name}` | {unit or '–'} | {doc} |" for name, _, unit, doc in figures]
        made.append("\n".join(lines) + "\n")
    return "\n" + "\n".join(made) + "\n"


def take_rows(schema, rows):
    """Copies the rows of each list into its part of the schema, which may say more of a figure."""
    for part, figures in rows.items():
        if not part:
            continue
        items = schema["properties"][part]["items"]
        former = items["properties"]
        items["properties"] = {
            name: {"description": doc, **_form(former.get(name, FORMS[kind]))}
            for name, kind, _, doc in figures
        }
        items["required"] = list(items["properties"])


PYTHON_TYPES = {"list of str": "list[str]", "float by str": "dict[str, float]"}
CLASSES = {
    "ipus": "IpuFigures",
    "streams": "StreamFigures",
    "stages": "StageFigures",
    "ops": "OpFigures",
    "collectives": "CollectiveFigures",
    "": "Report",
}
TYPES_HEAD = '''"""The keys of report(), for type checkers and editors.

tools/write_report_figures.py makes this file from the rows of the core.
"""

from typing import NotRequired, TypedDict
'''


def typed_dicts(rows):
    """Returns the module of TypedDicts: a class for each list of the report, and `Report`."""
    parts = [part for part in rows if part] + [""]
    made = [TYPES_HEAD]
    for part in parts:
        about = f"An entry of `{part}`" if part else "The value of report()"
        doc = f'    """{about}. docs/machine.md has the units."""\n'
        lines = [f"class {CLASSES[part]}(TypedDict):", doc]
        lines += [f"    {name}: {PYTHON_TYPES.get(kind, kind)}" for name, kind, *_ in rows[part]]
        if not part:
            lines += [f"    {other}: list[{CLASSES[other]}]" for other in parts if other]
            lines += ["    recorded_options: NotRequired[dict[str, str]]"]
        made.append("\n".join(lines) + "\n")
    return "\n\n".join(made)


def _form(figure):
    return {key: value for key, value in figure.items() if key != "description"}


def texts():
    """Returns file → its expected text."""
    rows, schema = rows_by_list(), json.loads(SCHEMA.read_text())
    take_rows(schema, rows)
    page = BETWEEN.sub(lambda _: tables(rows, schema), PAGE.read_text())
    return {
        PAGE: page,
        SCHEMA: json.dumps(schema, indent=2) + "\n",
        TYPES: typed_dicts(rows),
        JSON_PAGE: report_json_page.text(schema),
    }


def main():
    now = {file: file.read_text() if file.exists() else "" for file in texts()}
    stale = {file: text for file, text in texts().items() if now[file] != text}
    if sys.argv[1:] == ["--check"]:
        return bool(stale)
    for file, text in stale.items():
        file.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
