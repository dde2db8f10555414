"""Measures compilation and start-up: `python -m benchmarks.compiling`.

Every row is a separate process with one thread. Figures are CPU seconds of the compilation alone,
the memory that the process needs more, and ratios of further compilations to the first.
"""

import argparse
import os
import resource
import subprocess
import sys
import time

import torch
from torch import nn

from benchmarks.workloads import WORKLOADS, make

IMPORTS = """
import time
start = time.process_time()
import torch
with_torch = time.process_time()
import poptorch
poptorch.inferenceModel(torch.nn.Linear(4, 4))
print("import poptorch and a wrapper", f"{time.process_time() - with_torch:.2f}",
      f"torch's own import: {with_torch - start:.2f}", sep=" | ")
"""


class Chain(nn.Module):
    """`nodes` element-wise ops after one product with a parameter."""

    def __init__(self, nodes: int) -> None:
        super().__init__()
        self.nodes, self.scale = nodes, nn.Parameter(torch.ones(16))

    def forward(self, x):
        x = x * self.scale
        for _ in range(self.nodes // 2):
            x = torch.sin(x) * 0.9
        return x


class Blocks(nn.Module):
    """Equal transformer blocks."""

    def __init__(self, count: int) -> None:
        super().__init__()
        arguments = {"dropout": 0.0, "batch_first": True, "activation": "gelu"}
        self.blocks = nn.Sequential(
            *[nn.TransformerEncoderLayer(64, 4, 128, **arguments) for _ in range(count)]
        )

    def forward(self, x):
        return self.blocks(x)


class Unrolled(nn.Module):
    """An LSTM cell that Python calls for every step."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.cell, self.steps = nn.LSTMCell(32, 64), steps

    def forward(self, x):
        hidden = cell = x.new_zeros(x.shape[0], 64)
        for step in range(self.steps):
            hidden, cell = self.cell(x[:, step], (hidden, cell))
        return hidden


def layers(count: int) -> nn.Module:
    """A chain of small linear layers, each a module with two parameters."""
    return nn.Sequential(*[nn.Sequential(nn.Linear(16, 16), nn.GELU("tanh")) for _ in range(count)])


# Kind → its model, and the shape of its input, by the number after the kind.
MODELS = {
    "chain": (Chain, lambda count: (4, 16)),
    "layers": (layers, lambda count: (4, 16)),
    "blocks": (Blocks, lambda count: (2, 16, 64)),
    "lstm": (Unrolled, lambda count: (4, count, 32)),
}
ROWS = ("chain 10000", "chain 100000", "layers 1000", "blocks 4", "blocks 48", "lstm 512")


class WithLoss(nn.Module):
    """A model with the mean square of its result as the loss."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x):
        import poptorch  # only the measured process needs it

        return poptorch.identity_loss(self.model(x).square(), reduction="mean")


def seconds_to_compile(model, inputs: tuple, optimiser, iterations: int = 1) -> float:
    """Returns the CPU seconds of one compilation; the wrapper's device is freed."""
    import poptorch

    options = poptorch.Options().deviceIterations(iterations)
    options.showCompilationProgressBar(False)
    if optimiser is None:
        wrapped = poptorch.inferenceModel(model, options)
    else:
        wrapped = poptorch.trainingModel(model, options, optimiser)
    start = time.process_time()
    wrapped.compile(*(torch.cat([tensor] * iterations) for tensor in inputs))
    seconds = time.process_time() - start
    wrapped.destroy()
    return seconds


def peak_kib() -> float:
    """Returns the peak resident memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure(row: str) -> str:
    """Returns the figures of a workload, or of a kind and size, as cells of a table."""
    small = layers(4)
    seconds_to_compile(small, (torch.randn(4, 16),), None)  # torch's and our first use
    if row in WORKLOADS:
        instance = make(row)
        optimiser = instance.optimiser() if instance.training else None
        seconds = seconds_to_compile(instance.model, instance.batches(1)[0], optimiser)
        return f"{row} | {seconds:.2f} | "
    kind, count = row.split()
    build, shape = MODELS[kind]
    model = WithLoss(build(int(count)))
    x = torch.randn(*shape(int(count)))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    before = peak_kib()
    first = seconds_to_compile(model, (x,), optimiser)
    more = peak_kib() - before
    iterations = seconds_to_compile(model, (x,), optimiser, iterations=4) / first
    other = seconds_to_compile(model, (torch.cat([x, x]),), optimiser) / first
    former = seconds_to_compile(model, (x,), optimiser) / first
    ratios = {"4 iterations": iterations, "other shape": other, "former shape": former}
    figures = [f"peak +{more / 1024:.0f} MiB", *(f"{k} {ratio:.2f}" for k, ratio in ratios.items())]
    return f"{row} | {first:.2f} | {', '.join(figures)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows", nargs="*", default=["import", *WORKLOADS, *ROWS])
    parser.add_argument("--inside", action="store_true", help="measure one row in this process")
    arguments = parser.parse_args()
    if arguments.inside:
        torch.set_num_threads(1)
        print(measure(" ".join(arguments.rows)))
        return
    print("| row | CPU seconds | further |\n|---|---|---|", flush=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "POPTORCH_NUM_THREADS": "1"}
    for row in arguments.rows:
        command = [sys.executable, "-m", "benchmarks.compiling", "--inside", *row.split()]
        if row == "import":
            command = [sys.executable, "-c", IMPORTS]
        pinned = ["taskset", "-c", str(min(os.sched_getaffinity(0))), *command]
        run = subprocess.run(
            pinned, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        print(f"| {run.stdout.strip() or f'{row} | failed | '} |", flush=True)


if __name__ == "__main__":
    main()
