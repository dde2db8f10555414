"""Measures whether data loading overlaps with the step: `python -m benchmarks.loading`.

The data set takes as long as the step does: it waits as for a disk, or computes (--busy). A figure
is the time of a loop's step over the time of the step alone, the median of several rounds: 1 if all
of the loading overlaps with steps, 2 if none does. The step has one thread, so that a busy data set
finds a free core.
"""

import argparse
import os
import statistics
import time

import poptorch
import torch

ROWS = 8  # items of a combined batch; each takes its part of the time
WIDTH = 1024


class Slow(torch.utils.data.Dataset):
    """Items that take `seconds` each to load."""

    def __init__(self, items: int, seconds: float, busy: bool) -> None:
        self.items, self.seconds, self.busy = items, seconds, busy
        self.x = torch.randn(128, WIDTH)

    def __len__(self) -> int:
        return self.items

    def __getitem__(self, index: int) -> torch.Tensor:
        if not self.busy:
            time.sleep(self.seconds)
        else:
            end = time.perf_counter() + self.seconds
            while time.perf_counter() < end:
                pass
        return self.x


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            *[torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()] * 3, torch.nn.Linear(WIDTH, 1)
        )

    def forward(self, x):
        return poptorch.identity_loss(self.layers(x).square(), reduction="mean")


def seconds_a_step(batches, model, steps: int) -> float:
    """Returns a figure of the steady state, without the first steps."""
    iterator = iter(batches)
    for _ in range(3):
        model(next(iterator))
    start = time.perf_counter()
    for _ in range(steps):
        model(next(iterator))
    return (time.perf_counter() - start) / steps


def measure(mode: poptorch.DataLoaderMode, busy: bool, steps: int, rounds: int) -> float:
    options = poptorch.Options().deviceIterations(2)
    model = poptorch.trainingModel(Model(), options)
    batch = torch.randn(ROWS, 128, WIDTH)
    ratios = []
    for _ in range(rounds):
        alone = seconds_a_step([batch] * (steps + 3), model, steps)
        # More items than are read: loading ahead at the end must not shorten the last steps.
        data = Slow(ROWS * (steps + 8), alone / ROWS, busy)
        loader = poptorch.DataLoader(options, data, batch_size=ROWS // 2, mode=mode)
        ratios.append(seconds_a_step(loader, model, steps) / alone)
        loader.terminate()
    return statistics.median(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--busy", action="store_true", help="the data set computes")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="of the step")
    arguments = parser.parse_args()
    os.environ["POPTORCH_NUM_THREADS"] = str(arguments.threads)
    print("| loader | loop's step over the step |\n|---|---|")
    for mode in (poptorch.DataLoaderMode.Sync, poptorch.DataLoaderMode.Async):
        ratio = measure(mode, arguments.busy, arguments.steps, arguments.rounds)
        print(f"| {mode.name} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
