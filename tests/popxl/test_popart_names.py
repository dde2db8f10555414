"""Tests PopART's names: enumerations, devices, loggers, sessions of a program, and drawings."""

import numpy as np
import popart
import popart._internal.ir as _ir
import popxl
import pytest
from popxl import ops

F32 = popxl.float32


def v(*shape):
    return popxl.variable(np.ones(shape), F32, "v")


ENUMS = {
    "AccumulateOuterFragmentSchedule": "OverlapMemoryOptimized",
    "CommGroupType": "All Consecutive Orthogonal Ungrouped",
    "DataType": "FLOAT8_143 FLOAT8_152 FLOAT FLOAT16 INT32 UINT32 BOOL INT64 DOUBLE INT8 UINT8",
    "DeviceConnectionType": "Always OnDemand Never",
    "DeviceSelectionCriterion": "First Random",
    "DeviceType": "IpuModel Cpu Ipu OfflineIpu Sim",
    "ExecutionContext": "Normal AccumulateOuterFragment WeightsFromHostFragment",
    "MeanReductionStrategy": "Running Post",
    "MergeVarUpdateType": "All AutoLoose AutoTight",
    "PatternsLevel": "NoPatterns Minimal Default All",
    "RecomputationType": "NoRecompute Standard NormOnly Pipeline RecomputeAll",
    "ReductionType": "Sum Mean NoReduction",
    "SubgraphCopyingStrategy": "OnEnterAndExit JustInTime",
    "SyncPattern": "Full SinglePipeline ReplicaAndLadder",
    "SyntheticDataMode": "Off Zeros RandomNormal RandomUniform",
    "TensorStorage": "OnChip OffChip",
    "TensorType": "ActGrad Const Stream Unknown Variable",
    "TileSet": "Compute IO",
    "VariableRetrievalMode": "OnePerGroup AllReduceReplicas AllReplicas",
    "VirtualGraphMode": "Off Manual Auto ExecutionPhases",
}


@pytest.mark.parametrize("name", ENUMS)
def test_enumerations_are_whole_numbers(name):
    kind = getattr(popart, name)
    members = [getattr(kind, member) for member in ENUMS[name].split()]
    assert len({int(member) for member in members}) == len(members)
    assert all(kind(int(member)) is member for member in members)


