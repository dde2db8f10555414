"""Tests the device pool: ids, sizes, holders of devices, and devices that other processes hold."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import time

import poptorch
import pytest
import torch
import zygote
from poptorch._impl.devices import ipu_pool

X = torch.ones(1, 4)


class TwoIpus(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.second = poptorch.BeginBlock(torch.nn.Linear(4, 4), "1", ipu_id=1)

    def forward(self, x):
        return self.second(self.first(x))


@pytest.fixture
def log(caplog):
    return caplog


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A separate pool of four Mk2 IPUs for this test."""
    monkeypatch.setenv("POPTORCH_IPU_POOL", f"4:2:{tmp_path}")
    return tmp_path


def wrapped(model=None, set_options=lambda options: options):
    options = poptorch.Options().setExecutionStrategy(poptorch.ShardedExecution())
    model = model or torch.nn.Linear(4, 4)
    return poptorch.inferenceModel(model, set_options(options))


def test_devices_are_numbered_singles_first_then_pairs(folder):
    pool = ipu_pool.Pool.of_environment()
    assert pool == ipu_pool.Pool(4, 2, str(folder))
    assert pool.groups(1) == {i: range(i, i + 1) for i in range(4)}
    assert pool.groups(2) == {4: range(0, 2), 5: range(2, 4)}
    assert pool.groups(4) == {6: range(0, 4)}
    assert [pool.size_of(i) for i in range(8)] == [1, 1, 1, 1, 2, 2, 4, 0]


@pytest.mark.shared
def test_a_pair_takes_both_its_ipus(folder):
    pair = wrapped(TwoIpus(), lambda o: o.useIpuId(5))
    pair(X)
    for single in (2, 3):
        with pytest.raises(poptorch.Error, match=f"Failed to acquire device Id {single}: held"):
            wrapped(None, lambda o, n=single: o.useIpuId(n))(X)
    free = wrapped(None, lambda o: o.useIpuId(1))
    free(X)
    pair.detachFromDevice()
    wrapped(None, lambda o: o.useIpuId(3))(X)


def test_a_device_of_another_size_is_refused_with_those_that_fit(folder):
    with pytest.raises(
        poptorch.Error, match=r"device Id 1: it has 1 IPU.* needs a device of 2.*4 to"
    ):
        wrapped(TwoIpus(), lambda o: o.useIpuId(1))(X)
    with pytest.raises(poptorch.Error, match="the pool has no device of that number"):
        wrapped(None, lambda o: o.useIpuId(7))(X)


@pytest.mark.shared
def test_all_taken_is_an_error_and_destroy_frees(folder):
    held = [wrapped(TwoIpus()) for _ in range(2)]
    for model in held:
        model(X)
    with pytest.raises(poptorch.Error, match=r"Failed to acquire 1 IPU\(s\)"):
        wrapped()(X)
    held[0].destroy()
    wrapped()(X)


def test_a_model_larger_than_the_pool_is_refused(folder):
    replicas = wrapped(TwoIpus(), lambda o: o.replicationFactor(4).broadcastBuffers(False))
    with pytest.raises(poptorch.Error, match="the pool has 4"):
        replicas(torch.ones(4, 4))


def test_more_than_64_ipus_are_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("POPTORCH_IPU_POOL", f"128:2:{tmp_path}")
    with pytest.raises(poptorch.Error, match=r"Too many IPUs requested \(128\)"):
        ipu_pool.acquire(ipu_pool.Pool.of_environment(), 65)


class ThreeIpus(TwoIpus):
    def __init__(self):
        super().__init__()
        self.third = poptorch.BeginBlock(torch.nn.Linear(4, 4), "2", ipu_id=2)

    def forward(self, x):
        return self.third(super().forward(x))


