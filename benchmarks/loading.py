"""Measures whether data loading overlaps with the step: `python -m benchmarks.loading`.

The data set takes as long as the step does: it waits as for a disk, or computes (--busy). A figure
is the time of a loop's step over the time of the step alone, the median of several rounds: 1 if all
of the loading overlaps with steps, 2 if none does. The step has one thread, so that a busy data set
finds a free core.

`--first` measures instead how long the first batch takes with `--workers` worker processes, beside
torch's own loader with as many. The first asynchronous loader of a program also starts the fork
server; it has a separate row.
"""

import argparse
import os
import statistics
import time
import warnings

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


class Rows(torch.utils.data.Dataset):
    """Small items without a delay."""

    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((64,), float(index))


def first_batch(mode: poptorch.DataLoaderMode | None, workers: int) -> float:
    """Returns the seconds from making a loader to its first batch; mode None: torch's loader."""
    start = time.perf_counter()
    if mode is None:
        loader = torch.utils.data.DataLoader(Rows(), batch_size=16, num_workers=workers)
    else:
        loader = poptorch.DataLoader(
            poptorch.Options(), Rows(), batch_size=16, num_workers=workers, mode=mode
        )
    next(iter(loader))
    seconds = time.perf_counter() - start
    if mode is not None:
        loader.terminate()
    return seconds


def measure_first_batches(workers: int, rounds: int) -> None:
    """Prints the seconds to the first batch of each loader, and their ratio to torch's."""
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    modes = [None, *poptorch.DataLoaderMode]
    with_server = first_batch(poptorch.DataLoaderMode.Async, workers)
    rows = [[first_batch(mode, workers) for mode in modes] for _ in range(rounds)]
    print(f"| loader, {workers} workers | s to the first batch | over torch's |\n|---|---|---|")
    print(f"| Async, first of the program | {with_server:.2f} | {with_server / rows[0][0]:.2f} |")
    for index, mode in enumerate(modes):
        seconds = statistics.median(row[index] for row in rows)
        ratio = statistics.median(row[index] / row[0] for row in rows)
        print(f"| {'torch' if mode is None else mode.name} | {seconds:.2f} | {ratio:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--busy", action="store_true", help="the data set computes")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="of the step")
    parser.add_argument("--first", action="store_true", help="measure the first batch")
    parser.add_argument("--workers", type=int, default=8, help="of the loaders with --first")
    arguments = parser.parse_args()
    if arguments.first:
        measure_first_batches(arguments.workers, arguments.rounds)
        return
    os.environ["POPTORCH_NUM_THREADS"] = str(arguments.threads)
    print("| loader | loop's step over the step |\n|---|---|")
    for mode in (poptorch.DataLoaderMode.Sync, poptorch.DataLoaderMode.Async):
        ratio = measure(mode, arguments.busy, arguments.steps, arguments.rounds)
        print(f"| {mode.name} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
