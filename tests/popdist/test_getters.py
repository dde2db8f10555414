"""Tests how a process learns about its instances: variables, getters, and other launchers'
variables.
"""

import json
import os
import subprocess
import sys
import types

import popdist
import pytest
from launching import PYTHON, clean_environment, lines, poprun
from popdist import foreign, instance
from popdist.instance import Instance, this_instance
from popdist.launcher import numa
from poptorch_core import Error

GETTERS = """getInstanceIndex getNumInstances getNumTotalReplicas getNumLocalReplicas
getReplicaIndexOffset getNumIpusPerReplica getLocalInstanceIndex isPopdistEnvSet""".split()


@pytest.fixture(autouse=True)
def without_launcher(monkeypatch):
    for name in set(os.environ) - set(clean_environment()):
        monkeypatch.delenv(name)


def set_instance(monkeypatch, index, count, replicas=2, ipus=4):
    here = Instance(count * replicas, replicas, index * replicas, ipus, index, count)
    for name, value in here.variables().items():
        monkeypatch.setenv(name, value)


def test_without_a_launcher_there_is_one_instance():
    values = [getattr(popdist, name)() for name in GETTERS]
    assert values == [0, 1, 1, 1, 0, 1, 0, False]
    assert popdist.checkNumIpusPerReplica(1) and not popdist.checkNumIpusPerReplica(2)
    popdist.init()
    popdist.init()
    assert popdist.isBackendInitialized()
    popdist.synchronize()
    assert popdist.execute_on_instances({0}, max, 3, 4) == 4
    popdist.finalizeBackend()
    assert not popdist.isBackendInitialized()


def test_getters_tell_what_the_launcher_says(monkeypatch):
    set_instance(monkeypatch, 2, 3)
    values = [getattr(popdist, name)() for name in GETTERS]
    assert values == [2, 3, 6, 2, 4, 4, 2, True]
    assert popdist.checkNumIpusPerReplica(4) and not popdist.checkNumIpusPerReplica(1)


