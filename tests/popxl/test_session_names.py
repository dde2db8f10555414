"""Tests private names of popxl.Session that programs use, and their effects."""

import inspect

import numpy as np
import popart
import popxl
import pytest
from popxl import ops

F32 = popxl.float32
# name: its parameters; None for an attribute
NAMES = {
    "_full_input_shape": ["shape"],
    "_set_device": ["device_desc"],
    "_validate_run_inputs": ["inputs"],
    "_validate_run_outputs": ["outputs"],
    "_was_attached_stack": None,
    "_device": None,
    "_pb_session": None,
}


def program(transfers=1, replicas=1, ipus=1):
    """Returns (ir, input, output, variable) of v += x in a loop."""
    ir = popxl.Ir(replication=replicas)
    ir.num_host_transfers = transfers
    main = ir.main_graph
    with main, popxl.in_sequence():
        x, y = popxl.h2d_stream((2, 3), F32, "x"), popxl.d2h_stream((2, 3), F32, "y")
        v = popxl.variable(np.zeros((2, 3)), F32, name="v")

        def step(v: popxl.TensorByRef):
            ops.add_(v, ops.host_load(x))
            ops.host_store(y, v)

        ops.repeat(ir.create_graph(step, v), transfers, v)
        if ipus > 1:
            ops.ipu_copy(ops.identity(v), ipus - 1, 0)
    return ir, x, y, v


@pytest.fixture
def session():
    return popxl.Session(program()[0], "ipu_hw")


@pytest.mark.parametrize("name", NAMES)
def test_names_and_parameters(session, name):
    found = getattr(session, name)
    if NAMES[name] is not None:
        assert list(inspect.signature(found).parameters) == NAMES[name]


@pytest.mark.parametrize("transfers, replicas", [(1, 1), (3, 1), (1, 2), (3, 2)])
def test_full_input_shape_is_the_shape_that_run_takes(transfers, replicas):
    ir, x, y, _ = program(transfers, replicas)
    session = popxl.Session(ir, "ipu_hw")
    shape = session._full_input_shape(x.shape)
    assert shape == tuple(n for n in (transfers, replicas) if n > 1) + (2, 3)
    assert session._full_input_shape([2, 3]) == shape
    assert session._full_input_shape(()) == shape[:-2]
    with session:
        assert session.run({x: np.ones(shape, np.float32)})[y].shape == shape


def test_the_stack_has_an_entry_for_each_context(session):
    assert session._was_attached_stack == []
    with session:
        assert session._was_attached_stack == [False]
        with session:
            assert session._was_attached_stack == [False, True]
        assert session._was_attached_stack == [False] and session.is_attached
    assert session._was_attached_stack == []
    with pytest.raises(KeyError), session, session:
        raise KeyError
    assert session._was_attached_stack == [] and not session.is_attached


def test_the_device_is_attached_while_the_session_is(session):
    device = session._device
    assert isinstance(device, popart.DeviceInfo) and not device.isAttached
    with session, session:
        assert session._device is device and device.isAttached
    assert not device.isAttached


@pytest.mark.parametrize(
    "kind, replicas, ipus, size, type",
    [
        ("cpu", 1, 1, 1, "Cpu"),
        ("ipu_model", 1, 2, 2, "IpuModel"),
        ("ipu_hw", 2, 3, 8, "Ipu"),
        ("ipu_hw", 1, 1, 1, "Ipu"),
    ],
)
def test_devices_have_a_power_of_two_of_ipus(kind, replicas, ipus, size, type):
    ir = program(replicas=replicas, ipus=ipus)[0]
    device = popxl.Session(ir, kind)._device
    assert (device.numIpus, device.type.name) == (size, type)


def test_set_device_refuses_devices(session):
    with pytest.raises(ValueError, match="device_desc must be one of"):
        session._set_device("gpu")
    with pytest.raises(ValueError, match="The device 'cpu' has one IPU"):
        popxl.Session(program(ipus=2)[0], "cpu")


def test_subclasses_choose_their_device():
    class Offline(popxl.Session):
        def _set_device(self, device_desc):
            assert device_desc == "ipu_hw"
            self._device = popart.DeviceManager().createOfflineIPUDevice({"numIPUs": 4})

    ir, x, y, _ = program()
    session = Offline(ir, "ipu_hw")
    with session:
        assert session.run({x: np.ones((2, 3))})[y].tolist() == np.ones((2, 3)).tolist()
        assert session._device.isAttached
    assert session._device.type is popart.DeviceType.OfflineIpu


def test_the_view_of_popart_runs_the_same_program():
    ir, x, y, v = program()
    session = popxl.Session(ir, "ipu_hw")
    inner = session._pb_session
    assert isinstance(inner, popart.InferenceSession)
    inner.prepareDevice()  # has no effect: it is compiled
    with session:
        arrays = inner.initAnchorArrays()
        inner.run(popart.PyStepIO({x.tensor_id: np.ones((2, 3), np.float32)}, arrays))
        assert arrays[y.tensor_id].tolist() == np.ones((2, 3)).tolist()
        inner.weightsToHost()
        assert session.get_tensor_data(v).tolist() == np.ones((2, 3)).tolist()


def test_validation_raises_the_errors_of_run(session):
    (x,) = session.expected_inputs()
    session._validate_run_inputs({x: np.ones((2, 3), np.float32)})
    with pytest.raises(ValueError, match=r"takes data of shape \(2, 3\)"):
        session._validate_run_inputs({x: np.ones((2, 4), np.float32)})
    with pytest.raises(ValueError, match="missing"):
        session._validate_run_inputs({})
    outputs = session.create_host_outputs()
    session._validate_run_outputs(outputs)
    with pytest.raises(ValueError, match="the array has"):
        session._validate_run_outputs({stream: np.ones(1) for stream in outputs})
