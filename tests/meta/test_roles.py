"""C++ code distinguishes ops by their properties (`ir::Role` and others), not by lists of names.

A comparison of an op's name with a literal must concern that op alone, and is listed here.
"""

import re

import pytest
from load_tool import ROOT
from poptorch_core import _core

SOURCES = ROOT / "poptorch_cpp"
# File → the ops that it rewrites or runs. Code that asks whether an op is one of several uses a
# role.
ABOUT = {
    "emulator/bind/plan.cpp": {"assign"},
    "emulator/bind/strided_views.cpp": {"broadcast_to", "slice", "transpose"},
    "emulator/bound/collective_spec.cpp": {
        "all_gather",
        "all_reduce",
        "all_to_all",
        "reduce_scatter",
    },
    "emulator/kernels/tile/tile_ending.cpp": {"add", "clamp", "relu", "scale_shift"},
    "emulator/kernels/tile/tile_program.cpp": {"stochastic_cast"},
    "emulator/kernels/tile/tile_random_ending.cpp": {
        "add",
        "cast",
        "clamp",
        "relu",
        "scale_shift",
        "stochastic_cast",
    },
    "emulator/kernels/tile/tile_hold.cpp": {"cast"},
    "emulator/kernels/tile/tile_shorten.cpp": {
        "accumulate",
        "add",
        "assign",
        "cast",
        "div",
        "mul",
        "select",
    },
    "program/collective_cost.cpp": {"all_gather", "all_reduce", "all_to_all", "reduce_scatter"},
    "partition/recompute.cpp": {"batch_norm", "dropout"},
    "transforms/canonicalise.cpp": {"slice"},
    "transforms/lower_optimiser.cpp": {"stochastic_cast"},
    "transforms/slice_sums.cpp": {"insert_slice"},
}
OPS = set(_core.op_names())
# Ops whose names are also words of options and attributes: only comparisons with an expression that
# looks like the name of an op count.
WORDS = {
    "add", "all", "constant", "custom", "floor", "max", "mean", "min", "mul", "prod", "sum", "tanh",
    "trunc", "variable",
}  # fmt: skip
# Places of rows: kernels and torch's ops are found by name, and a row may serve several.
TABLES = ("emulator/kernels/", "frontends/torch/aten/", "ops/", "reference/")

OPERAND = r"[\w.:>()\[\]*-]+"
LITERAL = r'(?:[\w:]+[({]\s*)*"(\w+)"\w*[)}]*'
COMPARISONS = re.compile(rf"({OPERAND})\s*[!=]=\s*{LITERAL}|{LITERAL}\s*[!=]=\s*({OPERAND})")
# Names in a constant, or looked up in a set.
CONSTANTS = re.compile(rf"({OPERAND})\s*[!=]=\s*k[A-Z]\w*\b|\bk[A-Z]\w*\s*[!=]=\s*({OPERAND})")
LOOKUPS = re.compile(rf"\.(?:count|contains)\s*\(\s*({OPERAND})\)")
# `->is(anything)`, and parts of names.
CALLS = re.compile(r'(?:->|\.)is(?:_any)?\s*\(\s*(?:[\w:]+[({]\s*)?(?:"(\w+)"|\w+\s*\))')
PARTS = re.compile(
    rf'({OPERAND})\.(?:starts_with|ends_with|compare|find|contains)\s*\([^"()]*"(\w+)"'
)
LISTS = re.compile(r'\{\s*((?:"\w+"\w*\s*,\s*)+"\w+"\w*)\s*,?\s*\}')


def is_op_name(expression):
    return re.search(r"(\bop|name)(\(\))?(->name|\.text\(\)|\.c_str\(\))?[()]*$", expression)


def op_names_in(text, lists=True):
    """Returns the ops, or parts of names, that C++ compares names with; "?" if not a literal."""
    text = re.sub(r"//.*", "", text)
    found = [match[1] or "?" for match in CALLS.finditer(text)]
    for match in COMPARISONS.finditer(text):
        expression, name = match[1] or match[4], match[2] or match[3]
        if name in OPS and (name not in WORDS or is_op_name(expression)):
            found.append(name)
    for pattern in (CONSTANTS, LOOKUPS):
        for match in pattern.finditer(text):
            expression = next(filter(None, match.groups()))
            if re.search(r"\b(op|def)\b.*\b(name|text)\b", expression):
                found.append("?")
    for match in PARTS.finditer(text):
        part = match[2]
        if is_op_name(match[1]) and any(op.startswith(part) or op.endswith(part) for op in OPS):
            found.append(part)
    for match in LISTS.finditer(text):
        names = re.findall(r'"(\w+)"', match[1])
        if lists and OPS.issuperset(names):
            found += names
    return set(found)


def test_ops_are_told_apart_by_their_rows():
    found = {}
    for file in sorted(SOURCES.rglob("*.[ch]pp")):
        name = str(file.relative_to(SOURCES))
        names = op_names_in(file.read_text(), lists=not name.startswith(TABLES))
        if names:
            found[name] = names
    assert found == ABOUT  # an unused entry of the table is an error, too


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('if (op.is("cast")) return;', {"cast"}),
        ('while (op && op->is( "reshape" )) op = next;', {"reshape"}),
        ("for (const char* name : kNames) found |= op.is(name);", {"?"}),
        ('return op.name() == "cast";', {"cast"}),
        ('return "cast"s != op.def().name;', {"cast"}),
        ('return std::string_view("cast") == anything;', {"cast"}),
        ('const auto& known = op.name(); return known == Symbol("cast");', {"cast"}),
        ('return instruction.op.text() == "sum" || reduction == "sum";', {"sum"}),
        ('return reduction == "mean" || attr<std::string>("reduction") == "mean";', set()),
        ('return request.op->name == "mean";', {"mean"}),
        ('return std::string(op.name) == "aten_vjp";', {"aten_vjp"}),
        ('static const char kCast[] = "cast"; return op->name() == kCast;', {"?"}),
        ("return slow.count(step.op.text()) || fast.contains(op->def().name);", {"?"}),
        ("return slots.count(slot.name) || module.main().name() == kMain;", set()),
        ('return a.op().starts_with("softmax");', {"softmax"}),
        ('return path.starts_with("aten::") || name.ends_with("_");', set()),
        ('std::set<std::string> kSlow = {"conv", "matmul"};', {"conv", "matmul"}),
        ('kWords = {"all", "every_n", "final", "sum"};', set()),
        ('// the op whose name() == "cast"', set()),
        ('builder.value("cast", {x}, {{"dtype", dtype}});', set()),
        ("return op.role() == Role::kCast;", set()),
    ],
)
def test_comparisons_are_found(text, names):
    assert op_names_in(text) == names