def test_what_a_bare_launcher_sets_is_not_popdists(monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert not popdist.isPopdistEnvSet() and popdist.getNumInstances() == 1


def test_instances_of_different_size_have_no_numbers(monkeypatch):
    set_instance(monkeypatch, 1, 3)
    monkeypatch.setenv(instance.UNIFORM, "0")
    assert popdist.getNumTotalReplicas() == 6
    with pytest.raises(Error, match="has 2 of 6 replicas, starting at 2"):
        popdist.getInstanceIndex()
    monkeypatch.setenv(instance.UNIFORM, "1")
    monkeypatch.setenv(instance.OFFSET, "1")
    with pytest.raises(Error, match="starting at 1"):
        popdist.getNumInstances()


@pytest.mark.parametrize(
    "name, value",
    [(instance.TOTAL, "x"), (instance.LOCAL, "0"), (instance.OFFSET, "-1"), (instance.OFFSET, "6")],
)
def test_variables_that_cannot_be(monkeypatch, name, value):
    set_instance(monkeypatch, 1, 3)
    monkeypatch.setenv(name, value)
    with pytest.raises(Error, match=rf"\[environment\] {name} is .?{value}"):
        popdist.getNumTotalReplicas()


def test_devices_of_a_host_differ(monkeypatch):
    monkeypatch.setenv("POPTORCH_IPU_POOL", "64:2:")
    found = []
    for index in range(4):
        set_instance(monkeypatch, index, 4)
        found.append(popdist.getDeviceId())
    assert len(set(found)) == 4 and popdist.getDeviceId(1) != found[-1]
    set_instance(monkeypatch, 4, 5, replicas=4)
    with pytest.raises(Error, match="needs a device of 16 IPUs, but the pool has 4"):
        popdist.getDeviceId()


def test_importing_popdist_imports_no_torch():
    program = "import popdist, sys; assert 'torch' not in sys.modules; popdist.getNumInstances()"
    subprocess.run([PYTHON, "-c", program + "; assert 'torch' not in sys.modules"], check=True)


def test_only_ours_is_a_backend():
    with pytest.raises(Error, match="the backend 'x.so' cannot be used"):
        popdist.registerBackend("x.so")


def test_subsets_must_be_of_instances(monkeypatch):
    set_instance(monkeypatch, 1, 3)
    assert popdist.execute_on_instances({0, 2}, lambda: 1) is None
    assert popdist.execute_on_instances({1}, lambda: popdist.execute_on_instances([1], int)) == 0
    for wrong in (set(), {3}, {-1}):
        with pytest.raises(ValueError, match="Name some of them"):
            popdist.execute_on_instances(wrong, lambda: 1)


def environment_of(*words, instance=0, env=None):
    program = "import json, os; print(json.dumps(dict(os.environ)))"
    out, _ = poprun(*words, "--only-output-from-instance", instance, PYTHON, "-c", program, env=env)
    return json.loads(out.partition(":")[2])


def test_the_environment_of_an_instance(tmp_path, monkeypatch):
    monkeypatch.delenv("POPTORCH_IPU_POOL")
    found = environment_of(
        *("--num-instances=2", "--num-replicas=8", "--ipus-per-replica=2", "--offline-mode=on"),
        *("--executable-cache-path", tmp_path / "cache", "--mpi-local-args", "-x A=1 -x HOME"),
        *("--vipu-partition", "p", "--vipu-server-host=v", "--vipu-server-timeout", 9),
        instance=1,
        env={"OMP_NUM_THREADS": "3", "POPLAR_TARGET_OPTIONS": '{"ipuLinkDomainSize":"64"}'},
    )
    expected = {
        **{"POPDIST_NUM_TOTAL_REPLICAS": "8", "POPDIST_NUM_LOCAL_REPLICAS": "4"},
        **{"POPDIST_REPLICA_INDEX_OFFSET": "4", "POPDIST_NUM_IPUS_PER_REPLICA": "2"},
        **{"POPDIST_LOCAL_INSTANCE_INDEX": "1", "POPDIST_UNIFORM_REPLICAS_PER_INSTANCE": "1"},
        **{"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"},
        **{"OMPI_COMM_WORLD_LOCAL_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1"},
        **{"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"},
        **{"MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "3", "A": "1"},
        **{"POPTORCH_CACHE_DIR": str(tmp_path / "cache"), "POPDIST_OFFLINE_MODE": "1"},
        **{"POPXL_CACHE_DIR": str(tmp_path / "cache"), "IPUOF_VIPU_API_PORT": "8090"},
        **{"IPUOF_VIPU_API_HOST": "v", "IPUOF_VIPU_API_PARTITION_ID": "p"},
        **{"IPUOF_VIPU_API_TIMEOUT": "9", "IPUOF_VIPU_API_GCD_ID": "0"},
    }
    assert {name: found.get(name) for name in expected} == expected
    assert 0 < int(found["MASTER_PORT"]) < 65536
    assert found["POPTORCH_IPU_POOL"].startswith("64:2:/")
    options = json.loads(found["POPLAR_TARGET_OPTIONS"])
    assert options["ipuLinkDomainSize"] == "64" and options["instanceSize"] == "8"
    assert set(options) == {"ipuLinkDomainSize", "ipuLinkConfiguration", "ipuLinkTopology",
                            "gatewayMode", "instanceSize"}  # fmt: skip


@pytest.mark.shared
def test_threads_are_shared_out(monkeypatch):
    names = ("OMP_NUM_THREADS", "POPTORCH_NUM_THREADS")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    program = ("sh", "-c", "echo $OMP_NUM_THREADS $POPTORCH_NUM_THREADS")
    cores = len(os.sched_getaffinity(0))
    for count in (1, 64):
        out, _ = poprun("--num-instances", count, *program)
        each = str(max(1, cores // count))
        assert [lines(out, i) for i in range(count)] == [[f"{each} {each}"]] * count
    out, _ = poprun("--num-instances=2", *program, env={name: "7" for name in names})
    assert [lines(out, i) for i in range(2)] == [["7 7"]] * 2


def test_a_pool_has_devices_for_all_instances_of_a_host(monkeypatch):
    monkeypatch.delenv("POPTORCH_IPU_POOL")
    found = environment_of("--num-instances=2", "--num-replicas=128")
    assert found["POPTORCH_IPU_POOL"] == "128:2:"
    domains = json.loads(found["POPLAR_TARGET_OPTIONS"])
    assert (domains["ipuLinkDomainSize"], domains["gatewayMode"]) == ("64", "true")
    assert "POPTORCH_IPU_POOL" not in environment_of("--num-instances=2", env={})


def test_nodes_of_memory(tmp_path):
    cpus = sorted(os.sched_getaffinity(0))
    for node, text in {
        "node0": str(cpus[0]),
        "node1": f"{cpus[-1]},900-901",
        "node2": "950",
    }.items():
        (tmp_path / node).mkdir()
        (tmp_path / node / "cpulist").write_text(text + "\n")
    (tmp_path / "nodes").mkdir()
    assert numa.nodes(tmp_path) == [frozenset({cpus[0]}), frozenset({cpus[-1]})]
    assert numa.cpu_list("0-2,5\n") == {0, 1, 2, 5}


TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}  # fmt: skip
MPIRUN = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "3",
          "OMPI_COMM_WORLD_LOCAL_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "3"}  # fmt: skip
SLURM = {"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "2", "SLURM_LOCALID": "0",
         "SLURM_STEP_TASKS_PER_NODE": "2(x2)", "SLURM_STEP_NODELIST": "n[08-09]",
         "SLURM_JOB_ID": "7", "SLURM_NTASKS": "4"}  # fmt: skip
BATCH = {"SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_JOB_ID": "7"}


@pytest.mark.parametrize(
    "environ, name, here",
    [
        (TORCHRUN, "torchrun", Instance(4, 2, 2, 1, 1, 2)),
        (MPIRUN, "mpirun", Instance(8, 2, 6, 1, 3, 4)),
        (SLURM, "srun", Instance(8, 2, 4, 1, 0, 2)),
        ({"PMI_SIZE": "2", "PMI_RANK": "1"}, "mpiexec", Instance(4, 2, 2, 1, 1, 2)),
    ],
)
def test_variables_of_other_launchers_are_translated(environ, name, here):
    launcher = foreign.launcher_of(environ)
    assert launcher.name == name
    found = foreign.translated(launcher, environ, 2, 1)
    assert this_instance(found) == here
    where = {"srun": "tcp://n08:20007"}.get(name, "meeting:")
    assert found[instance.STORE].startswith(where)
    if name == "torchrun":
        environ = {**environ, "TORCHELASTIC_USE_AGENT_STORE": "True"}
        found = foreign.translated(launcher, environ, 1, 1)
        assert found[instance.STORE] == "agent://127.0.0.1:29500"


def test_an_address_is_where_they_meet_who_may_be_on_several_hosts():
    environ = {"PMI_SIZE": "2", "PMI_RANK": "1", "MASTER_ADDR": "n0", "MASTER_PORT": "5000"}
    launcher = foreign.launcher_of(environ)
    found = foreign.translated(launcher, environ, 1, 1)
    assert (found[instance.STORE], found["MASTER_PORT"]) == ("tcp://n0:5001", "5000")
    environ["MPI_LOCALNRANKS"] = "2"  # all are here
    assert foreign.translated(launcher, environ, 1, 1)[instance.STORE].startswith("meeting:")


def test_a_batch_shell_is_one_process():
    assert foreign.launcher_of(BATCH) is None
    assert foreign.launcher_of({**BATCH, "SLURM_STEP_NUM_TASKS": "1"}) is None
    done = subprocess.run([PYTHON, "-m", "popdist", "echo", "hi"], env=clean_environment(**BATCH),
                          check=True, capture_output=True, text=True)  # fmt: skip
    assert done.stdout == "[1,0]<stdout>:hi\n"


def test_other_launchers_programs_find_popdists_variables():
    words = [
        "--replicas-per-instance",
        "2",
        "--",
        "sh",
        "-c",
        "echo $POPDIST_REPLICA_INDEX_OFFSET; exit 3",
    ]
    command = [PYTHON, "-m", "popdist", *words]
    done = subprocess.run(command, env=clean_environment(**MPIRUN), capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("6\n", 3)
    command[3] = "--num-instances"
    done = subprocess.run(command, env=clean_environment(**MPIRUN), capture_output=True, text=True)
    assert done.returncode == 2 and "mpirun has started the processes already" in done.stderr
    command[3] = "--replicas-per-instance"
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True)
    assert done.returncode == 2 and "none has" in done.stderr


def test_numbers_that_do_not_fit():
    environ = {**MPIRUN, "OMPI_COMM_WORLD_RANK": "4"}
    with pytest.raises(Error, match="OMPI_COMM_WORLD_RANK is 4, but OMPI_COMM_WORLD_SIZE is 4"):
        foreign.translated(foreign.launcher_of(environ), environ, 1, 1)


def test_an_installed_mpi4py_is_told_of(monkeypatch, capsys):
    found = types.SimpleNamespace(origin="/site-packages/mpi4py/__init__.py")
    monkeypatch.setattr(foreign.importlib.util, "find_spec", lambda name: found)
    foreign.warn_about_mpi4py(2)
    assert "sees a world of one process, not of 2" in capsys.readouterr().err
    monkeypatch.setenv(instance.LAUNCHER, "mpirun")
    foreign.warn_about_mpi4py(2)
    monkeypatch.delenv(instance.LAUNCHER)
    monkeypatch.setenv(instance.COMPAT, "/site-packages")
    foreign.warn_about_mpi4py(2)
    assert capsys.readouterr().err == ""


def test_tensorflow_is_not_offered():
    with pytest.raises(ImportError, match="popdist.tensorflow is not offered"):
        import popdist.tensorflow  # noqa: F401
    assert "popdist.tensorflow" not in sys.modules
