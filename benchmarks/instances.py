"""Compares several processes with torch's: `python -m benchmarks.instances --count 2`.

Times all-reduces against Gloo's, and steps of workloads against DistributedDataParallel over Gloo,
on one thread per process. Also times steps against one process with as many replicas and threads,
for which the other processes wait. Every instance runs all of them in turn, so that a disturbance
of the machine affects all. A ratio is the median over rounds of their time over ours, in wall time
and in CPU time of instance 0. `--instances-per-host 1` uses Gloo for what would go through shared
memory.
"""

import argparse
import datetime
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch

from benchmarks.workloads import make

ALL_REDUCES = {"4 KiB": (1 << 10, 256), "1 MiB": (1 << 18, 32), "44 MiB": (11 << 20, 4)}
WORKLOADS = ("W1", "W5")
WAIT = datetime.timedelta(seconds=300)


def reduced_here(elements: int, repeats: int) -> Callable[[], object]:
    """Sums a tensor over the instances, `repeats` times in one run."""
    import popdist.poptorch
    import poptorch

    class Reduced(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("kept", torch.zeros(elements))

        def forward(self, x):
            return x + poptorch.distributed.all_reduce(self.kept)[:1]

    options = popdist.poptorch.Options().deviceIterations(repeats).broadcastBuffers(False)
    model = poptorch.inferenceModel(Reduced(), options.showCompilationProgressBar(False))
    count = torch.ones(repeats)
    return lambda: model(count)


def reduced_by_gloo(elements: int, repeats: int) -> Callable[[], object]:
    """Does the same sum in torch."""
    kept = torch.zeros(elements)  # the value does not change

    def reduce() -> None:
        for _ in range(repeats):
            torch.distributed.all_reduce(kept)

    return reduce


def step_with(options, workload: str, repeats: int = 1) -> Callable[[], object]:
    """Returns a training step with `repeats` batches."""
    import poptorch

    instance = make(workload)
    options.showCompilationProgressBar(False)
    model = poptorch.trainingModel(instance.model, options, instance.optimiser())
    batch = [torch.cat([rows] * repeats) for rows in instance.batches(1)[0]]
    return lambda: model(*batch)


def step_here(workload: str) -> Callable[[], object]:
    """Returns a step over the instances."""
    import popdist.poptorch

    return step_with(popdist.poptorch.Options(), workload)


def step_alone(workload: str) -> Callable[[], object]:
    """Returns a step of one process with all replicas, on one thread each; the other processes do
    nothing."""
    import popdist
    import poptorch

    count = popdist.getNumInstances()
    if popdist.getInstanceIndex() != 0:
        return lambda: None
    options = poptorch.Options()
    options.Distributed.disable()
    options.replicationFactor(count)
    os.environ["POPTORCH_NUM_THREADS"] = str(count)
    step = step_with(options, workload, count)
    step()
    os.environ["POPTORCH_NUM_THREADS"] = "1"
    return step


def step_of_ddp(workload: str) -> Callable[[], object]:
    """Returns the same step in torch."""
    instance = make(workload)
    model = torch.nn.parallel.DistributedDataParallel(instance.model)
    optimiser = instance.optimiser()
    batch = instance.batches(1)[0]

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        model(*batch).backward()
        optimiser.step()

    return step


def timed(work: Callable[[], object], calls: int) -> tuple[float, float]:
    """Returns the seconds of a call: wall time and CPU time."""
    import popdist

    popdist.synchronize()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(calls):
        work()
    return (time.perf_counter() - wall) / calls, (time.process_time() - cpu) / calls


def compared(name: str, here, theirs, repeats: int, arguments: argparse.Namespace) -> None:
    """Prints a line of the table."""
    import popdist

    calls = 1 if repeats > 1 else arguments.calls
    for work in (here, theirs):
        timed(work, calls)
    rounds = [(timed(here, calls), timed(theirs, calls)) for _ in range(arguments.rounds)]
    wall, cpu = (statistics.median(b[i] / a[i] for a, b in rounds) for i in (0, 1))
    ours, other = (1e3 * statistics.median(r[i][0] for r in rounds) / repeats for i in (0, 1))
    if popdist.getInstanceIndex() == 0:
        print(f"| {name} | {popdist.getNumInstances()} | {ours:.3g} | {other:.3g} | {wall:.2f} "
              f"| {cpu:.2f} |", flush=True)  # fmt: skip


def run(arguments: argparse.Namespace) -> None:
    """Runs one of the instances."""
    import popdist

    torch.set_num_threads(1)
    popdist.init()
    torch.distributed.init_process_group("gloo", timeout=WAIT)
    for name, (elements, repeats) in ALL_REDUCES.items():
        work = reduced_here(elements, repeats), reduced_by_gloo(elements, repeats)
        compared(f"all_reduce of {name}", *work, repeats, arguments)
    for name in WORKLOADS:
        step = step_here(name)
        compared(f"{name}, DistributedDataParallel", step, step_of_ddp(name), 1, arguments)
        compared(f"{name}, one process", step, step_alone(name), 1, arguments)
    torch.distributed.destroy_process_group()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=2, help="instances")
    parser.add_argument("--instances-per-host", type=int, help="1: all over Gloo")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=4, help="steps of a round")
    arguments = parser.parse_args()
    import popdist

    if popdist.isPopdistEnvSet():
        run(arguments)
        return 0
    print("| what | processes | ours ms | theirs ms | ratio | of CPU time |")
    print("|---|---|---|---|---|---|", flush=True)
    environment = dict(os.environ, POPTORCH_NUM_THREADS="1", OMP_NUM_THREADS="1")
    if arguments.instances_per_host:
        environment["POPDIST_INSTANCES_PER_HOST"] = str(arguments.instances_per_host)
    command = ["-m", "popdist", "--num-instances", str(arguments.count), sys.executable, "-m"]
    words = [sys.executable, *command, "benchmarks.instances", *sys.argv[1:]]
    return subprocess.run(words, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
