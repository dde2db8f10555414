"""Memory must not grow in long training runs, or when wrappers are made and destroyed again and
again.

`python tests/nightly/soak.py --steps 1000000 --cycles 2000` prints the slope of the process's
memory, by least squares over the run after its first quarter, in MiB per 100,000 steps and in KiB
per cycle (compile, step, save, load, detach, attach, destroy). Exits with 1 above the limits.
"""

import argparse
import io
import os
import sys
import time

import poptorch
import torch

MIB_A_100000_STEPS = 1.0
KIB_A_CYCLE = 4.0
SAMPLES = 200


def resident() -> int:
    """Returns the bytes of memory in use by this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def slope(samples: list[tuple[int, int]]) -> float:
    """Returns bytes per unit, by least squares."""
    kept = samples[len(samples) // 4 :]
    mean_x = sum(x for x, _ in kept) / len(kept)
    mean_y = sum(y for _, y in kept) / len(kept)
    square = sum((x - mean_x) ** 2 for x, _ in kept)
    return sum((x - mean_x) * (y - mean_y) for x, y in kept) / square


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(16, 32),
            torch.nn.BatchNorm1d(32),
            torch.nn.GELU(),
            torch.nn.Linear(32, 4),
        )

    def forward(self, x, target):
        y = self.layers(x)
        return y, torch.nn.functional.cross_entropy(y, target)


def wrapped(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    options = poptorch.Options().showCompilationProgressBar(False)
    return poptorch.trainingModel(model, options, optimizer), optimizer


def soak_steps(steps: int) -> float:
    training, _ = wrapped(Net())
    x, target = torch.randn(8, 16), torch.randint(0, 4, (8,))
    every = max(1, steps // SAMPLES)
    samples = []
    for step in range(steps):
        training(x, target)
        if step % every == 0:
            samples.append((step, resident()))
    training.destroy()
    return slope(samples) * 100_000 / 2**20


def soak_cycles(cycles: int) -> float:
    model = Net()
    x, target = torch.randn(8, 16), torch.randint(0, 4, (8,))
    every = max(1, cycles // SAMPLES)
    samples = []
    for cycle in range(cycles):
        training, optimizer = wrapped(model)
        training(x, target)
        file = io.BytesIO()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
        file.seek(0)
        training.load_state_dict(torch.load(file)["model"])
        training.detachFromDevice()
        training.attachToDevice()
        training(x, target)
        training.destroy()
        if cycle % every == 0:
            samples.append((cycle, resident()))
    return slope(samples) / 2**10


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--cycles", type=int, default=2_000)
    args = parser.parse_args()
    start = time.monotonic()
    by_step = soak_steps(args.steps)
    by_cycle = soak_cycles(args.cycles)
    print(
        f"soak: {args.steps} steps, {by_step:.3f} MiB a 100,000; {args.cycles} cycles, "
        f"{by_cycle:.2f} KiB each; {time.monotonic() - start:.0f} s"
    )
    return int(by_step > MIB_A_100000_STEPS or by_cycle > KIB_A_CYCLE)


if __name__ == "__main__":
    sys.exit(main())