# The numbers of the documentation.
NUMBERS = {
    "CommGroupType": {"All": 0, "Consecutive": 1, "Orthogonal": 2},
    "MeanReductionStrategy": {"Running": 0, "Post": 1, "PostAndLoss": 2},
    "ReductionType": {"Sum": 0, "Mean": 1, "NoReduction": 2},
    "SyncPattern": {"Full": 0, "SinglePipeline": 1, "ReplicaAndLadder": 2},
    "VariableRetrievalMode": {"OnePerGroup": 0, "AllReplicas": 2},
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_enumerations(name):
    kind = getattr(popart, name)
    assert {member: int(getattr(kind, member)) for member in NUMBERS[name]} == NUMBERS[name]


NAMES = """
    AnchorReturnType CommGroupType DataFlow DataType DeviceConnectionType DeviceInfo DeviceManager
    DeviceSelectionCriterion DeviceType InferenceSession PyStepIO PyWeightsIO SyncPattern
    VariableRetrievalMode VariableSettings VirtualGraphMode exception getLogger
    poplar_application_runtime_error popart_exception
"""
INSIDE = """
    ExecutionContext ExpectedConnection ExpectedConnectionType Graph Ir NumInputs Op
    OperatorIdentifier ReplicaGrouping SessionOptions Tensor TensorType TileSet op
"""


@pytest.mark.parametrize("module, names", [(popart, NAMES), (_ir, INSIDE)])
def test_names_that_programs_touch(module, names):
    assert set(names.split()) <= set(module.__all__)


def test_errors_have_one_base():
    for kind in (popart.popart_exception, popart.poplar_application_runtime_error):
        assert issubclass(kind, popart.exception)


def test_names_inside_are_those_that_programs_hold():
    assert _ir.TileSet is popart.TileSet and _ir.TensorType is popart.TensorType
    assert _ir.OperatorIdentifier("ai.onnx", "Add", 7, _ir.NumInputs(2, 2), 1).type == "Add"
    ir = popxl.Ir(replication=2)
    assert isinstance(ir.replica_grouping()._pb_replica_grouping, _ir.ReplicaGrouping)
    with ir.main_graph as main:
        y = v(2) + 1
    (op,) = main._pb_graph.getOps()
    assert isinstance(op, _ir.Op) and isinstance(op.outTensor(0), _ir.Tensor)
    assert isinstance(y._pb_tensor, _ir.Tensor)
    assert isinstance(main._pb_graph, _ir.Graph) and isinstance(ir._pb_ir, _ir.Ir)


@pytest.mark.parametrize("name", popart.__all__)
def test_every_name_can_be_imported(name):
    assert getattr(popart, name).__doc__


@pytest.mark.parametrize("name", _ir.__all__)
def test_every_name_of_the_inside_can_be_imported(name):
    assert getattr(_ir, name).__doc__


def test_devices():
    manager = popart.DeviceManager()
    assert manager.createCpuDevice().type == popart.DeviceType.Cpu
    assert manager.createIpuModelDevice({"numIPUs": 4}).numIpus == 4
    assert manager.createSimDevice({}).numIpus == 1
    device = manager.acquireAvailableDevice(2, connectionType=popart.DeviceConnectionType.OnDemand)
    assert device.numIpus == 2 and device.isAttached
    device.detach()
    assert not device.isAttached
    assert [d.numIpus for d in manager.enumerateDevices(numIPUs=8)] == [8]
    with pytest.raises(ValueError, match="at least one IPU"):
        manager.createSimDevice({"numIPUs": 0})


def test_loggers():
    logger = popart.getLogger("session")
    assert logger is popart.getLogger("session")
    logger.setLevel("WARN")
    logger.info("nothing")
    logger.warn("something")
    with pytest.raises(ValueError, match="LOUD"):
        logger.setLevel("LOUD")


def test_a_program_runs_by_tensor_ids():
    ir = popxl.Ir()
    with ir.main_graph:
        stream, out = popxl.h2d_stream((2,), F32, "x"), popxl.d2h_stream((2,), F32, "y")
        ops.host_store(out, ops.host_load(stream) + v(2))
    flow = popart.DataFlow(1, {out.tensor_id: popart.AnchorReturnType("All")})
    ir._pb_ir.setDataFlow(flow)
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 1})
    with popart.InferenceSession.fromIr(ir=ir._pb_ir, deviceInfo=device) as session:
        with pytest.raises(RuntimeError, match="prepareDevice"):
            session.initAnchorArrays()
        session.prepareDevice()
        anchors = session.initAnchorArrays()
        session.weightsFromHost()
        session.run(popart.PyStepIO({stream.tensor_id: np.float32([1, 2])}, anchors))
        assert anchors[out.tensor_id].tolist() == [2, 3]
        weights = popart.PyWeightsIO({"v": np.zeros(2, np.float32)})
        session.readWeights(weights)
        assert weights.weights["v"].tolist() == [1, 1]
        session.writeWeights(popart.PyWeightsIO({"v": np.float32([5, 5])}))
        session.run(popart.PyStepIO({stream.tensor_id: np.float32([1, 2])}, anchors))
        assert anchors[out.tensor_id].tolist() == [6, 7]


@pytest.mark.parametrize(
    "checks, asked, expected",
    [
        (None, ["a", "", "b"], {"a.dot", "b.dot", "FINAL.dot"}),
        ({"A"}, ["a", "b"], {"a.dot"}),
        ({"FINAL"}, ["a"], {"FINAL.dot"}),
        ({"ALL"}, [], {"FINAL.dot"}),
        ({"A"}, ["a", "a"], {"a.dot", "a_1.dot"}),
    ],
)
def test_drawings_are_made_where_their_checks_are_asked_for(tmp_path, checks, asked, expected):
    ir = popxl.Ir()
    options = ir._pb_ir.getSessionOptions()
    options.logDir = str(tmp_path)
    if checks is not None:
        options.dotChecks = checks
    with ir.main_graph:
        _ = v(2) + 1
    for check in asked:
        ir.dot_checkpoint(check)
    popxl.Session(ir)
    assert {path.name for path in tmp_path.iterdir()} == expected


def test_drawings_are_asked_for_by_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("POPART_DOT_CHECKS", "B:FINAL")
    ir = popxl.Ir()
    with ir.main_graph:
        _ = v(2) + 1
    ir.dot_checkpoint("a", tmp_path)
    ir._pb_ir.dotCheckpoint(ir._pb_ir, "b")
    popxl.Session(ir)
    assert {path.name for path in tmp_path.iterdir()} == {"b.dot", "FINAL.dot"}
