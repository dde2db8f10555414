"""Replicas of a program in several processes, joined by shared memory, give the bits of one
process.

These tests run below the front ends.
"""

import os
import signal
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import numpy as np
import pytest
from poptorch_core import _core

REPLICAS = 4
TEXT = """
state "w" : f32[3] {group_size=2, group_stride=1}
graph @main(%x: f32[3]) -> (f32[3], f32[2]) {
  %w = variable() {name="w"} : f32[3]
  %y = all_reduce(%x) {op="mean"} : f32[3]
  %new = add(%w, %y) : f32[3]
  assign(%w, %new)
  %mask = random_uniform() {shape=[2], low=0.0, high=1.0, dtype=f32} : f32[2]
  return %new, %mask
}
"""
LINES = [("execution", "", {"replication_factor": REPLICAS})]
# argv: path, instance, instances, the number of runs after which it kills itself.
PROGRAM = """
import os, signal, sys
import numpy as np
from poptorch_core import _core
from tests.behaviour.devices.test_instances import LINES, TEXT, rows
instance, instances, runs = map(int, sys.argv[2:])
fabric = _core.make_shared_fabric(sys.argv[1], instance, instances, timeout=0)
host = {"instances": instances, "instance": instance, "fabric": fabric, "instance_timeout": 0}
executable = _core.compile(_core.parse(TEXT), LINES, host)
first, count, _ = executable.replicas
inputs = rows()[first : first + count].reshape(-1)
try:
    for run in range(3):
        if run == runs:
            os.kill(os.getpid(), signal.SIGKILL)
        outputs = executable.run([inputs])
except _core.Error as error:
    print(error)
    sys.exit(3)
state = executable.read_state("w")
np.savez(f"{sys.argv[1]}.{instance}", state=state, *outputs, far=executable.remote_groups("w"))
"""


def rows() -> np.ndarray:
    """The inputs, one row per replica: [replicas, 3]."""
    return np.linspace(-1, 1, 3 * REPLICAS, dtype=np.float32).reshape(REPLICAS, 3) ** 3


def start(path: Path, instance: int, instances: int, runs: int = -1) -> subprocess.Popen:
    command = [sys.executable, "-c", PROGRAM, str(path), str(instance), str(instances), str(runs)]
    root = Path(__file__).resolve().parents[3]
    path_list = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path_list}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def place(tmp_path):
    """The folder where instances meet; results are written beside it."""
    return tmp_path / f"instances-{uuid.uuid4().hex}"


@pytest.mark.shared
@pytest.mark.parametrize("instances", [2, 4])
def test_several_processes_have_the_bits_of_one(place, instances):
    whole = _core.compile(_core.parse(TEXT), LINES)
    for _ in range(3):
        sums, masks = whole.run([rows().reshape(-1)])
    state = whole.read_state("w")
    assert whole.replicas == (0, REPLICAS, REPLICAS) and whole.remote_groups("w") == []
    processes = [start(place, i, instances) for i in range(instances)]
    assert [process.communicate()[0] + str(process.returncode) for process in processes] == [
        "0"
    ] * instances
    assert not place.exists()
    count = REPLICAS // instances
    for i in range(instances):
        with np.load(f"{place}.{i}.npz") as here:
            mine = slice(i * count, (i + 1) * count)
            for name, output in (("arr_0", sums), ("arr_1", masks)):
                assert here[name].tobytes() == output.reshape(REPLICAS, -1)[mine].tobytes()
            group = i * count // 2
            assert here["state"][group].tobytes() == state[group].tobytes()
            assert here["far"].tolist() == [[1 - group, (1 - group) * 2 // count]]
            assert not here["state"][1 - group].any()


@pytest.mark.shared
@pytest.mark.signals
def test_a_killed_instance_is_named(place):
    zero, one = start(place, 0, 2), start(place, 1, 2, runs=1)
    said = zero.communicate()[0]
    assert one.wait() == -signal.SIGKILL and zero.returncode == 3
    assert f"waits for instance 1 on {socket.gethostname()} (process {one.pid})" in said
    assert "its process has ended" in said


def test_rows_of_other_instances_are_refused(place):
    host = {"instances": 2, "instance": 1}
    executable = _core.compile(_core.parse(TEXT), LINES, host)
    assert executable.replicas == (2, 2, REPLICAS)
    assert executable.input_types[0][1] == [6]
    with pytest.raises(_core.Error, match="it is not connected to them"):
        executable.run([rows()[2:].reshape(-1)])
    with pytest.raises(_core.Error, match="4 replicas cannot be shared by 3 instances"):
        _core.compile(_core.parse(TEXT), LINES, {"instances": 3, "instance": 0})
