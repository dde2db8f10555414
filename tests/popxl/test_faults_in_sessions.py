"""Tests faults of a session's device: the error, the remaining state, and how to continue."""

import numpy as np
import poptorch_core
import popxl
import pytest
from poptorch.testing import inject_fault
from poptorch_core import _core
from popxl import ops


def made():
    """Returns a session of a program that adds x to a variable and to a remote variable."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        stream = popxl.h2d_stream((2,), popxl.float32, "x")
        x = ops.host_load(stream)
        v = popxl.variable(np.zeros(2), popxl.float32, name="v")
        buffer = popxl.remote_buffer((2,), popxl.float32)
        r = popxl.remote_variable(np.ones(2, np.float32), buffer, name="r")
        ops.add_(v, x)
        ops.remote_store(buffer, 0, ops.remote_load(buffer, 0) + x)
        out = popxl.d2h_stream((2,), popxl.float32, "y")
        ops.host_store(out, v)
    return popxl.Session(ir, "ipu_hw"), {stream: np.ones(2)}, v, r


@pytest.fixture
def lines(capfd):
    def read():
        return capfd.readouterr().err

    return read


def test_a_fault_in_a_run(lines):
    session, x, v, r = made()
    with session:
        session.run(x)
        assert session.get_tensor_data(v).tolist() == [1, 1]
        session.run(x)
        with inject_fault("run", "LINK_RESET"):
            with pytest.raises(poptorch_core.RecoverableError, match="IPU 0 failed") as caught:
                session.run(x)
        assert caught.value.recovery_action == "LINK_RESET"
        for ask in (lambda: session.run(x), lambda: session.get_tensor_data(v)):
            with pytest.raises(poptorch_core.RecoverableError, match="not been attached again"):
                ask()
    assert "has failed: its data is lost" in lines()
    assert session.get_tensor_data(v).tolist() == [1, 1]  # as it was fetched last
    assert session.get_tensor_data(r).tolist() == [2, 2]
    with session:
        session.run(x)
    assert session.get_tensor_data(v).tolist() == [2, 2]
    assert session.get_tensor_data(r).tolist() == [3, 3]


def test_variables_of_a_checkpoint():
    session, x, v, r = made()
    with pytest.raises(poptorch_core.UnrecoverableError), session:
        session.run(x)
        with inject_fault("run", "UNRECOVERABLE"):
            session.run(x)
    session.write_variables_data({v: np.float32([5, 6]), r: np.float32([7, 8])})
    with session:
        session.run(x)
    assert session.get_tensor_data(v).tolist() == [6, 7]
    assert session.get_tensor_data(r).tolist() == [8, 9]


@pytest.mark.parametrize("nth", [1, 2])
def test_a_fault_on_the_way_to_the_device(nth):
    session, x, v, r = made()
    with inject_fault("copy", "FULL_RESET", nth=nth):
        with pytest.raises(poptorch_core.RecoverableError):
            session.__enter__()
        assert not session.is_attached
        with session:
            session.run(x)
    assert session.get_tensor_data(v).tolist() == [1, 1]
    assert session.get_tensor_data(r).tolist() == [2, 2]


@pytest.mark.parametrize("kind", ["IPU_RESET", "UNRECOVERABLE"])
def test_a_fault_when_it_is_attached_or_compiled(kind):
    session, x, v, _ = made()
    classes = {"IPU_RESET": poptorch_core.RecoverableError}
    expected = classes.get(kind, poptorch_core.UnrecoverableError)
    with inject_fault("attach", kind), pytest.raises(expected), session:
        session.run(x)
    assert not session.is_attached
    with session:
        session.run(x)
    assert session.get_tensor_data(v).tolist() == [1, 1]
    with inject_fault("compile", kind), pytest.raises(expected):
        made()


def test_a_fault_of_the_last_fetch_leaves_the_hosts_values():
    session, x, v, _ = made()
    with inject_fault("copy", nth=3), pytest.raises(poptorch_core.RecoverableError), session:
        session.run(x)
    assert session.get_tensor_data(v).tolist() == [0, 0]
    with session:
        session.run(x)
    assert session.get_tensor_data(v).tolist() == [1, 1]


def test_a_program_in_text_can_fail_when_it_is_loaded():
    text = "graph @main(%x: f32[2]) -> (f32[2]) {\n  %y = neg(%x) : f32[2]\n  return %y\n}\n"
    program = _core.compile(_core.parse(text)).text("program")
    with inject_fault("compile"), pytest.raises(poptorch_core.RecoverableError):
        _core.load(program)
    executable = _core.load(program)
    x = np.ones(2, np.float32)
    with inject_fault("run"), pytest.raises(poptorch_core.RecoverableError):
        executable.run([x])
    assert executable.has_failed()
    executable.attach()
    assert executable.run([x])[0].tolist() == [-1, -1]