def test_excess_ipus_are_reserved_and_reported(folder, log):
    three = wrapped(ThreeIpus(), lambda o: o.autoRoundNumIPUs(True))
    three(X)
    assert three.report()["idle_ipus"] == 1
    warnings = [record.getMessage() for record in log.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert "Reserving 4 IPUs when the model specifices the use of only 3" in warnings[0]
    assert warnings[0].endswith(" 1 will be reserved but not used.")
    with pytest.raises(poptorch.Error, match="Failed to acquire device Id 3"):
        wrapped(None, lambda o: o.useIpuId(3))(X)


def test_without_rounding_the_number_of_ipus_must_be_one_of_a_device(folder):
    text = (
        "The model specifies the use of 3 IPUs, however PopTorch must reserve a minimum of 4 in "
        "order to allow the model to run, because PopTorch must reserve a power of 2 or maximum "
        "of 64 IPUs per process. Please reconfigure your model to use a different number of IPUs "
        "or set poptorch.Options().autoRoundNumIPUs(True)."
    )
    with pytest.raises(poptorch.Error, match=re.escape(text)):
        wrapped(ThreeIpus()).compile(X)


@pytest.mark.parametrize(
    "ids, replicas, counted, reserved",
    [((0, 2), 1, 3, 4), ((2,), 1, 3, 4), ((0, 4), 1, 5, 8), ((2,), 2, 6, 8), ((0,), 3, 3, 4)],
)
def test_ipus_are_counted_up_to_the_highest_one_of_each_replica(ids, replicas, counted, reserved):
    def model(x):
        for ipu in ids:
            with poptorch.Block(ipu_id=ipu):
                x = x * 2
        return x

    several = wrapped(model, lambda o: o.replicationFactor(replicas))
    text = f"specifies the use of {counted} IPUs, however PopTorch must reserve a minimum of "
    with pytest.raises(poptorch.Error, match=text + str(reserved)):
        several.compile(X.expand(replicas, 4))


def test_offline_no_device_is_rounded_to(folder, log):
    three = wrapped(ThreeIpus(), lambda o: o.useOfflineIpuTarget())
    three.compile(X)
    assert three.isCompiled() and not three.isAttachedToDevice()
    assert "Reserving" not in log.text


@pytest.mark.parametrize(
    "set_options, text",
    [
        (lambda o: o.useIpuId(0), "Offline compilation targeting a specific id not supported"),
        (lambda o: o.useIpuModel(True), "not supported for the IPU model"),
    ],
)
def test_offline_targets_that_there_are_not(folder, set_options, text):
    offline = wrapped(None, lambda o: set_options(o).useOfflineIpuTarget(2))
    with pytest.raises(poptorch.Error, match=text):
        offline.compile(X)


@pytest.mark.shared
@pytest.mark.parametrize("training", [False, True])
def test_a_model_that_got_no_device_begins_anew(folder, log, training):
    class Model(torch.nn.Linear):
        def forward(self, x):
            return poptorch.identity_loss(super().forward(x), reduction="sum")

    holder = ipu_pool.acquire(ipu_pool.Pool.of_environment(), 4)
    make = poptorch.trainingModel if training else poptorch.inferenceModel
    model = make(Model(4, 4), poptorch.Options())
    for begin in (model.compile, model, model.compile):
        with pytest.raises(poptorch.Error, match=r"Failed to acquire 1 IPU\(s\)"):
            begin(X)
        assert not model.isCompiled() and not model.isAttachedToDevice()
    holder.release()
    model.compile(X)
    assert model.isCompiled() and model.isAttachedToDevice()
    model(X)
    assert "ignored" not in log.text


def test_the_ipu_model_and_offline_targets_take_no_device(folder):
    busy = wrapped(None, lambda o: o.useIpuId(0))
    busy(X)
    wrapped(None, lambda o: o.useIpuId(0).useIpuModel(True))(X)
    offline = wrapped(None, lambda o: o.useOfflineIpuTarget(21))
    offline.compile(X)
    assert offline.report()["device"] == "ipu21"


def test_the_pool_says_what_is_compiled_for(tmp_path):
    bow = wrapped(None, lambda o: o)
    bow.compile(X)
    options = poptorch.Options()
    options.Emulator.devicePool(2, version=1, folder=str(tmp_path))
    mk1 = poptorch.inferenceModel(torch.nn.Linear(4, 4), options)
    mk1(X)
    report = mk1.report()
    assert report["device"] == "ipu1"
    assert report["ipus"][0]["capacity_bytes"] == 1216 * 248 * 1024


def test_queries_follow_the_pool(monkeypatch):
    monkeypatch.delenv("POPTORCH_IPU_MODEL", raising=False)
    monkeypatch.setenv("POPTORCH_IPU_POOL", "16:21")
    assert poptorch.ipuHardwareVersion() == 21
    assert poptorch.ipuHardwareIsAvailable(16) and not poptorch.ipuHardwareIsAvailable(17)
    monkeypatch.setenv("POPTORCH_IPU_POOL", "0")
    with pytest.raises(AssertionError, match="No IPU hardware available on this system"):
        poptorch.ipuHardwareVersion()
    for bad, text in (("lots", "is 'lots'"), ("12", "12 IPUs"), ("4:3", "version 3")):
        monkeypatch.setenv("POPTORCH_IPU_POOL", bad)
        with pytest.raises(poptorch.Error, match=text):
            poptorch.ipuHardwareIsAvailable()


HOLDER = """
    import sys
    from poptorch._impl.devices import ipu_pool
    lease = ipu_pool.acquire(ipu_pool.Pool.of_environment(), 4)
    print("held", flush=True)
    sys.stdin.read()
"""


def start_holder():
    process = zygote.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLDER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    return process


def end(process, how=signal.SIGKILL):
    process.send_signal(how)
    process.wait()
    process.stdin.close()
    process.stdout.close()


@pytest.mark.signals
def test_a_crash_frees_the_devices_of_the_process(folder):
    process = start_holder()
    with pytest.raises(poptorch.Error, match=f"held by process {process.pid}"):
        wrapped()(X)
    end(process)
    wrapped()(X)


@pytest.mark.signals
def test_waiting_lasts_until_the_other_process_ends(folder, monkeypatch):
    process = start_holder()
    monkeypatch.setenv("POPTORCH_WAIT_FOR_IPU", "1")
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        end(process)

    monkeypatch.setattr(time, "sleep", sleep)
    wrapped()(X)
    assert slept == [15]


def test_a_forked_child_does_not_keep_what_its_parent_gives_back(folder):
    lease = ipu_pool.acquire(ipu_pool.Pool.of_environment(), 4)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(reader, 1)
        os._exit(0)
    lease.release()
    ipu_pool.acquire(ipu_pool.Pool.of_environment(), 4).release()
    os.write(writer, b"x")
    os.waitpid(child, 0)
    os.close(reader), os.close(writer)
