"""Tests models whose instances count as being on several hosts, which communicate through Gloo."""

import os
import signal
import socket
from pathlib import Path

import pytest
from launching import PATIENT, POPRUN, PYTHON, ended, lines, poprun, started
from popdist.fabrics import CONNECTIONS
from sockets import listening, reserved_port, strangers_come

__all__ = ["reserved_port"]  # a fixture

PROGRAM = Path(__file__).with_name("stepping_program.py")
LONG = Path(__file__).with_name("long_program.py")
APART = {"POPDIST_INSTANCES_PER_HOST": "1"}
HOST = socket.gethostname()


def pids_of(process, count):
    """Returns the processes of the instances, once each has made a step."""
    said = [process.stdout.readline() for _ in range(count)]
    pids = {line.partition("]")[0]: int(line.rpartition(":")[2]) for line in said}
    return [pids[f"[1,{i}"] for i in range(count)]


def let_run(process, count, go):
    """Continues a program that makes steps for ever, until each instance has made some."""
    go.touch()
    for _ in range(count):
        assert process.stdout.readline().endswith(":steps\n")


@pytest.fixture
def stepping(tmp_path):
    """Starts instances and returns poprun's process, with theirs."""
    running = []

    def start(*words, steps=("1",), count=2, env=None, launcher=POPRUN):
        process = started(
            "--num-instances", count, *words, PYTHON, PROGRAM, tmp_path / "go", *steps,
            env={**APART, **(env or {})}, launcher=launcher,
        )  # fmt: skip
        running.append(process)
        return process, pids_of(process, count)

    yield start
    for process in running:
        process.kill()
        process.communicate()


@pytest.mark.nightly
@pytest.mark.signals
def test_an_instance_that_is_killed_is_named(stepping, tmp_path):
    """All other instances notice the kill by themselves, and name it."""
    process, pids = stepping(steps=("for ever",), count=3, launcher=PATIENT)
    let_run(process, 3, tmp_path / "go")
    os.kill(pids[1], signal.SIGKILL)
    _, err = ended(process, status=137)
    for i in (0, 2):
        said = "\n".join(lines(err, i))
        assert f"instance 1 on {HOST} (process {pids[1]})" in said, err
    assert "has waited" not in err, "nobody waits for the deadline"


@pytest.mark.nightly
@pytest.mark.signals
def test_an_instance_that_is_stopped_is_named_at_the_deadline(stepping, tmp_path):
    process, pids = stepping(steps=("for ever", "2"))
    let_run(process, 2, tmp_path / "go")
    os.kill(pids[1], signal.SIGSTOP)
    _, err = ended(process, status=1)
    assert f"has waited 2 s for instance 1 on {HOST} (process {pids[1]}), which is there" in err


@pytest.mark.shared
@pytest.mark.parametrize(("store", "apart"), [("file", {}), ("tcp", APART)], ids=["memory", "gloo"])
def test_strangers_lose_their_connections(stepping, reserved_port, tmp_path, store, apart):
    """Strangers connect to all sockets of a model's run, which are on the named address only."""
    words = ["--mpi-local-args", f"-x POPDIST_STORE=tcp://127.0.0.1:{reserved_port}"]
    process, pids = stepping(
        *(words if store == "tcp" else ()), env={**dict.fromkeys(APART, ""), **apart}
    )
    found = [each for pid in (*pids, process.pid) for each in listening(pid)]
    # One of Gloo in popdist per instance, and those of the transport for each connection.
    assert len(found) == 2 + (2 * CONNECTIONS if apart else 0) + (store == "tcp")
    assert {(table, address) for table, address, _ in found} == {("tcp", "127.0.0.1")}
    strangers_come(found)
    (tmp_path / "go").touch()
    out, _ = ended(process)
    assert len(out.splitlines()) == 2 and lines(out, 0) == lines(out, 1)


@pytest.mark.shared
@pytest.mark.parametrize("count", [2, 4])
def test_long_tensors_that_are_lent_have_the_values_of_torch(count):
    out, _ = poprun("--num-instances", count, PYTHON, LONG, env=APART)
    assert [lines(out, i) for i in range(count)] == [["done"]] * count
