"""Tests PopXL sessions of several instances: files, PopART's session, and refusals."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import popart
import popdist.popart
import popxl
import pytest
from launching import clean_environment, lines, poprun
from popdist.instance import Instance
from popxl import ops

FILES = Path(__file__).with_name("popxl_files.py")
HEAD = """
import sys, numpy as np, popart, popdist, popxl
from popxl import ops
i = popdist.getInstanceIndex()

def program(extra=0.0, replication="popdist"):
    ir = popxl.Ir(replication)
    with ir.main_graph, popxl.in_sequence():
        rg = ir.replica_grouping(group_size=1)
        data = np.zeros(ir.replication_factor, np.float32)
        v = popxl.variable(data if len(data) > 1 else 0.0, name="counted", replica_grouping=rg)
        ops.add_(v, popxl.constant(1.0 + extra))
    return ir, v
"""


@pytest.fixture(autouse=True)
def without_launcher(monkeypatch):
    for name in set(os.environ) - set(clean_environment()):
        monkeypatch.delenv(name)


def ran(tmp_path, text, *options, status=0):
    """Returns stdout and stderr of two instances of a program."""
    file = tmp_path / "program.py"
    file.write_text(HEAD + textwrap.dedent(text))
    return poprun("--num-instances=2", *options, sys.executable, file, status=status)


@pytest.mark.shared
def test_checkpoints_and_mapped_files_are_those_of_one_process(tmp_path):
    found = {}
    for count in (1, 2):
        folder = tmp_path / str(count)
        folder.mkdir()
        words = [sys.executable, str(FILES), str(folder), "4"]
        if count == 1:
            done = subprocess.run(words, env=clean_environment(), capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        else:
            poprun("--num-instances", count, "--num-replicas", 4, *words)
        for instance in range(count):
            with np.load(folder / f"loaded.{instance}.npz") as arrays:
                found[count, instance] = {name: arrays[name].tobytes() for name in arrays.files}
        files = [file for file in (folder / "saved").rglob("*") if file.suffix == ".npy"]
        files += list((folder / "maps").iterdir())
        found[count, "files"] = {file.name: file.read_bytes() for file in files}
    assert sorted(found[1, "files"]) == ["grouped.npy", "mapped.npy"]
    assert found[1, "files"] == found[2, "files"]
    assert sorted(found[1, 0]) == ["grouped", "mapped", "plain"]
    assert found[1, 0] == found[2, 0] == found[2, 1]


@pytest.mark.shared
def test_poparts_session_broadcasts_weights(tmp_path):
    out, err = ran(tmp_path, """
        import popdist.popart
        def session_of():
            ir = popxl.Ir()
            popdist.popart.configureSessionOptions(ir._pb_ir.getSessionOptions())
            with ir.main_graph:
                v = popxl.variable(np.float32([i + 1.0, 5.0]), name="v")
                y = popxl.d2h_stream((2,), popxl.float32)
                ops.host_store(y, v + popxl.constant(0.5))
            session = popart.InferenceSession.fromIr(ir._pb_ir, popdist.popart.getDevice())
            session.prepareDevice()
            return session
        def print_result(session):
            anchors = session.initAnchorArrays()
            session.run(popart.PyStepIO({}, anchors))
            print(*[array.tolist() for array in anchors.values()])
        for runs_before in (0, 1):
            session = session_of()
            for _ in range(runs_before):
                print_result(session)
            session.broadcastWeights(1)
            print_result(session)
        """)  # fmt: skip
    expected = [["[2.5, 5.5]", f"[{i + 1.5}, 5.5]", "[2.5, 5.5]"] for i in (0, 1)]
    assert [lines(out, i) for i in (0, 1)] == expected
    for here, there in ((0, 1), (1, 0)):
        told = [line for line in lines(err, here) if "begins with other data" in line]
        assert len(told) == 2 and "Tensor[v " in told[0], told
        assert f"in instance {there} than in instance {here}, this one" in told[0]


@pytest.mark.shared
def test_a_fetch_without_the_others_names_variable_and_instance(tmp_path):
    _, err = ran(tmp_path, """
        import os, signal
        popdist.init()
        os.environ["POPLAR_ENGINE_OPTIONS"] = '{"target.hostSyncTimeout": "3"}'
        ir, v = program()
        with popxl.Session(ir, "ipu_hw") as session:
            popdist.synchronize()  # by the deadline of before
            session.run()
            if i == 0:
                session.get_tensor_data(v)
            signal.pause()
        """, status=1)  # fmt: skip
    assert "counted" in err and "has waited 3 s for instance 1 on " in err


@pytest.mark.shared
def test_within_some_instances_only_what_is_known_is_read(tmp_path):
    out, err = ran(tmp_path, """
        ir, v = program()
        session = popxl.Session(ir, "ipu_hw")
        def alone():
            own, w = program(replication=1)
            with popxl.Session(own) as other:
                other.run()
            return session.get_tensor_data(v).tolist(), other.get_tensor_data(w).item()
        with session:
            session.run()
            for work in (alone, lambda: popxl.Session(ir, "ipu_hw")):
                try:
                    popdist.execute_on_instances({0}, work)
                except popart.popart_exception as error:
                    print(error, file=sys.stderr)
        print(popdist.execute_on_instances({0}, alone))
        """)  # fmt: skip
    told = "needs all of them, but within popdist.execute_on_instances there are only [0]"
    assert f"Fetching variables of a program of 2 instances {told}" in err
    assert f"A session of a program of 2 instances {told}" in err
    assert lines(out, 0) == ["([1.0, 1.0], 1.0)"] and lines(out, 1) == ["None"]


@pytest.mark.shared
def test_instances_with_other_programs_are_refused(tmp_path):
    _, err = ran(tmp_path, """
        ir, v = program(extra=i)
        with popxl.Session(ir, "ipu_hw") as session:
            session.run()
        """, status=1)  # fmt: skip
    assert "runs a different program than this one" in err


@pytest.mark.shared
def test_offline_programs_are_compiled_alone(tmp_path):
    _, err = ran(tmp_path, """
        session = popxl.Session(program()[0], "ipu_hw")
        print("compiled", file=sys.stderr)
        session.__enter__()
        """, "--offline-mode=yes", status=1)  # fmt: skip
    assert "compiled" in err and "poprun was started with --offline-mode" in err


def counting(**options):
    ir = popxl.Ir()
    with ir.main_graph:
        ops.add_(popxl.variable(0.0), popxl.constant(1.0))
    for name, value in options.items():
        setattr(ir._pb_ir.getSessionOptions(), name, value)
    return ir


DISTRIBUTED = {"enableDistributedReplicatedGraphs": True, "globalReplicationFactor": 4,
               "globalReplicaOffset": 2, "replicatedGraphCount": 2}  # fmt: skip


@pytest.mark.parametrize(
    "options, words",
    [
        ({"globalReplicationFactor": 0}, "Invalid globalReplicationFactor value: 0"),
        ({"globalReplicaOffset": -1}, "Invalid globalReplicaOffset value: -1"),
        ({"globalReplicaOffset": 4}, "Global replica offset 4 with 2 replicas"),
        ({"replicatedGraphCount": 1, "enableReplicatedGraphs": True},
         "Local replicated graphs enabled but replication factor is 1"),
        ({"replicatedGraphCount": 3}, "Invalid local replication factor"),
        ({}, "instance 1 of 2, but it was started as 0 of 1"),
        ({"replicatedGraphCount": 1}, "instance 2 of 4, but it was started as 0 of 1"),
    ],
)  # fmt: skip
def test_numbers_that_cannot_be(options, words):
    with pytest.raises(popart.popart_exception, match=words):
        popxl.Session(counting(**{**DISTRIBUTED, **options}), "ipu_hw")


def test_numbers_of_an_instance(monkeypatch):
    for name, value in Instance(8, 2, 4, 1, 2, 4).variables().items():
        monkeypatch.setenv(name, value)
    ir, plain = popxl.Ir("popdist"), popxl.Ir()
    options = ir._pb_ir.getSessionOptions()
    configured = plain._pb_ir.getSessionOptions()
    popdist.popart.configureSessionOptions(configured)
    for name in DISTRIBUTED:
        assert getattr(options, name) == getattr(configured, name)
    assert (options.globalReplicaOffset, options.getGlobalReplicationFactor()) == (4, 8)
    ir.replication_factor = 16
    assert ir.instance_replication_factor == 4 and options.globalReplicaOffset == 8
    with pytest.raises(ValueError, match="4 instances cannot have 6 replicas"):
        ir.replication_factor = 6


@pytest.mark.shared
def test_what_both_write_alike_is_not_told_of_whatever_they_had(tmp_path):
    text = """
        ir = popxl.Ir("popdist")
        with ir.main_graph, popxl.in_sequence():
            v = popxl.variable(1.0, name="apart")
            ops.var_updates.accumulate_(v, ops.host_load(h := popxl.h2d_stream((), popxl.float32)))
            ops.host_store(out := popxl.d2h_stream((), popxl.float32), v)
        with popxl.Session(ir, "ipu_hw") as session:
            for step in range(4):
                sys.stdout.write(f"{session.run({h: np.float32(i)})[out]}\\n")
                popdist.synchronize()
                if step == 1:
                    session.write_variable_data(v, np.float32(3.0))
    """
    out, err = ran(tmp_path, text)
    assert lines(out, 0) == ["1.0", "1.0", "3.0", "3.0"]
    assert lines(out, 1) == ["2.0", "3.0", "4.0", "5.0"], "it had 3 before"
    assert "was written" not in err
