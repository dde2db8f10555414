"""Tests ops, tensors, graphs and options as `popart._internal.ir` shows them."""

import numpy as np
import popart
import popart._internal.ir as _ir
import popxl
import pytest
from popxl import ops
from popxl.errors import poplar_application_runtime_error
from popxl.ops import collectives, var_updates
from program import ids, t

F32, F16 = popxl.float32, popxl.float16


def v(*shape, dtype=F32):
    return popxl.variable(np.ones(shape), dtype, "v")


def buffer():
    return popxl.remote_buffer((2,), F32, 1)


def repeated():
    graph = popxl.gir().create_graph(lambda a, b: a + b, v(2), v(2))
    return ops.repeat(graph, 2, v(2), v(2))


def chosen():
    graph = popxl.gir().create_graph(lambda a: a + 1, v(2))
    cond = t(dtype=popxl.bool)
    return ops.conditional(cond, graph, graph, [v(2)], [v(2)])


def normed(norm):
    return norm(v(2, 4, 3), v(4), v(4), 2)


CLASSES = {
    "SubtractOp": lambda: v(2) - v(2),
    "NegateOp": lambda: -v(2),
    "OnehotOp": lambda: ops.onehot(ids(2), 3, t(2), 0),
    "BatchNormOp": lambda: ops.batch_norm_inference(v(1, 2, 2, 2), v(2), v(2), v(2), v(2)),
    "GroupNormOp": lambda: normed(ops.group_norm),
    "IsInf": lambda: ops.isinf(v(2)),
    "IsNaN": lambda: ops.isnan(v(2)),
    "TiedGatherOp": lambda: ops.tied_gather(v(2, 2), ids(1)),
    "SparseAccumulateOp": lambda: var_updates.sparse_accumulate_(v(2, 2), t(1, 2), ids(1)),
    "exchange.HostLoadOp": lambda: ops.host_load(popxl.h2d_stream((2,), F32)),
    "exchange.HostStoreOp": lambda: ops.host_store(popxl.d2h_stream((2,), F32), v(2)),
    "exchange.RemoteLoadOp": lambda: ops.remote_load(buffer(), 0),
    "exchange.RemoteLoadInplaceOp": lambda: ops.remote_load_(buffer(), 0, v(2)),
    "exchange.RemoteStoreOp": lambda: ops.remote_store(buffer(), 0, v(2)),
    "exchange.RemoteCodeLoadOp": lambda: ops.remote_code_load(
        popxl.gir().create_empty_graph(), "executable"
    ),
    "collectives.AllReduceOp": lambda: collectives.all_reduce([v(2)], [0]),
    "collectives.ReplicatedAllReduceOp": lambda: collectives.replicated_all_reduce(v(2)),
    "collectives.ReplicatedAllReduceInplaceOp": lambda: collectives.replicated_all_reduce_(v(2)),
    "collectives.ReplicatedAllGatherOp": lambda: collectives.replicated_all_gather(v(2)),
    "collectives.ReplicatedReduceScatterOp": lambda: collectives.replicated_reduce_scatter(v(2)),
    "dynamic.DynamicSliceOp": lambda: ops.dynamic_slice(v(4), ids(1), [0], [2], True),
    "dynamic.DynamicUpdateOp": lambda: ops.dynamic_update(v(4), ids(1), v(2), [0], [2], True),
    "dynamic.DynamicUpdateInplaceOp": lambda: ops.dynamic_update_(
        v(4), ids(1), v(2), [0], [2], True
    ),
    "LoopOp": repeated,
    "IfOp": chosen,
}


@pytest.mark.parametrize("name", CLASSES)
def test_classes_of_ops(name):
    ir = popxl.Ir(replication=2)
    with ir.main_graph:
        CLASSES[name]()
    kind = _ir.op
    for part in name.split("."):
        kind = getattr(kind, part)
    found = ir.main_graph._pb_graph.getOps()
    assert [type(op) for op in found].count(kind) == 1
    assert getattr(_ir.op, name.split(".")[-1]) is kind


def test_types_that_are_not_the_functions_names():
    with popxl.Ir().main_graph as main:
        ops.tied_gather(v(2, 2), ids(1))
        var_updates.sparse_accumulate_(v(2, 2), t(1, 2), ids(1))
    types = [op.opType() for op in main._pb_graph.getOps()]
    assert types == ["PopartTiedGather", "PopartSparseAccumulate"]


def test_gradients_of_group_norm():
    ir = popxl.Ir()
    with ir.main_graph:
        graph = ir.create_graph(lambda x, w, b: ops.group_norm(x, w, b, 2), v(2, 4, 3), v(4), v(4))
        gradient = popxl.transforms.autodiff(graph).graph
    (op,) = (op for op in gradient._pb_graph.getOps() if "Norm" in op.opType())
    assert op.opType() == "GroupNormalizationGrad" and len(op.getOutputTensors()) == 3


