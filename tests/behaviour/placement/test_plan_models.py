"""The cuts of poptorch.plan are compared with all cuts of small models, and its proposals with
estimates of the options that they name.
"""

import itertools

import poptorch
import pytest
import torch
from poptorch._impl.placement import planned_cuts, profiled_parts

from benchmarks import models, planned_models, plans
from benchmarks.best_cuts import BestCuts, Run
from benchmarks.kinds.images import UNet

MODELS = {
    "mlp": (
        lambda: models.WithLoss(models.Mlp(32, 512, 64, 2048, 256, 256, 1024, 10)),
        lambda: (torch.empty(32, 32), torch.empty(32, dtype=torch.int32)),
        3,
    ),
    "bert": (
        lambda: models.WithLoss(models.BertSmall(64, 2, 2, 32)),
        lambda: (torch.empty(4, 32, dtype=torch.int32), torch.empty(4, dtype=torch.int32)),
        2,
    ),
    "unet": (
        lambda: planned_models.Segmented(UNet(8)),
        lambda: (torch.empty(1, 3, 32, 32), torch.empty(1, 32 * 32, dtype=torch.int32)),
        2,
    ),
    "experts": (
        lambda: models.WithLoss(planned_models.MixtureOfExperts(64, 128, (2, 3, 4))),
        lambda: (torch.empty(64, 64), torch.empty(64, dtype=torch.int32)),
        2,
    ),
}


def made(name):
    build, inputs, ipus = MODELS[name]
    with torch.device("meta"):
        model = build()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        return model, inputs(), optimizer, ipus


def options_of(count=64, replicas=1):
    options = poptorch.Options().useOfflineIpuTarget(2).replicationFactor(replicas)
    options.Training.gradientAccumulation(count)
    return options


@pytest.mark.parametrize("name", MODELS)
def test_cuts_are_within_5_percent_of_the_best(name):
    model, inputs, optimizer, ipus = made(name)
    options = options_of()
    plan = poptorch.plan(model, inputs, ipus, optimizer=optimizer, options=options)

    parts, _ = profiled_parts.profile(model, inputs, options, optimizer, training=True)
    paths = [part.module for part in parts]

    def run(firsts):
        cuts = [paths[first] for first in firsts[1:]]
        found = planned_cuts.estimate(
            model, inputs, options, cuts, training=True, optimizer=optimizer
        )
        assert len(found.ipus) == ipus
        host = max(stream["cycles"] for stream in found.report["streams"])
        return Run(found.cycles_per_run, plans.cycles_of_ops(found.report, ipus), host)

    all_cuts = itertools.combinations(range(1, len(paths)), ipus - 1)
    runs = {firsts: run(firsts) for cuts in all_cuts for firsts in [(0, *cuts)]}
    best = min(each.cycles for each in runs.values())
    planned = (0, *(paths.index(cut) for cut in plan.cuts))
    assert runs[planned].cycles <= 1.05 * best
    search = BestCuts(len(paths), ipus, runs.__getitem__)
    assert search.run(planned)[1] == best
    assert search.costed < len(runs)


def test_a_plan_has_the_figures_of_the_pipeline_that_it_describes():
    model, inputs, optimizer, ipus = made("mlp")
    poptorch.BeginBlock(model.network.layers[1], "mine", ipu_id=1)  # is ignored
    plan = poptorch.plan(model, inputs, ipus, optimizer=optimizer, options=options_of(24))
    poptorch.removeBlocks(model)
    plan.apply(model)
    said = poptorch.estimate(model, inputs, options_of(24), optimizer=optimizer)
    assert plan.estimate.cycles_per_run == said.cycles_per_run
    assert plan.estimate.samples_per_second == said.samples_per_second
    assert [stage.memory_bytes for stage in plan.stages] == [ipu.needed_bytes for ipu in said.ipus]
    totals = [0] * ipus
    for stage in said.report["stages"]:
        totals[stage["ipu"]] += stage["cycles"]
    assert [stage.cycles for stage in plan.stages] == totals


