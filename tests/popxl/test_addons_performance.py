"""Floating-point operations are counted by op and printed."""

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops


def t(*shape):
    return popxl.constant(np.zeros(shape, np.float32))


def test_products_of_constants_are_counted_by_op():
    ir = popxl.Ir()
    with ir.main_graph:
        _ = t(3, 4) @ t(4, 5)
        _ = t(2, 3, 4) @ t(5, 4).T
        v = t(4)
        _ = v @ v
        _ = t(3, 4) @ v.T
    assert addons.evaluate_FLOPs(ir.main_graph) == {
        "MatMul": {100: 2 * 4 * 15, 102: 2 * 4 * 30, 103: 2 * 4, 105: 2 * 4 * 3},
        "TOT": 2 * 4 * (15 + 30 + 1 + 3),
    }


class Block(addons.Module):
    def build(self, x: popxl.Tensor):
        return ops.gelu(x @ self.add_variable_input("w", lambda: np.zeros((6, 6)))) + 1.0


def program(replication=1):
    ir = popxl.Ir(replication=replication)
    with ir.main_graph:
        facts, graph = Block().create_graph(t(4, 6))
        bound = graph.bind(facts.init())
        outer = ir.create_graph(lambda x: (x / 2.0,), t(4, 6))
        (x,) = bound.call(t(4, 6))
        (x,) = ops.repeat(outer, 5, x)
        _ = ops.layer_norm(x - 1.0, t(6), t(6)) * 2.0
    return ir


def test_calls_nest_and_loops_multiply():
    found = addons.evaluate_FLOPs(program().main_graph)
    total = found.pop("TOT")
    assert sorted(found) == ["Add", "Div", "GroupNormalization", "MatMul", "Mul", "Sub"]
    ((call, inner),) = found["MatMul"].items()
    assert call.startswith("Call_") and call.endswith("(Block)")
    assert list(inner.values()) == [2 * 6 * 24] and call in found["Add"]
    ((loop, inner),) = found["Div"].items()
    assert loop.startswith("Loop_") and list(inner.values()) == [5 * 24]
    assert list(found["Sub"].values()) == list(found["Mul"].values()) == [24]
    assert total == 2 * 6 * 24 + 24 + 5 * 24 + 24 + 24 + 7 * 24


def test_replicas_count():
    one, four = addons.evaluate_ir_FLOPs(program()), addons.evaluate_ir_FLOPs(program(4))
    assert four["TOT"] == 4 * one["TOT"] == addons.total_FLOPs(program(4))
    assert list(four["Sub"].values()) == [96]


FORMATS = [(1_500_000, "nearest3", "1.500E+06"), (999, "nearest3", "999.000E+00")]
FORMATS += [(1000, "nearest3", "1.000E+03"), (0, "nearest3", "0.000E+00")]
FORMATS += [(1_234_567, "K", "1234.567E+03"), (1_234_567, "M", "1.235E+06")]
FORMATS += [(2 * 10**9, "G", "2.000E+09"), (5 * 10**11, "T", "0.500E+12")]


@pytest.mark.parametrize("value, kind, text", FORMATS)
def test_numbers_have_exponents(value, kind, text):
    assert addons.format_flops_scientific(value, kind) == text


@pytest.mark.parametrize("mode", ["type", "flat"])
def test_operations_are_printed(capsys, mode):
    found = addons.evaluate_FLOPs(program().main_graph)
    addons.print_FLOPs(found, mode, numerical_format="K")
    lines = [line.replace("|", " ").split() for line in capsys.readouterr().out.splitlines()]
    assert lines[-1] == ["TOT", "0.648E+03"]
    assert (["MatMul", "0.288E+03"] in lines) is (mode == "type")
    assert any("(Block)" in line[0] for line in lines) is (mode == "flat")
    for wrong in ({"mode": "all"}, {"numerical_format": "P"}):
        with pytest.raises(ValueError):
            addons.print_FLOPs(found, **wrong)
