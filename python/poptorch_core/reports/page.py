"""The pages of a report: one HTML file that needs no network.

The file holds the data in parts: JSON, compressed with gzip and encoded in base64. The page unpacks
a part when it needs it. docs/profiling.md describes the structure of the data. Names that users
chose are only in those parts and, escaped, in the title; the page makes text nodes of them. A
content security policy blocks all scripts but the page's, and all network requests.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html as markup
import json
import linecache
import re
from functools import cache
from importlib import resources
from typing import Any

Data = dict[str, Any]

# They form one script in this order: parts that pages use, then the pages in the order of tabs.
SCRIPTS = (
    *("format", "report", "charts", "tables", "search", "details"),
    *("summary", "memory_time", "memory_view", "memory", "lanes", "lanes_view", "execution"),
    *("placement", "graph"),
    *("compile", "compare"),
)
# The paths of those parts of the data that a page unpacks when it is opened.
TABLES = (
    "instructions",
    "memory.always",
    "memory.allocations",
    "execution.events",
    "graph.modules",
    "graph.crossings",
)
SOURCE_FILE = re.compile(r"\.(py|pyi|cpp|hpp|cc|h)$")
LONGEST_LINE = 300  # characters of a source line


def html(data: Data, other: Data | None = None) -> str:
    """Makes the HTML file of a report.

    Args:
        data: The content of report.json.
        other: Another report's data, which the page of comparisons shows beside it.

    Returns:
        The text of the file. It includes those source lines that can be read now.
    """
    library = _asset("echarts/echarts.min.js")
    script = _script()
    pinned = json.loads(_asset("echarts/pinned.json"))
    rest = {"echarts": _packed(library), **_parts(data, other)}
    values = {
        "POLICY": " ".join(f"'sha256-{_digest(text)}'" for text in (script, library)),
        "TITLE": markup.escape(data["model"]["name"] or "report"),
        "STYLE": _asset("report.css"),
        "VERSION": markup.escape(data["model"]["library_version"]),
        "LIBRARY": f"{pinned['name']} {pinned['version']}",
        "LICENCES": markup.escape("\n\n".join(_asset(f"echarts/{n}") for n in pinned["licences"])),
        "FIRST": _element("head", _packed(json.dumps(_head(data)))),
        "SCRIPT": script,
        "REST": "\n".join(_element(name, packed) for name, packed in rest.items()),
    }
    return re.sub(r"@([A-Z]+)@", lambda found: values[found[1]], _asset("report.html"))


@cache
def _asset(name: str) -> str:
    return (resources.files("poptorch_core.reports") / "assets" / name).read_text("utf-8")


@cache
def _script() -> str:
    parts = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    return f'"use strict";\n(() => {{\n{parts}\nstart();\n}})();\n'


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _packed(text: str) -> str:
    # mtime is 0, so that the same data gives the same file.
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()


def _element(name: str, packed: str) -> str:
    return f'<script type="application/octet-stream" id="blob-{name}">{packed}</script>'


def _at(data: Data, path: str) -> Any:
    for key in path.split("."):
        data = data[key]
    return data


def _head(data: Data) -> Data:
    """Returns the data that every page needs: all but tables and their texts."""
    head = {key: data[key] for key in ("model", "target", "options", "summary", "measured")}
    return {
        **head,
        "advice": data.get("advice", []),
        "ipus": data["ipus"],
        "stages": data["stages"],
        "collectives": data.get("collectives", []),
        "compile": data["compile"],
        "memory": {key: data["memory"][key] for key in ("ipus", "streaming")},
        "execution": {key: part for key, part in data["execution"].items() if key != "events"},
    }


def _parts(data: Data, other: Data | None) -> dict[str, str]:
    parts = {path: _at(data, path) for path in TABLES}
    parts["strings"] = data["strings"]
    parts["sources"] = _sources(data)
    parts["graph.forms"] = data["graph"]["forms"]
    if other is not None:
        parts["other"] = _compared(other)
    return {name: _packed(json.dumps(part, separators=(",", ":"))) for name, part in parts.items()}


def _sources(data: Data) -> dict[str, str]:
    """Returns the source lines of the instructions, by file:line."""
    rows, strings = data["instructions"], data["strings"]
    places = sorted(set(zip(rows["file"], rows["line"], strict=True)))
    found = {}
    for file, line in places:
        name = strings[file]
        if line > 0 and SOURCE_FILE.search(name):
            text = linecache.getline(name, line).rstrip()
            if text:
                found[f"{name}:{line}"] = text[:LONGEST_LINE]
    return found


def _compared(other: Data) -> Data:
    """Returns another report's data for a comparison, as reduceReport in compare.js does."""
    modules = other["graph"]["modules"]
    paths = [other["strings"][path] for path in modules["path"]]
    head = {key: other[key] for key in ("model", "target", "summary", "compile")}
    return {
        "head": {**head, "memory": {"ipus": other["memory"]["ipus"]}},
        "modules": {**modules, "path": paths},
    }