def test_what_an_op_says_of_itself():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        a = v(2, 2)
        with popxl.ipu(1):
            b = v(2, 2)
            ops.add_(b, b)
        with popxl.io_tiles():
            ops.remote_load(buffer(), 0)
        with popxl.context._execution_context(popxl.ExecutionContext.WeightsFromHostFragment):
            c = a @ a
        graph = ir.create_graph(lambda x: x + 1, a)
        ops.call(graph, c)
        ops.repeat(graph, 3, c)
    add, init, load, matmul, call, loop = ir.main_graph._pb_graph.getOps()
    assert add.hasVirtualGraphId() and add.getVirtualGraphId() == 1
    assert add.modifiesIndex(0) and not add.isOptimizerOp()
    assert add.hasInput(1) and not add.hasInput(2) and add.inTensor(0).id == b.id
    assert load.getSettings().tileSet == _ir.TileSet.IO == popart.TileSet.IO
    assert matmul.getSettings().tileSet == popxl.TileSet.Compute
    context = _ir.ExecutionContext.WeightsFromHostFragment
    assert matmul.getSettings().executionContext == context
    assert [t.id for t in matmul.getInputTensors()] == [a.id, a.id]
    assert matmul.getOutputTensors()[0].id == c.id
    assert call.getCalledGraph() == graph._pb_graph and call.getCalledGraphs() == [graph._pb_graph]
    assert [loop.hasInput(i) for i in range(4)] == [False, False, True, False]
    assert loop.inTensor(2).id == c.id and not call.modifiesIndex(0)
    assert ir.main_graph._pb_graph.topoCons.contains(add, init)


def test_loops_count_their_inputs_from_two():
    ir = popxl.Ir()
    with ir.main_graph:

        def double(x: popxl.TensorByRef):
            ops.add_(x, x)

        ops.repeat(ir.create_graph(double, v(2)), 2, v(2))
    (loop,) = ir.main_graph._pb_graph.getOps()
    assert loop.modifiesIndex(2) and not loop.modifiesIndex(0)


def test_ops_without_an_ipu():
    with popxl.Ir().main_graph as main, popxl.ipu(None):
        _ = v(2) + v(2)
    (op,) = main._pb_graph.getOps()
    assert not op.hasVirtualGraphId()


def test_hints_of_products():
    ir = popxl.Ir()
    half = _ir.op.MatMulPartialsType.HALF
    with ir.main_graph:
        ops.matmul(v(2, 2), v(2, 2), 0.3, partials_type=F16)
        _ = v(2, 2) @ v(2, 2)
        ir._pb_ir.getSessionOptions().partialsTypeMatMuls = "half"
        _ = v(2, 2) @ v(2, 2)
    first, second, third = ir.main_graph._pb_graph.getOps()
    kinds = [op.getPartialsType() for op in (first, second, third)]
    assert kinds == [half, _ir.op.MatMulPartialsType.FLOAT, half]
    assert first.getAvailableMemoryProportion() == 0.3
    assert first.useFullyConnectedPass()
    first.setUseFullyConnectedPass(False)
    first.setAvailableMemoryProportion(0.5)
    again = ir.main_graph._pb_graph.getOps()[0]
    assert not again.useFullyConnectedPass() and again.getAvailableMemoryProportion() == 0.5


def test_hints_of_convolutions_are_copies():
    with popxl.Ir().main_graph as main:
        ops.conv(v(1, 1, 3, 3), v(1, 1, 2, 2), available_memory_proportions=[0.2])
    (conv,) = main._pb_graph.getOps()
    options = conv.getConvOptions()
    options.availableMemoryProportions[0] = 0.6
    assert conv.getConvOptions().availableMemoryProportions == [0.2]
    conv.setConvOptions(options)
    assert conv.getConvOptions().availableMemoryProportions == [0.6]


def test_numbers_of_updates():
    with popxl.Ir().main_graph as main:
        var_updates.accumulator_scale_(v(2), 3.0)
        var_updates.accumulator_scale_(v(2), t())
        var_updates.sparse_accumulate_(v(2, 2), t(2, 1), ids(1), axis=1)
    number, tensor, sparse = main._pb_graph.getOps()
    assert number.getFactor().val() == 3.0 and tensor.getFactor().val() == 0.0
    assert sparse.getAxis() == 1 and sparse.isOptimizerOp()


def test_what_a_tensor_says_of_itself():
    ir = popxl.Ir()
    with ir.main_graph:
        a, c = v(2, 3, dtype=F16), popxl.constant([1, 2], popxl.int32, "c")
        y = a * 2
        view = y.reshape_((3, 2))
    graph = ir.main_graph._pb_graph
    shown = graph.getTensor("v")
    assert shown.info.shape() == [2, 3] and shown.info.dataType() == popart.DataType.FLOAT16
    assert shown.tensorType() == _ir.TensorType.Variable and shown.hasTensorData()
    assert graph.getTensor(c.id).tensorType() == _ir.TensorType.Const
    assert graph.getTensor(c.id).info.dataType() == popart.DataType.INT32
    made = graph.getTensor(y.id)
    assert made.tensorType() == _ir.TensorType.ActGrad and not made.hasTensorData()
    assert made.isAliased() and graph.getTensor(view.id).isAliased() and not shown.isAliased()
    assert shown.getGraph() == graph and "v" in graph and "w" not in graph


