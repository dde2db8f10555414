"""Returns the text of docs/report-json.md, made from the schema of reports."""

HEAD = """# report.json

`write_report`, `enableProfiling` and `python -m poptorch report` write this file beside the page.
`python tools/write_report_figures.py` makes this description from
`python/poptorch_core/reports/report.schema.json`, which is the full description.

A *table* is an object of columns of equal length: entry `i` of each column belongs to row `i`. A
column of *texts* holds indices into `strings`, whose first entry is empty. An *index* is -1 if it
points at nothing. Sizes are in bytes. Times are in cycles of the device's clock, unless
their name ends in `_seconds`.
"""
REFERENCES = {"counts": "numbers", "indices": "indices", "texts": "texts"}


def text(schema):
    """Returns the page: a section for each key of the report, a row for each figure in it."""
    parts = [HEAD]
    for name, node in schema["properties"].items():
        rows = list(_rows(node, ""))
        parts.append(f"\n## {name}\n\n{node['description']}\n")
        if rows:
            parts.append("\n| key | type | meaning |\n|---|---|---|\n")
            parts += [f"| `{path}` | {kind} | {about} |\n" for path, kind, about in rows]
    return "".join(parts)


def _rows(node, path):
    """Yields (path, type, description) of everything below a node, in the order of the schema."""
    for name, child in _children(node):
        below = f"{path}.{name}" if path else name
        yield below, _kind(child), child.get("description", "").replace("|", "\\|")
        yield from _rows(child, below)


def _children(node):
    """Returns the named parts of an object, of the entries of a list, or of the values of a
    mapping."""
    while True:
        if "properties" in node:
            return node["properties"].items()
        inner = node.get("items") or node.get("additionalProperties")
        if not isinstance(inner, dict):
            return ()
        node = inner


def _kind(node):
    if "$ref" in node:
        return f"column of {REFERENCES[node['$ref'].rpartition('/')[2]]}"
    if "enum" in node:
        return ", ".join(f"`{value}`" for value in node["enum"])
    if "const" in node:
        return f"`{node['const']}`"
    if node.get("type") == "array":
        return f"list of {_kind(node['items'])}" if "items" in node else "list"
    if node.get("type") == "object" and isinstance(node.get("additionalProperties"), dict):
        return f"mapping of {_kind(node['additionalProperties'])}"
    return node.get("type", "any value")
