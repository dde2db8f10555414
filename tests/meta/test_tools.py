"""The checks of tools/ find what they are there for."""

import pytest
from load_tool import load_tool


@pytest.fixture
def tree(tmp_path):
    """Writes {path: text} below a folder of its own."""

    def write(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("ir/a.cpp", '#include "ops/rows.hpp"', "ir must not include ops/rows.hpp"),
        ("target/a.hpp", '#include "ir/type.hpp"', "target must not include ir/type.hpp"),
        ("session/a.cpp", "#include <ATen/ATen.h>", "ATen/ATen.h may only be included in"),
        ("emulator/a.cpp", "#include <dnnl.hpp>", "dnnl.hpp may only be included in"),
        ("ir/log.cpp", "#include <spdlog/spdlog.h>", "spdlog/spdlog.h may only be included in"),
        ("session/a.cpp", "# include <pybind11/pybind11.h>", "may only be included in bindings/"),
    ],
)
def test_layer_check_reports_forbidden_edge(tree, monkeypatch, capsys, name, text, problem):
    check = load_tool("check_layers")
    monkeypatch.setattr(check, "ROOT", tree({name: text}))
    assert check.main() == 1
    assert problem in capsys.readouterr().out


def test_layer_check_accepts_transitive_edges(tree, monkeypatch):
    check = load_tool("check_layers")
    files = {
        "session/a.cpp": '#include "support/error.hpp"\n#include "lowering/lower.hpp"',
        "emulator/kernels/a.cpp": "#include <dnnl.hpp>",
        "bindings/core_module.cpp": "#include <pybind11/pybind11.h>",
    }
    monkeypatch.setattr(check, "ROOT", tree(files))
    assert check.main() == 0


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("poptorch_cpp/ir/long.cpp", "\n" * 801, "801 lines, the limit is 800"),
        (
            "poptorch_cpp/emulator/kernels/conv.cpp",
            "dnnl::primitive_attr attr;",
            "make dnnl::primitive_attr through",
        ),
    ],
)
def test_source_check_reports(tree, monkeypatch, capsys, name, text, problem):
    check = load_tool("check_sources")
    monkeypatch.setattr(check, "ROOT", tree({name: text}))
    monkeypatch.setattr(check, "tracked_files", lambda: [name])
    assert check.main() == 1
    assert problem in capsys.readouterr().out


def test_tree_holds_layers_and_lengths():
    assert load_tool("check_layers").main() == 0
    assert load_tool("check_sources").main() == 0