def test_what_a_program_says_of_itself(capfd):
    ir = popxl.Ir()
    with ir.main_graph:
        graph = ir.create_graph(lambda x: x + 1, v(2))
        ops.call(graph, v(2))
    shown = ir._pb_ir
    assert [g.id for g in shown.getAllGraphs()] == ["", graph.id]
    assert "v" in shown.getMainGraph()
    assert shown.getMainGraph().getCalledGraphs() == [graph._pb_graph]
    assert graph._pb_graph.getInputIds() == [graph.inputs[0].id]
    assert graph._pb_graph.getOutputIds() == [graph.outputs[0].id]
    shown.setPatterns(_ir.Patterns(_ir.PatternsLevel.Minimal))
    shown.applyPreAliasPatterns(graph._pb_graph)
    shown.updateVertices()
    shown.logIr()
    assert shown.getGraph(graph.id) == graph._pb_graph and shown.getId() == ir.id
    with pytest.raises(ValueError, match="no graph with id 'x'"):
        shown.getGraph("x")
    graph._pb_graph.setCanBeRecursivelyAutodiffed(False)
    with ir.main_graph:
        outer = ir.create_graph(lambda x: ops.call(graph, x), v(2))
        with pytest.raises(popart.popart_exception, match="marked as unsafe to autodiff"):
            popxl.transforms.autodiff(outer)


def test_options_beyond_those_that_have_effect():
    ir = popxl.Ir(replication=2)
    options = ir._pb_ir.getSessionOptions()
    assert options.replicatedGraphCount == 2
    options.replicatedGraphCount = 4
    assert ir.replication_factor == 4 == options.getGlobalReplicationFactor()
    options.enableDistributedReplicatedGraphs = True
    options.globalReplicationFactor = 8
    assert options.getGlobalReplicationFactor() == 8
    assert popart.SessionOptions().dotChecks is not popart.SessionOptions().dotChecks


OPTIONS = {
    "aliasZeroCopy": False,
    "cachePath": "somewhere",
    "constantWeights": False,
    "decomposeGradSum": False,
    "dotChecks": {"A"},
    "enableDistributedReplicatedGraphs": True,
    "enableEngineCaching": True,
    "enableExplicitMainLoops": False,
    "enableInplaceAmbiguityChecking": False,
    "enableReplicatedGraphs": True,
    "enableVariablesCaching": False,
    "explicitRecomputation": False,
    "globalReplicaOffset": 2,
    "globalReplicationFactor": 8,
    "logDir": "elsewhere",
    "replicatedGraphCount": 2,
    "throwIfLog2ScaleTensorNotInRange": False,
    "virtualGraphMode": popart.VirtualGraphMode.Auto,
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_are_kept_by_their_program(name):
    first, other = popxl.Ir(), popxl.Ir()
    before = getattr(other._pb_ir.getSessionOptions(), name)
    assert before != OPTIONS[name]
    setattr(first._pb_ir.getSessionOptions(), name, OPTIONS[name])
    assert getattr(first._pb_ir.getSessionOptions(), name) == OPTIONS[name]
    assert getattr(other._pb_ir.getSessionOptions(), name) == before


def test_ambiguous_writes_pass_if_the_option_says_so():
    ir = popxl.Ir()
    with ir.main_graph:
        a = v(2)
        ops.add_(a, a * 2)
        _ = a + 1
    with pytest.raises(popart.popart_exception):
        popxl.Session(ir)
    ir._pb_ir.getSessionOptions().enableInplaceAmbiguityChecking = False
    popxl.Session(ir)


@pytest.mark.parametrize("throws", [True, False])
def test_scales_out_of_range(throws):
    ir = popxl.Ir()
    ir._pb_ir.getSessionOptions().throwIfLog2ScaleTensorNotInRange = throws
    with ir.main_graph:
        stream, out = popxl.h2d_stream((), popxl.int32), popxl.d2h_stream((2,), F16)
        scale = ops.host_load(stream)
        cast = ops.pow2scale_cast_from_fp8(popxl.constant([1.0, 0.0], popxl.float8_143), scale, F16)
        ops.host_store(out, cast)
    with popxl.Session(ir) as session:
        if throws:
            with pytest.raises(poplar_application_runtime_error, match="log2_scale is 40"):
                session.run({stream: np.int32(40)})
        else:
            assert session.run({stream: np.int32(40)})[out][1] == 0


def test_a_block_without_an_order_goes_by_what_it_keeps_alive():
    def types(mode):
        ir = popxl.Ir()
        with ir.main_graph, popxl.in_sequence(mode):
            big, small = v(64), v(1)
            with popxl.in_sequence(False):
                _ = big + 1
                _ = small * 1
        return [op.opType() for op in ir.main_graph._pb_graph.getOpSchedule()]

    assert types(False) == types(True) == ["Mul", "Add"]
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        _ = v(64) + 1
        _ = v(1) * 1
    assert [op.opType() for op in ir.main_graph._pb_graph.getOpSchedule(False)] == ["Add", "Mul"]