def test_options_without_micro_batches_are_planned_for_64_and_stay_as_they_are():
    model, inputs, optimizer, ipus = made("mlp")
    options = options_of(1)
    plan = poptorch.plan(model, inputs, ipus, optimizer=optimizer, options=options)
    assert plan.estimate.samples_per_run == 64 * 32
    assert options.Training.gradient_accumulation == 1 and options.replication_factor == 1
    inference = poptorch.plan(model, inputs, ipus, training=False, ipu_version=21)
    assert inference.estimate.device == "ipu21"
    assert inference.estimate.samples_per_run == 64 * 32


def test_lists_of_modules_never_begin_a_stage():
    # A list is not called, so that a block can never begin at it.
    model, inputs, optimizer, _ = made("bert")
    parts, _ = profiled_parts.profile(model, inputs, options_of(), optimizer, training=True)
    paths = {part.module for part in parts}
    assert "network.layers.0" in paths and "network.layers" not in paths


def estimated_by_lines(proposal, model, inputs, optimizer, options):
    """Returns the estimate of the model with the options that the proposal's lines change."""
    exec("\n".join(proposal.lines), {"poptorch": poptorch, "options": options})
    factor = proposal.estimate.samples_per_run // (
        options.Training.gradient_accumulation * options.replication_factor
    )
    inputs = tuple(
        torch.empty(factor, *each.shape[1:], dtype=each.dtype, device="meta") for each in inputs
    )
    return poptorch.estimate(model, inputs, options, optimizer=optimizer)


@pytest.mark.parametrize("replicas", [1, 2])
def test_proposals_have_the_effect_that_they_predict(replicas, capsys):
    model, inputs, optimizer, ipus = made("mlp")
    options = options_of(64, replicas)
    plan = poptorch.plan(model, inputs, ipus, optimizer=optimizer, options=options)
    plan.apply(model)
    kinds = [proposal.change for proposal in plan.proposals]
    assert {"without recomputation", "optimiser state off chip", "micro-batch 16", "micro-batch 64",
            "sync pattern SinglePipeline", f"{2 * replicas} replicas"} <= set(kinds)  # fmt: skip
    assert ("optimiser state off chip and sharded" in kinds) == (replicas > 1)
    printed = capsys.readouterr().out
    most = max(stage.memory_bytes for stage in plan.stages)
    for proposal in plan.proposals:
        said = estimated_by_lines(proposal, model, inputs, optimizer, options_of(64, replicas))
        assert said.samples_per_second == proposal.estimate.samples_per_second
        assert max(ipu.needed_bytes for ipu in said.ipus) == proposal.memory_bytes
        assert proposal.memory_change == proposal.memory_bytes - most
        assert proposal.change in printed
    speeds = [proposal.speed for proposal in plan.proposals if proposal.fits]
    assert speeds == sorted(speeds, reverse=True)


def test_a_model_that_fits_only_with_other_options_is_told_so(capsys):
    with torch.device("meta"):
        model = models.WithLoss(models.Mlp(64, *[4096] * 8, 64))
        inputs = torch.empty(16, 64), torch.empty(16, dtype=torch.int32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    plan = poptorch.plan(model, inputs, 2, optimizer=optimizer)
    assert not plan.fits
    first = plan.proposals[0]
    assert first.change.startswith("optimiser state off chip")
    assert first.fits and first.is_better and first.memory_change < 0
    assert "options.TensorLocations.setOptimizerLocation(location)" in capsys.readouterr().out


class OfOneSize(torch.nn.Module):
    """Takes only batches of eight samples."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)

    def forward(self, x):
        return self.second(self.first(x).view(8, 16) + torch.ones(8, 16))


def test_changes_that_the_model_refuses_are_left_out():
    plan = poptorch.plan(OfOneSize().eval(), torch.empty(8, 16), 2)
    assert {proposal.change for proposal in plan.proposals} == {
        "2 replicas", "4 replicas", "8 replicas", "sync pattern SinglePipeline"
    }  # fmt: skip


def test_a_plan_is_displayed_with_its_proposals():
    model, inputs, optimizer, ipus = made("mlp")
    plan = poptorch.plan(model, inputs, ipus, optimizer=optimizer)
    html = plan._repr_html_()
    assert "without recomputation" in html and "for each IPU" in html
