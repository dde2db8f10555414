"""Tests options and devices of an instance, for PopTorch and PopART."""

import os
import sys

import popart
import popdist.popart
import popdist.poptorch
import poptorch
import popxl
import pytest
import torch
import zygote
from launching import clean_environment
from popdist.instance import OFFLINE, Instance
from poptorch_core import Error


@pytest.fixture(autouse=True)
def without_launcher(monkeypatch):
    for name in set(os.environ) - set(clean_environment()):
        monkeypatch.delenv(name)


@pytest.fixture
def launched(monkeypatch):
    """Sets the variables of the second of three instances, with two replicas of four IPUs each."""
    for name, value in Instance(6, 2, 2, 4, 1, 3).variables().items():
        monkeypatch.setenv(name, value)


def of_distributed(options):
    distributed = options.Distributed
    return distributed.processId, distributed.numProcesses, distributed.num_distributed_processes


def test_options_without_a_launcher():
    options = popdist.poptorch.Options(ipus_per_replica=2)
    assert options.replication_factor == 1 and of_distributed(options) == (0, 1, 1)
    options.outputMode(poptorch.OutputMode.All)
    model = torch.nn.Linear(2, 2)
    wrapped = poptorch.inferenceModel(model, options)
    assert torch.equal(wrapped(torch.ones(1, 2)), model(torch.ones(1, 2)))


@pytest.mark.parametrize("arguments", [{}, {"ipus_per_replica": 4}])
def test_options_of_an_instance(launched, arguments):
    options = popdist.poptorch.Options(**arguments)
    assert isinstance(options, poptorch.Options)
    assert options.replication_factor == 2 and of_distributed(options) == (1, 3, 3)
    assert of_distributed(popdist.poptorch.Options(4)) == (1, 3, 3)
    copy = options.clone()
    assert type(copy) is popdist.poptorch.Options and of_distributed(copy) == (1, 3, 3)


def test_another_number_of_ipus_is_refused(launched):
    with pytest.raises(Error, match=r"ipus_per_replica=2\), but .* --ipus-per-replica 4"):
        popdist.poptorch.Options(ipus_per_replica=2)


DECIDED = {
    "useIpuId": (1,),
    "replicationFactor": (2,),
    "Distributed.disable": (),
    "Distributed.setEnvVarNames": ("A", "B"),
    "Distributed.configureProcessId": (0, 2),
}


def setter(options, name):
    for part in name.split("."):
        options = getattr(options, part)
    return options


@pytest.mark.parametrize("name", DECIDED)
def test_what_the_launcher_decides_cannot_be_set(launched, name):
    options = popdist.poptorch.Options()
    with pytest.raises(RuntimeError) as raised:
        setter(options, name)(*DECIDED[name])
    assert str(raised.value) == f"Cannot call `{name}` with popdist.poptorch.Options"
    assert of_distributed(options) == (1, 3, 3) and options.replication_factor == 2


@pytest.mark.parametrize("name", DECIDED)
def test_without_a_launcher_everything_can_be_set(name, monkeypatch):
    monkeypatch.setenv("A", "4")
    monkeypatch.setenv("B", "3")
    options, plain = popdist.poptorch.Options(), poptorch.Options()
    for some in (options, plain):
        setter(some.outputMode(poptorch.OutputMode.All), name)(*DECIDED[name])
    assert options.toDict() == plain.toDict()


def test_collectives_need_no_import_of_their_own():
    program = "import popdist; print(popdist.collectives.all_reduce, hasattr(popdist, 'other'))"
    done = zygote.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "function all_reduce" in done.stdout and done.stdout.endswith(" False\n")


def test_to_dict_leaves_options_as_they_were(launched):
    options = popdist.poptorch.Options()
    options.outputMode(poptorch.OutputMode.All)
    free = options.toDict()
    options.checkIsFrozen()
    options._freeze()
    assert options.toDict() == free
    assert (free["distributed_process_id"], free["num_distributed_processes"]) == (1, 3)
    with pytest.raises(AttributeError):
        options.checkIsFrozen()


def test_without_devices_models_are_compiled_only(launched, monkeypatch):
    monkeypatch.setenv(OFFLINE, "1")
    for options in (popdist.poptorch.Options(), poptorch.Options()):
        wrapped = poptorch.inferenceModel(torch.nn.Linear(2, 2), options)
        wrapped.compile(torch.ones(2, 2))
        assert wrapped.report()["replicas"] == 3 * options.replication_factor
        for attaching in (wrapped.attachToDevice, lambda: wrapped(torch.ones(2, 2))):  # noqa: B023
            with pytest.raises(AssertionError, match="poprun --offline-mode"):
                attaching()
    assert popdist.popart.getDevice().type == popart.DeviceType.OfflineIpu


def test_without_devices_a_session_is_made_and_not_entered(monkeypatch):
    monkeypatch.setenv(OFFLINE, "1")
    ir = popxl.Ir(replication=4)
    with ir.main_graph:
        popxl.ops.host_store(popxl.d2h_stream((), popxl.float32), popxl.constant(1.0))
    session = popxl.Session(ir, "ipu_hw")
    with pytest.raises(popart.popart_exception, match="--offline-mode"), session:
        pass


def test_popart(launched):
    options = popart.SessionOptions()
    popdist.popart.configureSessionOptions(options)
    assert options.enableReplicatedGraphs and options.enableDistributedReplicatedGraphs
    assert (options.globalReplicaOffset, options.globalReplicationFactor) == (2, 6)
    assert options.getGlobalReplicationFactor() == 6
    device = popdist.popart.getDevice(
        ipus_per_replica=2, connectionType=popart.DeviceConnectionType.OnDemand
    )
    assert device.numIpus == 4 and popdist.popart.getDevice().numIpus == 8


def test_popart_without_a_launcher():
    options = popart.SessionOptions()
    popdist.popart.configureSessionOptions(options)
    assert not options.enableDistributedReplicatedGraphs
    assert options.getGlobalReplicationFactor() == 1
    assert popdist.popart.getDevice().numIpus == 1


class Loss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))

    def forward(self, x):
        y = x * self.weight
        return y, poptorch.identity_loss(y.sum(), "sum")


@pytest.mark.shared
def test_a_model_does_not_train_apart_unnoticed(monkeypatch):
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"target.hostSyncTimeout": "1"}')
    options = poptorch.Options()
    options.Distributed.configureProcessId(1, 3)
    model = poptorch.trainingModel(Loss(), options)
    with pytest.raises(Error, match="instance 1 waited 1 s for instance 0"):
        model(torch.ones(1, 2))
    apart = poptorch.inferenceModel(Loss(), options)
    assert len(apart(torch.ones(1, 2))[0]) == 1
    options = poptorch.Options()
    options.Distributed.disable()
    poptorch.trainingModel(Loss(), options)(torch.ones(1, 2))


def test_a_model_within_a_part_of_the_instances(launched):
    def trained():
        poptorch.trainingModel(Loss(), popdist.poptorch.Options())(torch.ones(2, 2))

    with pytest.raises(Error, match="within popdist.execute_on_instances a model cannot use all"):
        popdist.execute_on_instances({1}, trained)
