"""Writes the figures of report() into docs/machine.md and the schema of reports.

They are the rows of poptorch_cpp/account/report_rows.cpp. With --check nothing is written; the exit
status tells whether both are up to date.
"""

import json
import re
import sys
from pathlib import Path

from poptorch_core import _core

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/machine.md"
SCHEMA = ROOT / "python/poptorch_core/reports/report.schema.json"
BETWEEN = re.compile(r"(?<=<!-- figures -->\n).*(?=<!-- end of figures -->)", re.DOTALL)
FORMS = {
    "int": {"type": "integer", "minimum": 0},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "str": {"type": "string"},
    "list of str": {"type": "array", "items": {"type": "string"}},
}


def rows_by_list():
    """The rows (name, type, unit, doc) by list of the report; "": its own."""
    rows = {}
    for part, *row in _core.report_figures():
        rows.setdefault(part, []).append(row)
    return rows


def tables(rows, schema):
    """For the page: one table a list, under what the schema says of the list."""
    made = []
    for part, figures in rows.items():
        title = f'`report()["{part}"]`' if part else "`report()`"
        about = schema["properties"][part]["description"] if part else "The whole."
        lines = [f"{title}: {about}\n", "| figure | unit | is |", "|---|---|---|"]
        lines += [f"| `{name}` | {unit or '–'} | {doc} |" for name, _, unit, doc in figures]
        made.append("\n".join(lines) + "\n")
    return "\n" + "\n".join(made) + "\n"


def take_rows(schema, rows):
    """Brings the rows of each list into its part of the schema, which may say more of a figure."""
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


def _form(figure):
    return {key: value for key, value in figure.items() if key != "description"}


def texts():
    """What each file should be."""
    rows, schema = rows_by_list(), json.loads(SCHEMA.read_text())
    take_rows(schema, rows)
    page = BETWEEN.sub(lambda _: tables(rows, schema), PAGE.read_text())
    return {PAGE: page, SCHEMA: json.dumps(schema, indent=2) + "\n"}


def main():
    stale = {file: text for file, text in texts().items() if file.read_text() != text}
    if sys.argv[1:] == ["--check"]:
        return bool(stale)
    for file, text in stale.items():
        file.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
