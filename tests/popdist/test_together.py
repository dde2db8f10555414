"""Tests collectives over real instances, the sockets open meanwhile, and missing instances."""

import datetime
import json
import signal
import socket
import subprocess
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from launching import NIGHT, PYTHON, clean_environment, ended, lines, poprun, started, until
from popdist import fabrics, presence, store
from popdist.instance import Instance, note_of
from poptorch_core import Error
from sockets import listening, reserved_port, strangers_come

__all__ = ["reserved_port"]  # a fixture

PROGRAM = Path(__file__).with_name("together.py")


@pytest.fixture(scope="module", params=[2, 3, 4] if NIGHT else [3])
def results(request):
    """Returns the findings of each instance."""
    out, _ = poprun("--num-instances", request.param, PYTHON, PROGRAM)
    return [json.loads(lines(out, i)[-1]) for i in range(request.param)]


@pytest.mark.shared
def test_collectives(results):
    n = len(results)
    f16 = torch.tensor(0.1, dtype=torch.float16).float()
    expected = {
        "sum": ["torch.float64", [n, sum(range(n))]],
        "mean of ints": ["torch.int64", n],
        "scalar of f16": ["torch.float16", sum([f16] * n).half().item()],
        "max": ["int32", [[n - 1, 0]]],
        "in order": ["torch.float32", [1.0000000150474662e30 if n == 2 else 0.0]],
        "empty": ["torch.float32", []],
        "gather": ["torch.int8", [[i, i] for i in range(n) for _ in range(i)]],
        "gather scalars": ["torch.float32", list(map(float, range(n)))],
        "gather arrays": ["bool", [i > 0 for i in range(n)]],
        "broadcast": ["torch.bfloat16", [[n - 1], [2]]],
        "bytes": "from 1",
        "named": {str(k): float(k * sum(range(n))) for k in range(5)},
    }
    for instance, found in enumerate(results):
        assert {name: found[name] for name in expected} == expected
        assert str(found["min"][1]) == "[nan, 0.0]"
        assert found["subset"] == ([0, n - 1] if instance in (0, n - 1) else None)
        assert found["alone"] == ([0] if instance == 0 else None)


@pytest.mark.shared
@pytest.mark.parametrize("count", [1, 3])
def test_data_of_every_type_and_layout(count):
    out, _ = poprun("--num-instances", count, PYTHON, PROGRAM.with_name("odd_data.py"))
    assert sorted(out.splitlines()) == [f"[1,{i}]<stdout>:passed" for i in range(count)]


@pytest.mark.nightly
@pytest.mark.signals
@pytest.mark.parametrize("store", ["file", "tcp"])
def test_instances_join_again(tmp_path, reserved_port, store):
    """Each instance joins last once."""
    file = program(tmp_path, """
        for turn in range(3):
            marks = [f"{sys.argv[1]}/{turn}.{other}" for other in range(3) if other != turn]
            while i == turn and not all(map(os.path.exists, marks)):
                time.sleep(0.01)
            open(f"{sys.argv[1]}/{turn}.{i}", "w").close()
            popdist.init()
            assert float(collectives.all_reduce(torch.ones(()))) == 3
            popdist.finalizeBackend()
            assert not popdist.isBackendInitialized()
        print("passed")
        """)  # fmt: skip
    words = ["--mpi-local-args", f"-x POPDIST_STORE=tcp://127.0.0.1:{reserved_port}"]
    words = ["--num-instances=3", *(words if store == "tcp" else ())]
    out, _ = poprun(*words, PYTHON, file, tmp_path)
    assert sorted(out.splitlines()) == [f"[1,{i}]<stdout>:passed" for i in range(3)]


def program(tmp_path, text):
    file = tmp_path / "program.py"
    head = "import datetime, os, signal, sys, time, popdist, poptorch_core, torch\n"
    head += "from popdist import collectives, presence, together\n"
    head += "popdist.init()\ni = popdist.getInstanceIndex()\n"
    file.write_text(head + textwrap.dedent(text))
    return file


