"""Runs one peer on one workload in a separate process, driven by lines of JSON on stdin.

`python -m benchmarks.worker WORKLOAD PEER THREADS` builds the workload, compiles it, and answers
with the cost of that and the first results. It then answers each {"seconds": s} with a timed round.
"""

import json
import os
import pathlib
import sys
import time

TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds() -> float:
    """Returns the CPU time of this process and all its descendants, living or ended."""
    usage = {}
    parents = {}
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended; its parent's counters include it
            continue
        pid = int(folder.name)
        parents[pid] = int(fields[1])
        usage[pid] = sum(int(field) for field in fields[11:15])  # also of children it waited for
    own = os.getpid()

    def descends(pid):
        while pid in parents and pid != own:
            pid = parents[pid]
        return pid == own

    return sum(ticks for pid, ticks in usage.items() if descends(pid)) / TICK


def peak_rss_mib() -> float:
    """Peak resident memory of this process."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("/proc/self/status has no VmHWM line")


def timed_round(step, seconds: float, calls: int) -> dict:
    """Calls `step` for about `seconds`; reads the clock after each `calls` calls."""
    done = 0
    wall, cpu = time.perf_counter(), time.process_time()
    while True:
        for _ in range(calls):
            step()
        done += calls
        elapsed = time.perf_counter() - wall
        if elapsed >= seconds:
            return {"calls": done, "wall": elapsed, "cpu": time.process_time() - cpu}


def summarise(result) -> float:
    """Returns one number that represents a step's result."""
    import torch

    if not isinstance(result, torch.Tensor):  # jax
        return float(abs(result).astype("float32").mean())
    return float(result.detach().float().abs().mean())


def main() -> None:
    workload, peer_name, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # nothing but answers goes to the parent

    import torch
    import torch._dynamo  # torch's first optimiser loads it anyway; not compile time

    torch.set_num_threads(threads)
    from benchmarks.peers import PEERS
    from benchmarks.workloads import make

    peer = PEERS[peer_name]
    if peer_name.startswith("jax"):
        import jax

        jax.devices()
    if peer_name.startswith("poptorch"):
        import poptorch  # noqa: F401  (an import is not part of a compilation)

    instance = make(workload)
    batch = instance.batches(1)[0]
    source = peer.prepare(instance, batch)
    wall, cpu = time.perf_counter(), cpu_seconds()
    step = peer.make(source, batch, peer.iterations)
    first = [summarise(step())]
    compiled = {"wall": time.perf_counter() - wall, "cpu": cpu_seconds() - cpu}
    first += [summarise(step()) for _ in range(2 if peer.iterations == 1 else 0)]
    warm = timed_round(step, 0.3, 1)
    calls = max(1, int(0.05 * warm["calls"] / warm["wall"]))
    print(json.dumps({"compile": compiled, "first": first}), file=answers)
    for line in sys.stdin:
        round_ = timed_round(step, json.loads(line)["seconds"], calls)
        items = round_["calls"] * peer.iterations
        print(
            json.dumps({"items": items, **round_, "rss": peak_rss_mib()}),
            file=answers,
        )


if __name__ == "__main__":
    main()
