"""Tests the check of the Python packages, and what users see of popxl's records."""

import ast
from pathlib import Path

import popxl
import pytest
from load_tool import load_tool
from popxl._impl.records import of

check = load_tool("check_python")


def trees(texts):
    return {Path(f"{name}.py"): ast.parse(text) for name, text in texts.items()}


def test_all_packages_are_checked():
    assert {path.parts[0] for path in check.sources()} == check.PACKAGES


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
    assert len(list(check.private_accesses(trees({"a": text})))) == count


@pytest.mark.parametrize(
    ("text", "count"),
    [("assert x is not None", 0), ("assert isinstance(x, int)", 0), ("assert x > 0", 1),
     ("assert x is not None, 'no x'", 1)],
)  # fmt: skip
def test_asserts_are_found(text, count):
    assert len(list(check.asserts_of_input(trees({"a": text})))) == count


def test_private_names_of_torch_need_a_reason():
    found = list(check.unlisted_torch_names(trees({"a": "import torch\ntorch._nothing_of_it"})))
    assert (
        found[0] == "torch's private name _nothing_of_it needs a reason in torch_private_names.py"
    )
    assert all("which nothing uses" in line for line in found[1:])


def test_private_imports_are_found():
    found = list(check.private_imports({Path("poptorch/a.py"): ast.parse(
        "from poptorch.options import _hidden\nfrom poptorch import _native")}))  # fmt: skip
    assert found == ["poptorch/a.py:1: imports the private name _hidden"]


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
    assert check.cycle(check.import_graph(trees(texts))) == found


def test_loops_for_type_checkers_are_told_apart():
    texts = trees({"a": "import b", "b": "if TYPE_CHECKING:\n  import a"})
    assert check.cycle(check.import_graph(texts, for_types=True)) == ["a", "b"]


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