@pytest.mark.shared
@pytest.mark.parametrize("store", ["file", "tcp"])
def test_nothing_listens_but_on_the_address_named(tmp_path, reserved_port, store):
    """Strangers who connect to listening sockets lose their connections, and the run continues."""
    file = program(tmp_path, """
        collectives.barrier()
        print(os.getpid(), flush=True)
        while not os.path.exists(sys.argv[1]):
            time.sleep(0.02)
        print(float(collectives.all_reduce(torch.ones(()))))
        """)  # fmt: skip
    words = ["--mpi-local-args", f"-x POPDIST_STORE=tcp://127.0.0.1:{reserved_port}"]
    process = started("--num-instances=2", *(words if store == "tcp" else ()), PYTHON, file,
                      tmp_path / "go")  # fmt: skip
    pids = [int(process.stdout.readline().rpartition(":")[2]) for _ in range(2)]
    found = [each for pid in (*pids, process.pid) for each in listening(pid)]
    assert found and {(table, address) for table, address, _ in found} == {("tcp", "127.0.0.1")}
    assert store != "tcp" or reserved_port in {port for *_, port in found}
    strangers_come(found)
    (tmp_path / "go").touch()
    out, _ = ended(process)
    assert sorted(out.splitlines()) == [f"[1,{i}]<stdout>:2.0" for i in range(2)]


@pytest.mark.nightly
@pytest.mark.signals
def test_an_instance_that_ended_is_named(tmp_path):
    file = program(tmp_path, """
        presence._SECONDS_OF_ENDING = 1e6  # its connections close a moment before it ends
        if i == 1:
            collectives.barrier()
            os._exit(0)
        collectives.barrier()
        collectives.all_reduce(torch.ones(3), name="loss")
        """)  # fmt: skip
    _, err = poprun("--num-instances=2", PYTHON, file, status=1)
    host = socket.gethostname()
    assert f"[popdist] instance 0 on {host} waited for instance 1 on {host} for all_reduce" in err
    assert "'loss'" in err and "has ended" in err


@pytest.mark.nightly
@pytest.mark.signals
def test_an_instance_that_is_stopped_is_named(tmp_path):
    file = program(tmp_path, """
        pid = int(collectives.all_gather(torch.tensor(os.getpid()))[1])
        if i == 1:
            os.kill(pid, signal.SIGSTOP)
        while not presence.is_stopped(pid):
            time.sleep(0.01)
        together.group()._wait = datetime.timedelta(seconds=0.1)
        collectives.barrier()
        """)  # fmt: skip
    _, err = poprun("--num-instances=2", PYTHON, file, status=1)
    assert "waited for instance 1 on" in err and "did not come within 0.1 s" in err
    assert "is stopped" in err


def test_gloo_waits_for_longer_than_who_calls_it(monkeypatch):
    """If Gloo's thread outlived the call, it would abort the program at its end."""
    made = []

    class Gloo:
        create_device = dist.ProcessGroupGloo.create_device
        _Options = dist.ProcessGroupGloo._Options

        def __init__(self, _store, _index, _count, options):
            made.append(options._timeout)

    monkeypatch.setattr(dist, "ProcessGroupGloo", Gloo)
    for wait in (0.5, None):
        fabrics.gloo_group(dist.HashStore(), Instance(2, 1, local_count=2), "127.0.0.1", wait)
    assert made == [datetime.timedelta(seconds=1), fabrics.FOREVER]


@pytest.fixture
def passing_time(monkeypatch):
    """A clock of the store that advances only when the store sleeps."""
    now = [0.0]

    def sleep(seconds):
        now[0] += seconds

    monkeypatch.setattr(store, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    return now


def test_an_instance_that_never_comes_is_named(passing_time, monkeypatch):
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"target.hostSyncTimeout": "3"}')
    shared = dist.HashStore()
    shared.set("here/1", "")
    with pytest.raises(Error, match=r"waited 3 s for instance 2 to call popdist.init\(\)"):
        store.meet(shared, Instance(3, 1, local_count=3), "1.0", {})
    assert passing_time[0] == pytest.approx(3, abs=0.1)


@pytest.mark.shared
@pytest.mark.signals
def test_an_instance_that_is_stopped_before_it_comes_is_named(passing_time, tmp_path):
    process = subprocess.Popen(["sleep", "infinity"])
    process.send_signal(signal.SIGSTOP)
    until(lambda: presence.is_stopped(process.pid))
    note_of(str(tmp_path / "store"), 1).write_text(json.dumps([process.pid, ""]))
    environ = {"POPDIST_STORE": f"file:{tmp_path / 'store'}"}
    with pytest.raises(Error, match=r"waited 300 s for instance 1 \(it is stopped\) to call"):
        store.meet(dist.HashStore(), Instance(2, 1, local_count=2), "1.0", environ)
    process.kill()
    process.wait()


