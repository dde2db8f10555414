"""IPUs of a pipeline wait for each other as the sync pattern says, in modelled time alone."""

import poptorch
import pytest
import torch

SyncPattern = poptorch.SyncPattern
MICRO_BATCHES = 8


class Halves(torch.nn.Module):
    """Two layers on two IPUs."""

    def __init__(self, width):
        super().__init__()
        self.first, self.last = torch.nn.Linear(width, width), torch.nn.Linear(width, width)
        poptorch.BeginBlock(self.last, "back", ipu_id=1)

    def forward(self, x):
        y = self.last(torch.relu(self.first(x)))
        return poptorch.identity_loss(y, reduction="mean") if self.training else y


def run(pattern, width, training=False):
    """Returns the result of a run with the pattern, and its report."""
    torch.manual_seed(0)
    options = poptorch.Options().syncPattern(pattern).showCompilationProgressBar(False)
    model = Halves(width)
    if training:
        options.Training.gradientAccumulation(MICRO_BATCHES)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        wrapped = poptorch.trainingModel(model.train(), options, optimizer)
    else:
        wrapped = poptorch.inferenceModel(model.eval(), options.deviceIterations(MICRO_BATCHES))
    result = wrapped(torch.randn(4 * MICRO_BATCHES, width))
    report = wrapped.report()
    wrapped.destroy()
    return result, report


def cycles(report, kind):
    """Returns the cycles of a micro-batch on both IPUs."""
    return [ipu[f"{kind}_cycles"] / MICRO_BATCHES for ipu in report["ipus"]]


@pytest.mark.parametrize("width", [16, 1024])
def test_a_cycle_takes_the_most_work_and_the_longest_transfers(width):
    _, report = run(SyncPattern.Full, width)
    work, host, links = (cycles(report, kind) for kind in ("compute", "host", "link"))
    first = work[0] + host[0] + links[0]
    last = work[1] + host[1]
    both = max(work) + max(host) + max(links)
    assert report["cycles_per_run"] == first + (MICRO_BATCHES - 1) * both + last


@pytest.mark.parametrize("width", [16, 1024])
def test_with_single_pipeline_the_host_counts_as_work(width):
    _, report = run(SyncPattern.SinglePipeline, width)
    work, host, links = (cycles(report, kind) for kind in ("compute", "host", "link"))
    own = [w + h for w, h in zip(work, host, strict=True)]
    expected = own[0] + links[0] + (MICRO_BATCHES - 1) * (max(own) + max(links)) + own[1]
    assert report["cycles_per_run"] == expected
    assert all(ipu["host_wait_cycles"] == 0 for ipu in report["ipus"])


@pytest.mark.parametrize("training", [False, True])
def test_the_pattern_changes_time_and_no_value(training):
    found = {pattern: run(pattern, 256, training) for pattern in SyncPattern}
    full, report = found[SyncPattern.Full]
    for pattern, (result, _) in found.items():
        assert torch.equal(result, full), pattern
    assert found[SyncPattern.ReplicaAndLadder][1]["ipus"] == report["ipus"]
    alone = found[SyncPattern.SinglePipeline][1]
    # In inference the input of one IPU and the output of the other take the same time.
    fewer = report["cycles_per_run"] - alone["cycles_per_run"]
    assert fewer > 0 if training else fewer == 0
    for kind in ("compute", "host", "link"):
        assert cycles(alone, kind) == cycles(report, kind)
    waits = [ipu["host_wait_cycles"] + ipu["link_wait_cycles"] for ipu in report["ipus"]]
    assert all(
        0 < wait <= ipu["idle_cycles"] for wait, ipu in zip(waits, report["ipus"], strict=True)
    )


def test_an_estimate_names_the_host_that_all_wait_for():
    options = poptorch.Options().useOfflineIpuTarget(2).deviceIterations(64)
    estimate = poptorch.estimate(Halves(1024).eval(), torch.zeros(64, 1024), options)
    assert estimate.limiting_factor == "host"
    assert sum(estimate.shares.values()) == pytest.approx(1)
    streams = {stream["name"]: stream for stream in estimate.report["streams"]}
    most = max(streams.values(), key=lambda stream: stream["cycles"])
    assert most["bytes"] == 64 * 64 * 1024 * 4
    assert [ipu["host_cycles"] for ipu in estimate.report["ipus"]] == [
        sum(stream["cycles"] for stream in streams.values() if stream["ipu"] == number)
        for number in range(2)
    ]
