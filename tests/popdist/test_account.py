"""Tests the report of a program of several processes that is compiled offline for one of them."""

import json
import re

import poptorch
import pytest
import torch
from poptorch._impl.wrapper.state import wrapper_state
from poptorch_core import Error
from poptorch_core.reports import advice, recording

ROWS, WIDTH = 2, 16
CLOCK = 1.33e9  # of docs/machine.md
BANDWIDTH = {"IPU-Links": 0.85 * 320e9, "GW-Links": 12.5e9}
LATENCY = {"IPU-Links": 0.575e-6, "GW-Links": 1.76e-6}


class Layers(torch.nn.Module):
    """Two layers, on separate IPUs if requested."""

    def __init__(self, ipus=1):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(WIDTH, WIDTH, bias=False), torch.nn.Linear(WIDTH, WIDTH, bias=False)
        )
        if ipus > 1:
            poptorch.BeginBlock(self.layers[1], ipu_id=1)

    def forward(self, x):
        return poptorch.identity_loss(self.layers(x).square(), reduction="mean")


def compiled(replicas, processes=1, process=0, ipus=1, change=lambda options: None):
    """Compiles for the given number of replicas in all."""
    options = poptorch.Options().useOfflineIpuTarget().replicationFactor(replicas // processes)
    options.Distributed.configureProcessId(process, processes)
    options.Training.gradientAccumulation(4)
    change(options)
    model = Layers(ipus)
    wrapped = poptorch.trainingModel(model, options, torch.optim.Adam(model.parameters()))
    wrapped.compile(torch.zeros(ROWS * 4 * replicas // processes, WIDTH))
    return wrapped


@pytest.fixture
def domain(monkeypatch):
    """Sets how many IPUs IPU-Links join."""

    def set_domain(ipus):
        monkeypatch.setenv("POPLAR_TARGET_OPTIONS", json.dumps({"ipuLinkDomainSize": str(ipus)}))

    return set_domain


@pytest.mark.parametrize("ipus", [1, 2])
def test_it_does_not_depend_on_the_number_of_processes(ipus):
    alone = compiled(4, ipus=ipus)
    expected = alone.report()
    assert expected["instances"] == 1
    assert all(ipu["link_bytes"] > 0 and ipu["host_bytes"] > 0 for ipu in expected["ipus"])
    for processes in (2, 4):
        found = compiled(4, processes, processes - 1, ipus)
        # Each process has its replicas' part of the host's traffic.
        executables = [wrapper_state(w).compiled.executable for w in (alone, found)]
        [(_, alls)], [(_, own)] = (executable.input_types() for executable in executables)
        assert own[0] * processes == alls[0]
        assert found.report() == {**expected, "instances": processes}


def sharded(options):
    location = poptorch.TensorLocationSettings().useReplicatedTensorSharding(True)
    location = location.minElementsForReplicatedTensorSharding(2).useOnChipStorage(False)
    options.TensorLocations.setOptimizerLocation(location)


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_shards_are_of_the_replicas_of_a_process(processes):
    report = compiled(4, processes, change=sharded).report()
    state = 2 * 4 * sum(p.numel() for p in Layers().parameters())
    assert report["streaming_bytes"] == pytest.approx(state / (4 / processes), abs=16)


def parts_of(report, ipu=0):
    return {(c["part"], c["links"]): c for c in report["collectives"] if c["ipu"] == ipu}


def test_a_sum_over_domains_has_three_parts(domain):
    """Four replicas on two IPUs each, two of them in a domain."""
    domain(4)
    report = compiled(4, processes=2, ipus=2).report()
    gradient = 4 * WIDTH * WIDTH
    sent = {
        ("reduce_scatter", "IPU-Links"): gradient // 2,
        ("all_reduce", "GW-Links"): gradient // 2,  # half of each half, twice
        ("all_gather", "IPU-Links"): gradient // 2,
    }
    for ipu in (0, 1):
        found = parts_of(report, ipu)
        assert {key: part["bytes"] for key, part in found.items()} == sent
        for (_, links), part in found.items():
            assert (part["op"], part["members"], part["count"]) == ("all_reduce", 2, 1)
            seconds = 2 * part["bytes"] / BANDWIDTH[links] + LATENCY[links]
            assert part["cycles"] == pytest.approx(seconds * CLOCK, abs=1)
        work = report["ipus"][ipu]
        assert work["gateway_bytes"] == sent["all_reduce", "GW-Links"]
        assert work["gateway_cycles"] == found["all_reduce", "GW-Links"]["cycles"]


@pytest.mark.parametrize(
    "size, expected",
    [
        (1, {("all_reduce", "GW-Links"): 4}),
        (4, {("all_reduce", "IPU-Links"): 4}),
        (64, {("all_reduce", "IPU-Links"): 4}),
    ],
)
def test_a_sum_within_a_domain_or_of_lone_replicas_has_one(domain, size, expected):
    domain(size)
    found = parts_of(compiled(4).report())
    assert {key: part["members"] for key, part in found.items()} == expected
    # Twice the bytes that a ring's members send: three quarters, of both layers.
    assert [part["bytes"] for part in found.values()] == [2 * 2 * 4 * WIDTH * WIDTH * 3 // 4]


def test_gateways_cost_time(domain):
    cycles = []
    for size in (4, 2, 1):
        domain(size)
        cycles.append(compiled(4).report()["cycles_per_run"])
    assert cycles[0] < min(cycles[1:])


@pytest.mark.parametrize(
    "given", ["4", "[]", "{", '{"ipuLinkDomainSize": "many"}', '{"ipuLinkDomainSize": 65}']
)
def test_domains_that_cannot_be_are_refused(monkeypatch, given):
    monkeypatch.setenv("POPLAR_TARGET_OPTIONS", given)
    with pytest.raises(Error, match=re.escape(f"POPLAR_TARGET_OPTIONS is {given!r}")):
        compiled(2)


def test_the_report_shows_the_parts(domain, tmp_path):
    domain(2)
    wrapped = compiled(4)
    wrapped.write_report(tmp_path)
    data = json.loads((tmp_path / "report.json").read_text())
    assert data["collectives"] == wrapped.report()["collectives"]
    strings, rows = data["strings"], data["instructions"]
    kinds = [strings[kind] for kind in rows["kind"]]
    moved = zip(kinds, rows["bytes"], rows["count"], strict=True)
    sent = sum(size * count for kind, size, count in moved if kind == "collective")
    assert sent == sum(part["bytes"] for part in data["collectives"])


def test_each_process_has_a_log_of_its_own(tmp_path):
    for process in (0, 1):
        compiled(4, 2, process, change=lambda options: options.logDir(str(tmp_path)))
    logs = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.log"))
    assert logs == ["instance_1/training.log", "training.log"]


@pytest.mark.parametrize("process", [0, 1])
def test_idle_ipus_are_those_of_the_instance(process):
    wrapped = compiled(6, 2, process)
    assert wrapped.report()["idle_ipus"] == 1
    data = recording.data_of(wrapper_state(wrapped).compiled.executable, {"kind": "training"})
    [found] = [a for a in advice.advise(data) if a["kind"] == "idle_replica"]
    assert found["text"].startswith("1 of the 4 reserved IPUs ")
    assert "options.replicationFactor(4)" in found["cure"]


def test_two_instances_of_two_idle_for_nobody():
    assert compiled(6, 3).report()["idle_ipus"] == 0
