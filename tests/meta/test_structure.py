"""Tests rules of the Python sources: no access to another object's private names, no circular
imports.
"""

import ast
from pathlib import Path

import popxl
import pytest
import torch_private_names
from load_tool import ROOT
from popxl._impl.records import of

PYTHON = ROOT / "python"
PACKAGES = {"popart", "popdist", "poptorch", "poptorch_core", "popxl", "popxl_addons"}
# Names by which users and torch know them.
NOT_OURS = {"_pb_ir", "_pb_graph", "_Popart", "_parameters", "_buffers", "_opt_called",
            "_devices", "_timeout"}  # fmt: skip


@pytest.fixture(scope="module")
def sources():
    """Path → syntax tree, of every Python file of the packages."""
    files = sorted(PYTHON.rglob("*.py"))
    return {file.relative_to(PYTHON): ast.parse(file.read_text()) for file in files}


def narrows_a_type(test):
    """Returns whether the condition of an assert says `x is not None` or isinstance(x, ...)."""
    if isinstance(test, ast.Compare):
        return isinstance(test.ops[0], ast.IsNot) and ast.unparse(test.comparators[0]) == "None"
    return isinstance(test, ast.Call) and ast.unparse(test.func) == "isinstance"


def test_asserts_narrow_types_and_check_nothing(sources):
    """`python -O` removes asserts; a check must raise its error itself."""
    checks = [
        f"{file}:{node.lineno}: {ast.unparse(node)}"
        for file, tree in sources.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert) and (node.msg or not narrows_a_type(node.test))
    ]
    assert not checks


def is_private(name):
    return name.startswith("_") and not name.endswith("__") and name not in NOT_OURS


def defined_names(tree):
    """Returns the names of a module's classes, functions and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def private_accesses(sources):
    """Yields `file:line: x._name` where the sources define the name, and x is another object."""
    own = {name for tree in sources.values() for name in defined_names(tree) if is_private(name)}
    for file, tree in sources.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Attribute) or node.attr not in own:
                continue
            if ast.unparse(node.value) not in ("self", "cls", "super()", "type(self)"):
                yield f"{file}:{node.lineno}: {ast.unparse(node)}"


def test_no_module_reaches_into_anothers_objects(sources):
    assert list(private_accesses(sources)) == []


def foreign_private_names(sources):
    """Yields names of `x._name` where x is another object and the sources lack the name."""
    own = {name for tree in sources.values() for name in defined_names(tree) if is_private(name)}
    for tree in sources.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own:
                if ast.unparse(node.value) not in ("self", "cls", "super()", "type(self)"):
                    yield node.attr


def test_private_names_of_torch_are_listed_with_reasons(sources):
    ours = {"_poptorch_watch", "_core", "_torch"}  # classes made at run time; native modules
    found = set(foreign_private_names(sources)) - ours
    known = set(torch_private_names.REASONS)
    assert (found - known, known - found - NOT_OURS) == (set(), set())


def test_private_names_are_imported_by_their_own_module_alone(sources):
    for file, tree in sources.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and file.parts[0] == node.module.split(".")[0]:
                folder = PYTHON / node.module.replace(".", "/")
                for alias in node.names:
                    is_module = (folder / f"{alias.name}.py").exists()
                    is_module |= (folder / alias.name).is_dir() or alias.name in ("_core", "_torch")
                    assert not is_private(alias.name) or is_module, (file, alias.name)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("class A:\n  def _f(self): pass\ndef g(a): return a._f()", 1),
        ("class A:\n  _x: int\ndef g(a): a.b[0]._x = a._x", 2),
        ("class A:\n  def f(self): self._x = self._y.z", 0),
        ("class A(B):\n  def _f(self): return super()._f() + type(self)._f(self)", 0),
        ("def f(torch): return torch._C", 0),
        ("def _f(ir): return ir._pb_ir, ir.__dict__", 0),
    ],
)
def test_accesses_are_found(text, count):
    assert len(list(private_accesses({Path("a.py"): ast.parse(text)}))) == count


def module_name(file):
    parts = file.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(node, modules):
    """Yields the modules that code imports when it runs, without those for types alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names if alias.name in modules)
        elif isinstance(child, ast.ImportFrom):
            for alias in child.names:
                whole = f"{child.module}.{alias.name}"
                yield whole if whole in modules else child.module
        yield from imports(child, modules)


def cycle(graph):
    """Returns the modules in cycles of imports, and those on paths between cycles."""
    graph = {module: set(others) - {module} for module, others in graph.items()}
    while True:
        used = set().union(*graph.values())
        ends = {m for m, others in graph.items() if m not in used or not others & graph.keys()}
        if not ends:
            return sorted(graph)
        graph = {m: others - ends for m, others in graph.items() if m not in ends}


def import_graph(sources):
    modules = {module_name(file) for file in sources}
    return {module_name(file): set(imports(tree, modules)) for file, tree in sources.items()}


def test_no_module_imports_itself_through_others(sources):
    graph = import_graph(sources)
    assert {name.partition(".")[0] for name in graph} == PACKAGES
    assert cycle(graph) == []


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ({"a": "import b", "b": "import c", "c": ""}, []),
        ({"a": "import b", "b": "import c", "c": "import b"}, ["b", "c"]),
        ({"a": "import b", "b": "def f():\n  from a import x"}, ["a", "b"]),
        ({"a": "import b", "b": "if TYPE_CHECKING:\n  import a"}, []),
        ({"p/__init__": "from p import a", "p/a": "from p import b", "p/b": "import p.a"},
         ["p.a", "p.b"]),
    ],
)  # fmt: skip
def test_loops_are_found(texts, found):
    trees = {Path(f"{name}.py"): ast.parse(text) for name, text in texts.items()}
    assert cycle(import_graph(trees)) == found


def public(names):
    return {name for name in names if not name.startswith("_")}


def test_users_see_no_record():
    ir = popxl.Ir()
    with ir.main_graph:
        variable = popxl.variable(1.0)
        stream = popxl.h2d_stream((), popxl.float32)
        buffer = popxl.RemoteBuffer((), popxl.float32, 1)
    shared = {
        ir: {"id", "num_host_transfers"},
        ir.main_graph: {"id", "inputs", "ir", "name", "outputs", "tensors"},
        variable: {"dtype", "id", "ipu", "meta_shape", "retrieval_mode", "shape"},
        stream: {"name", "spec"},
        buffer: {"entries", "meta_shape"},
    }
    for user, documented in shared.items():
        assert public(dir(of(user))) & public(dir(user)) == documented
        assert set(vars(user)) == {"_record"}
