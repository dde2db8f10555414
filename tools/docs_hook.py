"""Hooks of MkDocs: adds the generated pages of the reference to the site."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import reference_pages
from mkdocs.structure.files import File


def on_files(files, config):
    """Adds the generated pages."""
    for path, text in reference_pages.pages():
        files.append(File.generated(config, path, content=text))
    return files
