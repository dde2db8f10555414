"""Measures poptorch.estimate on large models: seconds and the memory of the process.

`python -m benchmarks.estimates [NAME ...]` estimates each model in a separate process. No weight
is allocated.
"""

import argparse
import multiprocessing
import resource
import time
from dataclasses import dataclass

import poptorch
import torch

from benchmarks import large_models


@dataclass(frozen=True)
class Case:
    """A model, the layers on each IPU, micro-batch, accumulation and replicas."""

    model: type[large_models.Transformer]
    size: large_models.Size
    layers: tuple[int, ...]
    micro_batch: int
    accumulation: int
    replicas: int


CASES = {
    "bert-base-16": Case(
        large_models.Bert, large_models.BERT_BASE, (0, 4, 4, 4), 32, 512, 4
    ),
    "bert-large-64": Case(
        large_models.Bert, large_models.BERT_LARGE, (3, 7, 7, 7), 2, 256, 16
    ),
    "gpt2-xl-256": Case(large_models.Gpt2, large_models.GPT2_XL, (3,) * 16, 1, 256, 16),
}  # fmt: skip
PICKED = 20  # masked tokens of a sequence


def estimate(case: Case) -> poptorch.Estimate:
    """Returns the estimate of training with LAMB on Bow-2000 machines."""
    options = poptorch.Options().useOfflineIpuTarget(21).replicationFactor(case.replicas)
    options.Training.gradientAccumulation(case.accumulation)
    off_chip = poptorch.TensorLocationSettings().useOnChipStorage(False)
    options.TensorLocations.setOptimizerLocation(off_chip.useReplicatedTensorSharding(True))
    with torch.device("meta"):
        model = case.model(case.size).half()
        large_models.cut(model, case.layers)
        tokens = torch.zeros(case.micro_batch, case.size.length, dtype=torch.int32)
        picked = torch.zeros(case.micro_batch, PICKED, dtype=torch.int32)
    bert = isinstance(model, large_models.Bert)
    inputs = (tokens, tokens, picked, picked) if bert else (tokens, tokens)
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
    context = multiprocessing.get_context("spawn")
    for name in names:
        process = context.Process(target=_measure, args=(name,))
        process.start()
        process.join()


if __name__ == "__main__":
    main()
