"""Texts and names with unusual characters cause poptorch errors that name the place.

They cause no error of Python's codecs or of pybind11, and do not end the process.
"""

import re
import subprocess
import sys

import numpy as np
import poptorch
import popxl
import pytest
import torch
from poptorch_core import _core
from popxl import ops

SURROGATE, BYTES = "\ud800", b"\xff"
IDENTITY = "graph @main(%x: f32[2]) -> (f32[2]) {\n  return %x\n}\n"


@pytest.mark.parametrize("wrong", [SURROGATE, BYTES], ids=["surrogate", "bytes"])
@pytest.mark.parametrize("before", ['state "', "", "// größe\n  "])
def test_text_that_is_not_utf8_is_refused_where_it_stands(wrong, before):
    text = before + wrong if isinstance(wrong, str) else before.encode() + wrong
    line = before.count("\n") + 1
    column = len(before.encode().split(b"\n")[-1]) + 1
    with pytest.raises(poptorch.Error, match=rf"\[parse\] text:{line}:{column}: .*not UTF-8"):
        _core.parse(text)


@pytest.mark.parametrize("name", [SURROGATE, BYTES], ids=["surrogate", "bytes"])
@pytest.mark.parametrize(
    "call",
    [
        lambda name: _core.Module().add_graph(name),
        lambda name: _core.Module().add_state(name, ("f32", [1])),
        lambda name: _core.Module().add_stream(name, ("f32", [1]), True),
        lambda name: _core.Module().add_remote_buffer(name, ("f32", [1]), 1),
        lambda name: _core.Module().add_graph("main").add_input(("f32", [1]), name),
        lambda name: _core.Module().add_graph("main").add_input((name, [1]), "x"),
        lambda name: _core.Module().add_graph("main").emit(name, []),
        lambda name: iota({}, scope=name),
        lambda name: iota({name: 1}),
        lambda name: iota({"dtype": name}),
        lambda name: _core.parse(IDENTITY, origin=name),
        lambda name: _core.run_pass(_core.parse(IDENTITY), name),
        lambda name: _core.compile(_core.parse(IDENTITY)).text(name),
        lambda name: _core.compile(_core.parse(IDENTITY)).read_state(name),
    ],
)
def test_core_refuses_names_that_are_not_utf8(call, name):
    with pytest.raises(poptorch.Error, match=r"cannot be written as UTF-8|no element type"):
        call(name)


def iota(attrs, **keywords):
    attrs = {"dtype": "i32", "size": 2} | attrs
    return _core.Module().add_graph("main").emit("iota", [], attrs, **keywords)


@pytest.mark.parametrize(
    "attrs, reason",
    [
        ({"size": 2**70}, "attribute 'size' must be int but is 1180591620717411303424"),
        ({"size": -1}, "attribute 'size' must be at least 0"),
        ({"size": "2"}, "attribute 'size' must be int but is '2'"),
        ({"start": SURROGATE}, "attribute 'start' must be float"),
    ],
)
def test_attributes_from_python_are_checked(attrs, reason):
    with pytest.raises(poptorch.Error, match=reason):
        iota(attrs)


@pytest.mark.parametrize("shape", [[-1], [2**40], [2**20, 2**20], [1] * 65])
def test_shapes_from_python_are_checked(shape):
    with pytest.raises(poptorch.Error, match=r"\[ir\] "):
        _core.Module().add_graph("main").add_input(("f32", shape), "x")


def scoped(name):
    with popxl.name_scope(name):
        popxl.constant(1.0)


def print_tensor(name):
    ops.print_tensor(popxl.variable(np.zeros(2, np.float32)), name)


@pytest.mark.parametrize(
    "call",
    [
        lambda: popxl.variable(np.zeros(2, np.float32), name=SURROGATE),
        lambda: ops.host_load(popxl.h2d_stream((2,), popxl.float32, name=SURROGATE)),
        lambda: print_tensor(SURROGATE),
        lambda: scoped(SURROGATE),
    ],
)
def test_popxl_refuses_names_that_are_not_utf8(call):
    with popxl.Ir().main_graph, pytest.raises(poptorch.Error, match="cannot be written as UTF-8"):
        call()


class Scoped(torch.nn.Module):
    def forward(self, x):
        with poptorch.NameScope(SURROGATE):
            return x + 1


def test_torch_refuses_names_that_are_not_utf8():
    named_layer = torch.nn.Sequential()
    named_layer.add_module(SURROGATE, torch.nn.Linear(2, 2))
    for model in (Scoped(), named_layer):
        with pytest.raises(poptorch.Error, match="cannot be written as UTF-8"):
            poptorch.inferenceModel(model)(torch.ones(1, 2))


def test_graphs_of_any_name_print_and_parse_back():
    ir = popxl.Ir()
    with ir.main_graph:
        graph = ir.create_graph(lambda x: x + x, popxl.TensorSpec((2,), popxl.float32))
        ops.call(graph, popxl.variable(np.zeros(2, np.float32)))
    module = _core.Module()
    for name in ("<lambda>", "größe", 'a "b"', "main"):
        module.add_graph(name)
    assert _core.parse(module.text()).equals(module)


# In a separate process: each of these once ended the process.
FATAL = {
    "layer_norm of a scalar": """graph @main(%x: f32[]) -> () {
  %y, %mean, %inv_std = layer_norm(%x) : f32[], f32[], f32[]
  return
}""",
    "groups of two": 'state "w" : f32[2] {group_size=2}\n' + IDENTITY,
    "groups of minus one": 'state "w" : f32[2] {group_size=-1}\n' + IDENTITY,
    "groups of 2**32": 'state "w" : f32[2] {group_size=4294967296}\n' + IDENTITY,
    "a tensor larger than the host": """graph @main(%x: f32[]) -> (f32[68719476736]) {
  %y = broadcast_to(%x) {shape=[68719476736]} : f32[68719476736]
  %z = exp(%y) : f32[68719476736]
  return %z
}""",
    "an IPU that there is not": IDENTITY.replace(
        "return", "%y = relu(%x) : f32[2] @[ipu=4294967296]\n  return"
    ),
    "quotients of the least integer": """graph @main() -> (i64[]) {
  %a = constant() {value=dense<i64[]: -9223372036854775808>} : i64[]
  %b = constant() {value=dense<i64[]: -1>} : i64[]
  %c = floor_div(%a, %b) : i64[]
  return %c
}""",
}


@pytest.mark.parametrize("title", FATAL)
def test_texts_that_once_ended_the_process(title):
    program = (
        "from poptorch_core import _core\n"
        "try:\n"
        f"    _core.compile(_core.parse({FATAL[title]!r}))\n"
        "except _core.Error as error:\n"
        "    print(error)\n"
        "print('alive')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith("alive")
    if title != "quotients of the least integer":
        start = r"In \w+\.cpp:\d+: 'poptorch_cpp_error': \["
        assert re.match(start, done.stdout), done.stdout
