"""Measures what dividing a model over emulated IPUs costs the host.

`python -m benchmarks.machines W1 W5`. Every placement runs the same micro-batches. The table gives
its time over that of one IPU: the median over rounds of the ratio within a round. A training
pipeline recomputes forward values in its backward stages; one IPU does not. "kept" rows stash the
results of all leaf modules instead, so that almost nothing is computed twice. --json writes the
rows to a file.
"""

import argparse
import json
import statistics
import time

import poptorch
import torch

from benchmarks.workloads import make

# Modules that begin stages 1, 2 and 3 of four. With two stages, the middle one begins stage 1.
CUTS = {
    "W1": ("layers.1", "layers.2", "layers.3"),
    "W3": ("conv2", "fc1", "fc2"),
    "W4": ("blocks.2", "blocks.4", "blocks.6"),
    "W5": ("layers.1", "layers.2", "layers.3"),
}
CUTS["W2"] = CUTS["W1"]
MICRO_BATCHES = 16


def wrap(workload: str, ipus: int, strategy, *, training: bool, kept: bool = False):
    """Returns (wrapper, its inputs) of a workload in one placement."""
    instance = make(workload)
    network = instance.model.network
    cuts = {1: (), 2: CUTS[workload][1:2], 4: CUTS[workload]}[ipus]
    for stage, name in enumerate(cuts, 1):
        poptorch.BeginBlock(network.get_submodule(name), str(stage), ipu_id=stage)
    if kept:
        for module in network.modules():
            if not list(module.children()):
                module.register_forward_hook(
                    lambda _module, _inputs, result: poptorch.recomputationCheckpoint(result)
                )
    options = poptorch.Options().showCompilationProgressBar(False)
    options.outputMode(poptorch.OutputMode.Final).setExecutionStrategy(strategy)
    batch = instance.batches(1)[0]
    inputs = tuple(torch.cat([tensor] * MICRO_BATCHES) for tensor in batch)
    if training:
        options.Training.gradientAccumulation(MICRO_BATCHES)
        return poptorch.trainingModel(instance.model, options, instance.optimiser()), inputs
    options.deviceIterations(MICRO_BATCHES)
    return poptorch.inferenceModel(network.eval(), options), inputs[:1]


def ways(workload: str) -> dict[str, tuple]:
    """Returns name → (wrapper, inputs). The first run of each kind is the one on one IPU."""
    sharded, pipelined = poptorch.ShardedExecution, poptorch.PipelinedExecution
    found = {}
    for kind, training in (("training", True), ("inference", False)):
        found[f"{kind}, 1 IPU"] = wrap(workload, 1, sharded(), training=training)
        for ipus in (2, 4):
            for name, strategy in (("sharded", sharded), ("pipelined", pipelined)):
                way = f"{kind}, {name} over {ipus}"
                found[way] = wrap(workload, ipus, strategy(), training=training)
        if training:
            way = f"{kind}, pipelined over 4, kept"
            found[way] = wrap(workload, 4, pipelined(), training=True, kept=True)
    return found


def compare(workload: str, rounds: int, seconds: float) -> list[dict]:
    """Returns one row per placement."""
    found = ways(workload)
    times = {name: [] for name in found}
    for model, inputs in found.values():
        for _ in range(3):
            model(*inputs)
    for _ in range(rounds):
        for name, (model, inputs) in found.items():
            calls, start = 0, time.perf_counter()
            while time.perf_counter() - start < seconds:
                model(*inputs)
                calls += 1
            times[name].append((time.perf_counter() - start) / calls)
    for model, _ in found.values():
        model.destroy()  # the largest needs all IPUs of the pool
    rows = []
    for name, own in times.items():
        base = times[name.partition(",")[0] + ", 1 IPU"]
        ratio = statistics.median(a / b for a, b in zip(own, base, strict=True))
        milliseconds = 1e3 * statistics.median(own) / MICRO_BATCHES
        rows.append({"workload": workload, "way": name, "ms": milliseconds, "over_one_ipu": ratio})
    return rows


def many_ipus(layers: int = 100, width: int = 256, stages: int = 4, replicas: int = 16) -> dict:
    """Returns the seconds to compile, and seconds per step, of a deep chain over stages × replicas
    IPUs."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(layers)))
    for stage in range(1, stages):
        poptorch.BeginBlock(model[stage * layers // stages], str(stage), ipu_id=stage)
    loss = poptorch.identity_loss

    class WithLoss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            return loss(self.model(x).square(), reduction="mean")

    options = poptorch.Options().showCompilationProgressBar(False).replicationFactor(replicas)
    options.Training.gradientAccumulation(2 * stages)
    wrapper = poptorch.trainingModel(WithLoss(), options)
    x = torch.randn(2 * stages * replicas, width)
    start = time.perf_counter()
    wrapper.compile(x)
    compiled = time.perf_counter() - start
    wrapper(x)
    start = time.perf_counter()
    wrapper(x)
    return {
        "what": f"{layers} x Linear({width}, {width}), {stages} stages x {replicas} replicas",
        "compile_seconds": compiled,
        "step_seconds": time.perf_counter() - start,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("workloads", nargs="*", default=["W1", "W3", "W5"], help=str(list(CUTS)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3, help="of one round of one way")
    parser.add_argument("--json", help="write the rows to this file")
    arguments = parser.parse_args()
    print("| workload | way | ms a micro-batch | time over one IPU's |\n|---|---|---|---|")
    rows = []
    for workload in arguments.workloads:
        for row in compare(workload, arguments.rounds, arguments.seconds):
            rows.append(row)
            print(
                f"| {row['workload']} | {row['way']} | {row['ms']:.3g} "
                f"| {row['over_one_ipu']:.2f} |",
                flush=True,
            )
    large = many_ipus()
    print(
        f"\n{large['what']}: compiled in {large['compile_seconds']:.1f} s, "
        f"a step takes {large['step_seconds']:.2f} s"
    )
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"rows": rows, "many_ipus": large}, file, indent=1)


if __name__ == "__main__":
    main()
