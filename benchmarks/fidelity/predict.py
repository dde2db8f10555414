"""Compiles the program of a row without running it, and reads its throughput from the report."""

import time
from dataclasses import dataclass

import poptorch
import torch

from .rows import ADAM, LAMB, Row

MOST_IPUS = 8  # of a replica
STANDARD = 1  # of PopART's RecomputationType
# Parts of a step, by the figure of the report that sums them.
PARTS = {
    "compute_cycles": "computing",
    "link_cycles": "IPU-Links",
    "gateway_cycles": "GW-Links",
    "host_cycles": "host",
    "streaming_cycles": "Streaming Memory",
    "idle_cycles": "waiting",
}


@dataclass(frozen=True)
class Prediction:
    """The model's figure of a row."""

    row: Row
    samples: float  # a second
    limit: str  # what the busiest IPU does most beside waiting
    compile_seconds: float

    @property
    def ratio(self) -> float:
        return self.samples / self.row.published


@dataclass(frozen=True)
class Kept:
    """Which values a pipeline keeps for the backward pass, beside the inputs of its stages."""

    layers: bool = False  # the results of layers
    last_stage: bool = True  # all values of the last stage


# The pipelines of a row, the fastest first. A row has the first one that fits into memory: those of
# Graphcore's examples can recompute from the results of layers.
CHOICES = (Kept(), Kept(layers=True), Kept(layers=True, last_stage=False))


def model_of(row: Row, kept: Kept) -> torch.nn.Module:
    """Returns the model of a row on device meta, with its checkpoints."""
    with torch.device("meta"):
        model = row.build().to(row.dtype)
    for layer in getattr(model, "layers", ()) if kept.layers else ():
        layer.register_forward_hook(
            lambda _module, _inputs, result: poptorch.recomputationCheckpoint(result)
        )
    return model


def options_of(row: Row, kept: Kept = CHOICES[0]) -> poptorch.Options:
    """Returns the options of a row."""
    options = poptorch.Options()
    options.useOfflineIpuTarget(row.device)
    options.broadcastBuffers(False)
    options.replicationFactor(row.replicas)
    options.Precision.setPartialsType(torch.half)
    if row.recomputes or not kept.last_stage:
        options._Popart.set("autoRecomputation", STANDARD)
    if row.proportions:
        shares = row.proportions * (MOST_IPUS if len(row.proportions) == 1 else 1)
        options.setAvailableMemoryProportion(
            {f"IPU{ipu}": share for ipu, share in enumerate(shares)}
        )
    options.Training.gradientAccumulation(row.accumulation)
    options.setExecutionStrategy(poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement))
    location = poptorch.TensorLocationSettings().useOnChipStorage(not row.off_chip)
    location.useReplicatedTensorSharding(row.sharded)
    options.TensorLocations.setOptimizerLocation(location)
    return options


def optimiser_of(row: Row, model: torch.nn.Module):
    """Returns the optimiser of a row."""
    parameters = list(model.parameters())
    if row.optimiser == LAMB or row.optimiser == ADAM:
        kind = poptorch.optim.LAMB if row.optimiser == LAMB else poptorch.optim.AdamW
        return kind(
            parameters, lr=0.001, accum_type=row.dtype,
            first_order_momentum_accum_type=row.dtype,
            second_order_momentum_accum_type=torch.float32,
        )  # fmt: skip
    return poptorch.optim.SGD(
        parameters, lr=0.1, momentum=0.9, weight_decay=1e-4, use_combined_accum=False,
        accum_type=row.dtype, velocity_accum_type=row.dtype,
    )  # fmt: skip


def predict(row: Row) -> Prediction:
    """Returns the throughput that the cost model gives the program of a row."""
    batch = row.micro_batch * row.accumulation * row.replicas
    for kept in CHOICES:
        model = model_of(row, kept)
        wrapped = poptorch.trainingModel(model, options_of(row, kept), optimiser_of(row, model))
        started = time.perf_counter()
        wrapped.compile(*row.inputs(batch))
        seconds = time.perf_counter() - started
        report = wrapped.report()
        if all(ipu["needed_bytes"] <= ipu["capacity_bytes"] for ipu in report["ipus"]):
            break
    clock = report["cycles_per_run"] / report["seconds_per_run"]
    return Prediction(row, batch / report["cycles_per_run"] * clock, _limit(report), seconds)


def _limit(report) -> str:
    """Returns the IPU with the most work and the parts of its time, the longest first.

    Time in which it waits for transfers of other IPUs counts as transfer.
    """
    busiest = max(range(len(report["ipus"])), key=lambda i: report["ipus"][i]["compute_cycles"])
    work, all_cycles = dict(report["ipus"][busiest]), report["cycles_per_run"]
    for kind in ("host", "link"):
        work[f"{kind}_cycles"] += work[f"{kind}_wait_cycles"]
        work["idle_cycles"] -= work[f"{kind}_wait_cycles"]
    shares = sorted(((work[part] / all_cycles, name) for part, name in PARTS.items()), reverse=True)
    texts = [f"{name} {share:.0%}" for share, name in shares[:2] if share >= 0.01]
    return f"IPU {busiest}: {', '.join(texts)}"
