"""Random models with random cuts give the same bits on one IPU and on many, phased or not.

Replicas, accumulation, iterations, the optimiser and the places of state are random too. Where
torch has all of them, its values must agree. CI runs 500 seeds, other runs a few, or as many as
POPTORCH_FUZZ_SEEDS says.
"""

import copy
import dataclasses
import os
import random

import poptorch
import pytest
import torch
from fuzz_models import inputs, random_models, random_strategy
from poptorch import MeanReductionStrategy, OutputMode, ReductionType

SEEDS = int(os.environ.get("POPTORCH_FUZZ_SEEDS", "500" if os.environ.get("CI") else "24"))
MICRO_BATCH = 4
STEPS = 2

OPTIMISERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.5),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "clipped": lambda p: poptorch.optim.Adam(p, lr=0.01, max_grad_norm=0.2),
    "lamb": lambda p: poptorch.optim.LAMB(p, lr=0.01),
    "scaled": lambda p: poptorch.optim.SGD(
        p, lr=0.01, momentum=0.9, use_combined_accum=True, loss_scaling=8.0
    ),
}


@dataclasses.dataclass
class Run:
    """How both models run."""

    seed: int
    replicas: int
    iterations: int
    accumulation: int
    optimiser: str
    mode: OutputMode
    reduction: ReductionType
    is_running: bool
    rounds_stochastically: bool
    scales_loss: bool

    @classmethod
    def draw(cls, rng, seed, stages):
        return cls(
            seed=seed,
            replicas=rng.choice([1, 1, 2]),
            iterations=rng.randint(1, 2),
            accumulation=2 * stages - 1 + rng.randint(0, 2) if stages else rng.randint(1, 3),
            optimiser=rng.choice(["sgd", *OPTIMISERS]),
            mode=rng.choice([OutputMode.All, OutputMode.All, OutputMode.Final, OutputMode.Sum]),
            reduction=rng.choice([ReductionType.Mean, ReductionType.Mean, ReductionType.Sum]),
            is_running=rng.random() < 0.2,
            rounds_stochastically=rng.random() < 0.2,
            scales_loss=rng.random() < 0.2,
        )

    def options(self, training):
        options = poptorch.Options().showCompilationProgressBar(False).autoRoundNumIPUs(True)
        options.randomSeed(self.seed).outputMode(self.mode)
        options.Precision.enableStochasticRounding(self.rounds_stochastically)
        options.replicationFactor(self.replicas).broadcastBuffers(self.replicas == 1)
        if training:
            options.deviceIterations(self.iterations)
            options.Training.gradientAccumulation(self.accumulation)
            options.Training.accumulationAndReplicationReductionType(self.reduction)
            options.Training.setAutomaticLossScaling(self.scales_loss)
            if self.is_running:
                options.Training.setMeanAccumulationAndReplicationReductionStrategy(
                    MeanReductionStrategy.Running
                )
        else:
            options.deviceIterations(self.iterations * self.accumulation)
        return options

    def batches(self):
        rows = MICRO_BATCH * self.replicas * self.iterations * self.accumulation
        generator = torch.Generator().manual_seed(self.seed)
        return [inputs(rows, generator) for _ in range(STEPS)]

    def of(self, model, strategy, places):
        """Returns the results of training and then of inference, and the state after each."""
        options = places(self.options(True).setExecutionStrategy(strategy))
        optimiser = OPTIMISERS[self.optimiser](model.parameters())
        wrapped = poptorch.trainingModel(model, options, optimiser)
        results = [result for batch in self.batches() for result in wrapped(*batch)]
        wrapped.destroy()
        results += [tensor.clone() for tensor in model.state_dict().values()]
        options = places(self.options(False).setExecutionStrategy(strategy))
        wrapped = poptorch.inferenceModel(model.eval(), options)
        results += wrapped(*self.batches()[0])
        wrapped.copyWeightsToHost()
        return results + [tensor.clone() for tensor in model.state_dict().values()]

    def of_torch(self, model):
        """Returns the same computed by torch alone."""
        optimiser = OPTIMISERS[self.optimiser](model.parameters())
        results = []
        for batch in self.batches():
            of_batch = []
            for update in zip(*(t.chunk(self.iterations) for t in batch), strict=True):
                optimiser.zero_grad()
                for part in zip(*(t.split(MICRO_BATCH) for t in update), strict=True):
                    of_batch.append(model(*part))
                    (of_batch[-1][1] / self.accumulation).backward()
                optimiser.step()
            results += joined(of_batch)
        results += [tensor.clone() for tensor in model.state_dict().values()]
        model.eval()
        parts = zip(*(t.split(MICRO_BATCH) for t in self.batches()[0]), strict=True)
        results += joined([model(*part) for part in parts])
        return results + list(model.state_dict().values())

    def is_known_to_torch(self, model):
        return (
            self.replicas == 1
            and self.optimiser == "sgd"  # a step of Adam is as large for gradients of noise
            and self.mode == OutputMode.All
            and self.reduction == ReductionType.Mean
            and not any(layer.kind in ("dropout", "half") for layer in model.layers)
        )


def joined(of_parts):
    """Returns the results of all micro-batches; the second result is a number."""
    return [
        (torch.stack(of_output) if index == 1 else torch.cat(of_output)).detach()
        for index, of_output in enumerate(zip(*of_parts, strict=True))
    ]


def random_places(rng, replicas):
    """Returns a function that sets in options where state and activations are stored."""
    settings = {}
    for kind in ("Activation", "Weight", "Optimizer", "Accumulator"):
        if rng.random() < 0.3:
            made = settings[kind] = poptorch.TensorLocationSettings()
            made.minElementsForOffChip(rng.choice([0, 7]))
            made.minElementsForReplicatedTensorSharding(rng.choice([2, 7]))
            made.useOnChipStorage(rng.choice([True, False, None]))
            made.useReplicatedTensorSharding(replicas > 1 and rng.random() < 0.7)
            made.useIOTilesToLoad(rng.random() < 0.5).useIOTilesToStore(rng.random() < 0.5)
    io_tiles = 64 if rng.random() < 0.3 else 0

    def tell(options):
        if io_tiles:
            options.TensorLocations.numIOTiles(io_tiles)
        for kind, made in settings.items():
            getattr(options.TensorLocations, f"set{kind}Location")(made)
        return options

    return tell


@pytest.mark.shared
@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_placements(seed):
    rng = random.Random(seed)
    torch.manual_seed(seed)
    whole, split, phases = random_models(rng)
    eager = copy.deepcopy(whole)
    strategy = random_strategy(rng, split.ipus, phases)
    pipelined = isinstance(strategy, poptorch.PipelinedExecution)
    run = Run.draw(rng, seed, len(split.ipus) + 1 if pipelined else 0)
    one_ipu = poptorch.ShardedExecution(poptorch.AutoStage.AutoIncrement)
    expected = run.of(whole, one_ipu, lambda options: options)
    results = run.of(split, strategy, random_places(rng, run.replicas))
    for one, other in zip(results, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)  # it may diverge
    if run.is_known_to_torch(eager):
        for one, other in zip(expected, run.of_torch(eager), strict=True):
            torch.testing.assert_close(one.view_as(other), other, rtol=1e-3, atol=1e-4)
