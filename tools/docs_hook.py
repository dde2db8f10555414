"""Hooks of MkDocs: adds the generated pages: reference, tutorials, and unlisted how-to guides."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import command_line_page
import notebook_pages
import reference_pages
from mkdocs.structure.files import File

DOCS = Path(__file__).resolve().parents[1] / "docs"
GUIDES = "How-to guides"
REFERRAL = "# Environment variables\n\n[Options](../options.md) has the options of a program.\n"


def listed(part):
    """Yields the pages of a part of the navigation."""
    if isinstance(part, str):
        yield part
    else:
        for inner in part.values() if isinstance(part, dict) else part:
            yield from listed(inner)


def with_other_guides(nav):
    """Returns the navigation with the pages of howto/ that it does not list."""
    known = set(listed(nav))
    pages = sorted(f"howto/{path.name}" for path in (DOCS / "howto").glob("*.md"))
    others = [page for page in pages if page not in known]
    if not others:
        return nav
    return [
        {GUIDES: [*part[GUIDES], {"Other tools": others}]} if GUIDES in part else part
        for part in nav
    ]


def environment():
    """Returns the page of environment variables, which options.md has as its last section."""
    return REFERRAL + (DOCS / "options.md").read_text().split("## Environment variables\n")[1]


def on_config(config):
    """Completes the navigation."""
    config["nav"] = with_other_guides(config["nav"])
    return config


def on_files(files, config):
    """Adds the generated pages."""
    pages = [
        *reference_pages.pages(),
        *notebook_pages.pages(),
        ("reference/environment.md", environment()),
        ("reference/command-line.md", command_line_page.page()),
    ]
    for path, text in pages:
        files.append(File.generated(config, path, content=text))
    return files
