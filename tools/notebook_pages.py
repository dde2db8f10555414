"""The tutorials as pages: the cells of notebooks with their stored outputs."""

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Folders of notebooks, in the order of the site.
FOLDERS = ("docs/tutorials", "examples/notebooks")


def notebooks():
    """Returns the paths of all notebooks that are tutorials."""
    return [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.ipynb"))]


def page_of(path):
    """Returns the path of a notebook's page on the site."""
    return f"tutorials/{path.stem.replace('_', '-')}.md"


def text_of(path):
    """Returns a notebook as Markdown. Links to other notebooks become links to their pages."""
    parts = []
    for cell in json.loads(path.read_text())["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source.replace(".ipynb)", ".md)"))
            continue
        parts.append(f"```python\n{source}\n```")
        printed = "".join("".join(output.get("text", [])) for output in cell["outputs"])
        if printed.strip():
            parts.append(f"```text\n{printed.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def pages():
    """Yields (path on the site, text) of all tutorials."""
    for path in notebooks():
        yield page_of(path), text_of(path)