@pytest.mark.shared
def test_calls_that_differ_are_refused(tmp_path):
    file = program(tmp_path, """
        calls = [
            lambda: collectives.all_reduce(torch.ones(2 + i)),
            lambda: collectives.all_reduce(torch.ones(2).to([torch.int32, torch.int64][i])),
            [collectives.barrier, lambda: collectives.all_gather(torch.ones(1))][i],
        ]
        for call in calls:
            try:
                call()
                print("allowed")
            except poptorch_core.Error as error:
                print(error.message)
            popdist.finalizeBackend()
            popdist.init()
        """)  # fmt: skip
    out, _ = poprun("--num-instances=2", PYTHON, file)
    told = zip(lines(out, 0), lines(out, 1), strict=True)
    for said, what in zip(told, ("shape [2", "another type of elements", "another operation"),
                          strict=True):  # fmt: skip
        assert "allowed" not in said
        assert any("expected " in text and what in text and "must call the same" in text
                   for text in said), said  # fmt: skip


@pytest.mark.parametrize("text", ["x", '{"target.hostSyncTimeout": "-1"}', "[]"])
def test_timeouts_that_cannot_be(text, monkeypatch):
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", text)
    with pytest.raises(Error, match="hostSyncTimeout.*, or (unset it|leave it out)"):
        store.timeout()
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"target.hostSyncTimeout": "0"}')
    assert store.timeout() is None


def meets(file, folder, *, wrapped, **variables):
    """Returns the output of two processes with a launcher's variables; {} is their number."""
    words = ["sh", "-c", '"$@"; exit $?', "sh"] if wrapped else []
    running = [
        subprocess.Popen(
            [*words, PYTHON, "-m", "popdist", PYTHON, file], stdout=subprocess.PIPE, text=True,
            env=clean_environment(
                **{name: value.format(i) for name, value in variables.items()},
                XDG_RUNTIME_DIR=str(folder),
            ),
        )
        for i in range(2)
    ]  # fmt: skip
    return [each.communicate()[0] for each in running]


OTHERS = {
    "mpirun": {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "{}"},
    "srun": {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "{}", "SLURM_LOCALID": "{}",
             "SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0",
             "SLURM_NTASKS": "2", "SLURM_STEP_NODELIST": socket.gethostname()},
    "mpiexec": {"PMI_SIZE": "2", "PMI_RANK": "{}"},
}  # fmt: skip


@pytest.mark.shared
@pytest.mark.parametrize("launcher", OTHERS)
def test_what_other_launchers_start_meets(tmp_path, launcher):
    """The variables are set by hand; no file of the meeting is left."""
    file = program(tmp_path, "print(float(collectives.all_reduce(torch.ones(()))))")
    found = meets(file, tmp_path, wrapped=launcher == "mpiexec", **OTHERS[launcher])
    assert found == ["2.0\n"] * 2
    until(lambda: not list((tmp_path / "poptorch").glob("popdist-*")))


def test_meetings_of_killed_processes_are_removed(tmp_path):
    left = tmp_path / "popdist-srun-1"
    for name, text in ((left.name, "[1, 1]"), (f"{left.name}-1-1", "x"), ("popdist-other", "x")):
        (tmp_path / name).write_text(text)
    own = Path(store._meeting(tmp_path / "popdist-mine", Instance()))
    assert {path.name for path in tmp_path.iterdir()} == {"popdist-other", "popdist-mine"}
    assert own.name.startswith("popdist-mine-")


def test_the_cause_of_a_failure_reaches_instances_that_wait_for_another(tmp_path):
    """Instance 1 waits for instance 0 only, whose error names instance 2. All processes live."""
    program = textwrap.dedent("""
        import pathlib, sys, time, popdist
        from popdist import together
        popdist.init()
        index, end = popdist.getInstanceIndex(), pathlib.Path(sys.argv[1])
        if index < 2:
            try:
                popdist.synchronize()
            except together.Error as error:
                print(error.message, flush=True)
        together.group().close()
        if index == 1:
            end.touch()
        while not end.exists():
            time.sleep(0.01)
    """)
    out, _ = poprun("--num-instances", 3, PYTHON, "-c", program, tmp_path / "end")
    for instance in (0, 1):
        (told,) = lines(out, instance)
        assert "instance 2" in told and "it has closed its connection" in told, told
