"""Tests helpers of popxl_addons: data in files, hints for hardware."""

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popart._internal import ir as _ir
from popxl import ops

rng = np.random.default_rng(12)
X = rng.uniform(-1, 1, (4, 6)).astype(np.float32)


def test_data_is_mapped_into_memory(tmp_path):
    def program(**arguments):
        ir = popxl.Ir()
        with ir.main_graph:
            t = popxl.constant(X)
            facts, graph = addons.layers.Linear(3).create_graph(t)
            variables = facts.init(memmap_dir=tmp_path, **arguments)
            out = addons.ops.host_store(graph.bind(variables).call(t)[0])
        return popxl.Session(ir), variables, out

    session, variables, out = program()
    with session:
        y = session.run()[out]
    weight = np.fromfile(tmp_path / "weight.npy", np.float32).reshape(6, 3)
    np.testing.assert_allclose(y, X @ weight, rtol=1e-5, atol=1e-6)
    session.write_variable_data(variables.weight, 2 * weight)
    again, variables, _ = program(read_only_if_exists=True)
    np.testing.assert_array_equal(again.get_tensor_data(variables.weight), 2 * weight)
    assert not again.get_tensor_data(variables.weight).flags.writeable
    with again:
        again.run()


def products():
    """Returns a program with products on two IPUs, one in a called graph, and a convolution."""
    ir = popxl.Ir()
    with ir.main_graph:
        t = popxl.constant(X)
        for ipu in range(2):
            with popxl.ipu(ipu):
                _ = popxl.variable(X) @ popxl.variable(X.T.copy())
        _ = ops.call(ir.create_graph(lambda x: x @ x.T, t), t)
        with popxl.ipu(1):
            _ = ops.conv(popxl.variable(X[None, None]), popxl.variable(X[None, None]))
    return ir


def shown(ir, kind):
    graphs = ir._pb_ir.getAllGraphs()
    return [op for g in graphs for op in g.getOps() if isinstance(op, kind)]


def test_ops_show_how_much_memory_they_may_take():
    ir = products()
    addons.set_available_memory_proportion_by_ipu(ir, [0.5, 0.25])
    matmul, conv = _ir.op.MatMulOp, _ir.op.ConvOp
    assert [op.getAvailableMemoryProportion() for op in shown(ir, matmul)] == [0.5, 0.25, 0.5]
    (option,) = [op.getConvOptions().availableMemoryProportions for op in shown(ir, conv)]
    assert option == [0.25]
    addons.set_graph_available_memory_proportion_by_ipu(ir.main_graph, (0.1,))  # for all IPUs
    assert [op.getAvailableMemoryProportion() for op in shown(ir, matmul)] == [0.1] * 3
    for wrong in ([1.5], [], [0.5, -0.1]):
        with pytest.raises(ValueError):
            addons.set_available_memory_proportion_by_ipu(ir, wrong)


def test_ops_show_whether_they_are_planned_together():
    ir = products()
    for setting, on in ((addons.disable_fc_pass, False), (addons.enable_fc_pass, True)):
        setting(ir)
        assert [op.useFullyConnectedPass() for op in shown(ir, _ir.op.MatMulOp)] == [on] * 3


@pytest.mark.parametrize("level", ["no_patterns", "minimal", "default", "all"])
def test_levels_of_patterns(level):
    addons.patterns.apply_pre_alias_patterns(products(), level)
    addons.patterns.apply_pre_alias_patterns(products())
    with pytest.raises(ValueError):
        addons.patterns.apply_pre_alias_patterns(products(), "none")
