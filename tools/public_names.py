"""Lists the public names of a Python module from its sources, without importing it.

A module's public names are those of `__all__`, or else the names that it defines, re-exports with
`import x as x`, or takes from another module with `import *`.
"""

import ast
from functools import cache
from pathlib import Path

PYTHON = Path(__file__).resolve().parents[1] / "python"


def path_of(module):
    """Returns the source file of a module, or None if it is not ours."""
    path = PYTHON.joinpath(*module.split("."))
    found = [file for file in (path / "__init__.py", path.with_suffix(".py")) if file.exists()]
    return found[0] if found else None


def _listed(tree):
    """Returns the texts of `__all__`, or None; names that are computed are not among them."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            texts = (item for item in ast.walk(node.value) if isinstance(item, ast.Constant))
            return [text.value for text in texts]
    return None


def _defined(node):
    """Returns the names that a statement of a module defines."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.AnnAssign):
        return [ast.unparse(node.target)]
    if isinstance(node, ast.Assign):
        return [ast.unparse(target) for target in node.targets]
    return []


def _imported(node, module):
    """Returns the names that a module's statement re-exports, without those of its submodules."""
    if not isinstance(node, ast.ImportFrom):
        return []
    found = []
    for alias in node.names:
        if alias.name == "*":
            found += _own(node.module)
        elif alias.asname == alias.name and node.module != module:
            found.append(alias.name)
    return found


@cache
def _own(module):
    """Returns what `import *` takes from a module."""
    tree = ast.parse(path_of(module).read_text())
    listed = _listed(tree)
    if listed is None:
        listed = [name for node in tree.body for name in _defined(node) if not name.isupper()]
    return [name for name in listed if not name.startswith("_")]


@cache
def names_of(module):
    """Returns the public names of a module, in the order of the source, each once."""
    tree = ast.parse(path_of(module).read_text())
    found = []
    for node in tree.body:
        found += _imported(node, module)
        if not isinstance(node, ast.Assign):
            found += _defined(node)
    if (listed := _listed(tree)) is not None:
        found += listed
    return list(dict.fromkeys(name for name in found if not name.startswith("_")))
