"""The checks of tools/ report the faults that they are made for."""

import pytest
from load_tool import load_tool


@pytest.fixture
def tree(tmp_path):
    """Writes {path: text} below a temporary folder."""

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
        (
            "emulator/transport/a.cpp",
            '#include "emulator/bound/share.hpp"',
            "emulator/transport must not include emulator/bound/share.hpp",
        ),
        ("news/a.cpp", "", "add its folder to EDGES"),
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


def sources_of(header, count):
    return {f"ir/{i}.cpp": f'#include "{header}"\n' for i in range(count)}


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        (
            {
                "ir/rows.hpp": "",
                "ir/graph.hpp": '#include "ir/rows.hpp"',
                **sources_of("ir/graph.hpp", 4),
            },
            "ir/rows.hpp: 4 source files include it, the limit is 3. "
            "The headers that bring it to most: ir/graph.hpp (4).",
        ),
        (
            {"ir/rows.hpp": "", **sources_of("ir/rows.hpp", 4)},
            "ir/rows.hpp: 4 source files include it, the limit is 3. "
            "The headers that bring it to most: source files alone.",
        ),
        (
            {"include/poptorch/a.hpp": "", **sources_of("poptorch/a.hpp", 6)},
            "include/poptorch/a.hpp: 6 source files include it, the limit is 5.",
        ),
    ],
)
def test_layer_check_reports_a_header_that_reaches_too_far(
    tree, monkeypatch, capsys, files, problem
):
    check = load_tool("check_layers")
    monkeypatch.setattr(check, "ROOT", tree(files))
    monkeypatch.setattr(check, "REACH", {"ir/rows.hpp": 3})
    monkeypatch.setattr(check, "REACH_OF_OTHERS", 5)
    assert check.main() == 1
    assert problem in capsys.readouterr().out


def test_layer_check_counts_a_source_file_once_and_ends_in_a_loop(tree, monkeypatch, capsys):
    check = load_tool("check_layers")
    files = {
        "ir/rows.hpp": '#include "ir/graph.hpp"\n',
        "ir/graph.hpp": '#include "ir/rows.hpp"\n#include "ir/rows.hpp"\n',
        **sources_of("ir/graph.hpp", 3),
    }
    monkeypatch.setattr(check, "ROOT", tree(files))
    monkeypatch.setattr(check, "REACH", {"ir/rows.hpp": 3, "ir/graph.hpp": 3})
    assert check.main() == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("poptorch_cpp/ir/long.cpp", "\n" * 401, "401 lines, the limit is 400"),
        (
            "poptorch_cpp/emulator/kernels/conv/conv.cpp",
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


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.cpp", "// It is no tensor.\nint x;\n", "1: 'is no'"),
        ("a.cpp", "int x;\n// The step\n// goes on.\n", "2: 'goes on'"),
        ("a.cpp", "// By address.\n", "1: a comment begins with 'By'"),
        ("a.cpp", "int x;  // is told of it\n", "1: 'is told'"),
        ("a.cpp", 'auto url = "http://a";  // the others wait in vain\n', "1: 'in vain'"),
        ("a.cpp", 'auto text = "the device goes on with it";\n', "1: 'goes on'"),
        ("a.py", "x = f'{y} is no tensor of it'\n", "1: 'is no'"),
        ("a.py", 'def f():\n    """Of a tensor."""\n', "2: a docstring begins with 'Of'"),
        ("a.py", "x = 1  # made anew\n", "1: 'anew'"),
        ("a.md", "# Title\n\nWhoever reads it waits.\n", "3: 'Whoever'"),
        ("a.md", "Text.\n\n- What it holds\n", "3: a page begins with 'What'"),
    ],
)
def test_word_check_reports(tree, capsys, name, text, problem):
    assert load_tool("check_words").main([tree({name: text})]) == 1
    assert problem in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.cpp", 'auto a = "is no";\nint x;  // by address\nauto b = R"(// goes on)";\n'),
        ("a.py", "x = 'is no'\ny = 1  # of the tensor\n"),
        ("a.md", "By default it stops.\n\n```\nit goes on and on\n```\n\nSee `it is no x`.\n"),
    ],
)
def test_word_check_leaves_code_alone(tree, name, text):
    assert load_tool("check_words").main([tree({name: text})]) == 0


def test_function_check_reports():
    check = load_tool("check_functions")
    lists = [("ops/a.cpp", "add_rows", 80), ("bindings/a.cpp", "bind_a", 80)]
    found = list(check.judge([*lists, ("emulator/run/a.cpp", "advance", 61)]))
    assert "emulator/run/a.cpp: advance has 61 lines" in found[0]
    assert all("no function needs the exception" in problem for problem in found[1:])
    assert len(found) == 1 + len(check.EXCEPTIONS) - len(lists)


def test_limits_of_layers_are_for_headers_that_exist():
    layers = load_tool("check_layers")
    assert [header for header in layers.REACH if not (layers.ROOT / header).is_file()] == []
