"""Tests the popart package: ops of graphs, session options, errors, enumerations."""

import re

import numpy as np
import popart
import popart._internal.ir as _ir
import popxl
import pytest
from popart import popart_exception, refused
from poptorch_core.errors import RecoverableError
from popxl import ops
from popxl.errors import UnsupportedError, compiling


def test_graphs_show_their_ops():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        v = popxl.variable(np.ones(2), popxl.float32, name="v")
        ops.add_(v, v * 2.0)
    found = ir.main_graph._pb_graph.getOps()
    assert [op.opType() for op in found] == ["Mul", "AddLhsInplace"]
    assert isinstance(found[0], _ir.op.MulOp) and not isinstance(found[1], _ir.op.MulOp)
    assert found[0].getInputIds()[0] == "v" and found[0].getOutputIds() == ["mul_out"]
    assert found[1].id == 101
    assert len(ir._pb_ir.getAllGraphs()) == 1


def test_op_created_hooks_see_ops_of_their_graph_alone():
    ir = popxl.Ir()
    seen = []
    with ir.main_graph:
        v = popxl.variable(np.ones(2), popxl.float32)
        handle = ir.main_graph.register_op_created_hook(lambda op: seen.append(op))
        ops.call(ir.create_graph(lambda x: -x, v), v)
        ir.main_graph.remove_op_created_hook(handle)
        _ = v + v
    (call,) = seen
    assert isinstance(call, _ir.op.CallOp) and call.opType() == "Call"


def test_session_options_are_kept_and_checked():
    ir = popxl.Ir()
    options = ir._pb_ir.getSessionOptions()
    options.numIOTiles = 32
    assert ir._pb_ir.getSessionOptions().numIOTiles == 32
    with pytest.raises(AttributeError, match="no session option 'nonsense'"):
        options.nonsense = 1
    options.partialsTypeMatMuls = "double"
    with ir.main_graph, pytest.raises(ValueError, match="partialsTypeMatMuls"):
        t = popxl.constant(np.ones((2, 2)), popxl.float32)
        _ = t @ t


def test_errors_are_popxls():
    assert issubclass(popart_exception, popxl.errors.Error)


def written_on_two_ipus():
    """Returns a session of a program whose called graphs write one variable on IPUs 0 and 1."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        v = popxl.variable(np.ones(2), popxl.float32, name="v")
        for ipu in range(2):

            def double(v: popxl.TensorByRef, ipu=ipu):
                with popxl.ipu(ipu):
                    ops.add_(v, v * 1.0)

            ops.call(ir.create_graph(double, v), v)
    return popxl.Session(ir, "ipu_hw")


def second_derivative():
    """Makes the gradient graph of a gradient graph whose op has no gradient."""
    ir = popxl.Ir()
    with ir.main_graph:
        x, weight = (popxl.TensorSpec(shape, popxl.float32) for shape in ((2, 4), (4,)))
        graph = ir.create_graph(ops.layer_norm, x, weight, weight)
        return popxl.transforms.autodiff(popxl.transforms.autodiff(graph).graph)


@pytest.mark.parametrize(
    "refused, text, frame",
    [
        (
            written_on_two_ipus,
            r"^\[partition\] .*'v' is used on IPU 0 .* on IPU 1.*PopXL, ops.ipu_copy",
            "place_ops",
        ),
        (second_derivative, r"^\[autodiff\] .*second derivatives of layer_norm", None),
    ],
)
def test_what_the_compiler_refuses_is_a_popart_exception(refused, text, frame):
    with pytest.raises(popart_exception) as info:
        refused()
    error = info.value
    assert type(error) is popart.popart_exception and error.__cause__ is None
    assert re.search(text, error.message) and error.message in str(error)
    assert error.type == "poptorch_cpp_error"
    assert frame is None or error.location == f"  [0] pass {frame}\n  [1] compile"


def test_only_the_compilers_own_errors_change_their_class():
    for error in (RecoverableError("reset"), UnsupportedError("missing"), ValueError("size")):
        with pytest.raises(type(error)) as info, compiling():
            raise error
        assert info.value is error


@pytest.mark.parametrize("name", refused.NAMES)
def test_names_without_meaning_are_refused_where_they_are_used(name):
    kind = getattr(popart, name)
    with pytest.raises(UnsupportedError, match=f"popart.{name} is part of PopART"):
        kind()


def test_enums_are_popxls_or_values_to_hand_on():
    assert popart.TileSet is popxl.TileSet
    assert popart.CommGroupType is popxl.ops.collectives.CommGroupType
    assert popart.ReductionType.Mean is not popart.ReductionType.Sum
    assert popart.VirtualGraphMode.Manual.name == "Manual"
