"""Measures poptorch.estimate on large models: seconds and the memory of the process.

`python -m benchmarks.estimates [NAME ...]` estimates each model in a separate process. No weight
is allocated.
"""

import argparse
import multiprocessing
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass

import poptorch
import torch

from benchmarks.fidelity import bert
from benchmarks.gpt2 import gpt2_xl


@dataclass(frozen=True)
class Case:
    """A function that builds the model, one that makes its inputs, and the configuration."""

    build: Callable[[], torch.nn.Module]
    inputs: Callable[[int], tuple]
    micro_batch: int
    accumulation: int
    replicas: int


def _tokens(batch: int) -> tuple:
    tokens = torch.zeros(batch, 1024, dtype=torch.int32)
    return tokens, tokens


CASES = {
    "bert-base-16": Case(
        bert.bert(768, 12, 128, 20, (0, 4, 4, 4)), bert.bert_inputs(128, 20), 32, 512, 4
    ),
    "bert-large-64": Case(
        bert.bert(1024, 24, 512, 76, (3, 7, 7, 7)), bert.bert_inputs(512, 76), 2, 256, 16
    ),
    "gpt2-xl-256": Case(lambda: gpt2_xl((3,) * 16), _tokens, 1, 256, 16),
}


def estimate(case: Case) -> poptorch.Estimate:
    """Returns the estimate of training with LAMB on Bow-2000 machines."""
    options = poptorch.Options().useOfflineIpuTarget(21).replicationFactor(case.replicas)
    options.Training.gradientAccumulation(case.accumulation)
    strategy = poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement)
    options.setExecutionStrategy(strategy)
    off_chip = poptorch.TensorLocationSettings().useOnChipStorage(False)
    options.TensorLocations.setOptimizerLocation(off_chip.useReplicatedTensorSharding(True))
    with torch.device("meta"):
        model = case.build().half()
        inputs = case.inputs(case.micro_batch)
    optimizer = poptorch.optim.LAMB(model.parameters(), lr=1e-3)
    return poptorch.estimate(model, inputs, options, optimizer=optimizer)


def _measure(name: str) -> None:
    begin = time.perf_counter()
    made = estimate(CASES[name])
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name}: {seconds:.2f} s, {peak:.0f} MiB in all\n{made}\n")


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)}")
    names = parser.parse_args().names or list(CASES)
    if unknown := set(names) - set(CASES):
        parser.error(f"no model is named {sorted(unknown)[0]!r}. Those are {', '.join(CASES)}.")
    context = multiprocessing.get_context("spawn")
    for name in names:
        process = context.Process(target=_measure, args=(name,))
        process.start()
        process.join()


if __name__ == "__main__":
    main()
