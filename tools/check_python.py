"""Checks the structure of the Python packages: no circular imports, no access to private names of
another object, no private name imported elsewhere, no assert that validates input.

Prints circular imports that exist only for type checkers, which are allowed.
"""

import ast
import sys
from pathlib import Path

import torch_private_names

PYTHON = Path(__file__).resolve().parent.parent / "python"
PACKAGES = {"popart", "popdist", "poptorch", "poptorch_core", "popxl", "popxl_addons"}
# Names by which users and torch know them.
NOT_OURS = {"_pb_ir", "_pb_graph", "_Popart", "_parameters", "_buffers", "_opt_called",
            "_devices", "_timeout"}  # fmt: skip
# Names in classes that are made at run time, and of the native modules.
MADE_LATER = {"_poptorch_watch", "_core", "_torch"}
OWN = ("self", "cls", "super()", "type(self)")


def sources():
    """Returns the syntax trees of all Python files of the packages by their paths."""
    files = (file for file in sorted(PYTHON.rglob("*.py")) if "egg-info" not in str(file))
    return {file.relative_to(PYTHON): ast.parse(file.read_text()) for file in files}


def narrows_a_type(test):
    """Returns whether the condition of an assert says `x is not None` or isinstance(x, ...)."""
    if isinstance(test, ast.Compare):
        return isinstance(test.ops[0], ast.IsNot) and ast.unparse(test.comparators[0]) == "None"
    return isinstance(test, ast.Call) and ast.unparse(test.func) == "isinstance"


def asserts_of_input(trees):
    """Yields asserts that do more than narrow a type. `python -O` removes them."""
    for file, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Assert) and (node.msg or not narrows_a_type(node.test)):
                yield f"{file}:{node.lineno}: an assert checks input: {ast.unparse(node)}"


def is_private(name):
    return name.startswith("_") and not name.endswith("__") and name not in NOT_OURS


def defined_names(tree):
    """Yields the names of a module's classes, functions and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def _accesses(trees):
    """Yields (file, node, whether the sources define the name) of each private `x._name`."""
    own = {name for tree in trees.values() for name in defined_names(tree) if is_private(name)}
    for file, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and is_private(node.attr):
                if ast.unparse(node.value) not in OWN:
                    yield file, node, node.attr in own


def private_accesses(trees):
    """Yields accesses to private names that the sources define, of another object."""
    for file, node, is_own in _accesses(trees):
        if is_own:
            yield f"{file}:{node.lineno}: private name of another object: {ast.unparse(node)}"


def unlisted_torch_names(trees):
    """Yields private names of torch without a reason, and reasons without a use."""
    found = {node.attr for _, node, is_own in _accesses(trees) if not is_own} - MADE_LATER
    known = set(torch_private_names.REASONS)
    for name in sorted(found - known):
        yield f"torch's private name {name} needs a reason in torch_private_names.py"
    for name in sorted(known - found - NOT_OURS):
        yield f"torch_private_names.py has {name}, which nothing uses"


def private_imports(trees):
    """Yields private names that another module imports from the module that defines them."""
    for file, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and file.parts[0] == node.module.split(".")[0]:
                folder = PYTHON / node.module.replace(".", "/")
                for alias in node.names:
                    is_module = (folder / f"{alias.name}.py").exists()
                    is_module |= (folder / alias.name).is_dir() or alias.name in ("_core", "_torch")
                    if is_private(alias.name) and not is_module:
                        yield f"{file}:{node.lineno}: imports the private name {alias.name}"


def module_name(file):
    parts = file.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(node, modules, for_types=False):
    """Yields the imported modules of code, inside functions too.

    for_types: with those that only type checkers import.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            if not for_types:
                continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names if alias.name in modules)
        elif isinstance(child, ast.ImportFrom):
            for alias in child.names:
                whole = f"{child.module}.{alias.name}"
                yield whole if whole in modules else child.module
        yield from imports(child, modules, for_types)


def cycle(graph):
    """Returns the modules in cycles of imports, and those on paths between cycles."""
    graph = {module: set(others) - {module} for module, others in graph.items()}
    while True:
        used = set().union(*graph.values())
        ends = {m for m, others in graph.items() if m not in used or not others & graph.keys()}
        if not ends:
            return sorted(graph)
        graph = {m: others - ends for m, others in graph.items() if m not in ends}


def import_graph(trees, for_types=False):
    """Returns the modules that each module imports."""
    modules = {module_name(file) for file in trees}
    return {
        module_name(file): set(imports(tree, modules, for_types)) for file, tree in trees.items()
    }


def problems(trees):
    """Yields a line for each rule that a file breaks."""
    for check in (asserts_of_input, private_accesses, unlisted_torch_names, private_imports):
        yield from check(trees)
    if found := cycle(import_graph(trees)):
        yield f"circular imports: {', '.join(found)}"


def main():
    trees = sources()
    found = list(problems(trees))
    for_types = cycle(import_graph(trees, for_types=True))
    print(f"python: these import one another for type checkers only: {', '.join(for_types)}")
    print("\n".join(found) or f"python: {len(trees)} files keep the rules of the packages")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
