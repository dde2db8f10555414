"""Compares the peers on the workloads: `python -m benchmarks.run W1 W3 --threads 1 --stat cpu`.

Every peer is a long-lived process. Rounds are interleaved, so that a disturbance of the machine
affects all peers equally. The first results are compared before anything is timed. A ratio is the
median over rounds of the ratio within a round. Markdown goes to stdout, JSON to --json.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from benchmarks.peers import PEERS
from benchmarks.workloads import DTYPES, KINDS, LARGE, WORKLOADS, make

# The first results of a peer may differ from eager's by rounding alone. Later results also differ
# by what training makes of the rounding: a value that crosses a kink of ReLU changes W4's third
# loss by 4e-3 within torch.
TOLERANCE = {"fp32": 1e-4, "bf16": 5e-2, "fp16": 2e-2}
LATER_TOLERANCE = 3e-2
DEFAULT_PEERS = "eager,compile,jax,onnx,poptorch,popxl"


class Worker:
    """The process of one peer on one workload."""

    def __init__(self, workload: str, peer: str, threads: int, verbose: bool) -> None:
        self.peer = peer
        self.rounds: list[dict] = []
        self.cache = tempfile.TemporaryDirectory(prefix="poptorch_bench_")
        count = str(threads)
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": count,
            "MKL_NUM_THREADS": count,
            "POPTORCH_NUM_THREADS": count,
            "TORCHINDUCTOR_CACHE_DIR": self.cache.name,  # cold, whichever test ran before
        }
        if peer.startswith("jax"):
            environment["JAX_PLATFORMS"] = "cpu"
            if threads == 1:
                environment["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
        command = [sys.executable, "-m", "benchmarks.worker", workload, peer, count]
        if threads == 1:
            command = ["taskset", "-c", str(min(os.sched_getaffinity(0))), *command]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if verbose else subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        self.ready = self._answer()

    def _answer(self) -> dict:
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.peer} ended with code {self.process.wait()}")
        return json.loads(line)

    def run_round(self, seconds: float) -> None:
        print(json.dumps({"seconds": seconds}), file=self.process.stdin, flush=True)
        self.rounds.append(self._answer())

    def rates(self, stat: str) -> list[float]:
        """Returns iterations per second, one figure per round."""
        return [r["items"] / r[stat] for r in self.rounds]

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.cache.cleanup()


def check_first_results(workload: str, workers: list[Worker]) -> None:
    """Checks that peers compute the same, since otherwise their speeds cannot be compared."""
    reference = next((w for w in workers if w.peer == "eager"), workers[0])
    tolerance = next((TOLERANCE[v] for v in workload.split(":")[1:] if v in TOLERANCE), 1e-4)
    for worker in workers:
        if PEERS[worker.peer].iterations > 1:
            continue  # its first result is that of a later iteration
        pairs = zip(worker.ready["first"], reference.ready["first"], strict=True)
        compared = list(pairs)[: PEERS[worker.peer].compared]
        for step, (got, expected) in enumerate(compared):
            allowed = tolerance if step == 0 else max(tolerance, LATER_TOLERANCE)
            if not abs(got - expected) <= allowed * max(abs(expected), 1e-3):
                raise SystemExit(
                    f"[benchmarks] {workload}: result {step} of {worker.peer} is {got}, of "
                    f"{reference.peer} {expected}. Nothing was timed."
                )


def compare(workload: str, arguments: argparse.Namespace) -> list[dict]:
    """Returns one row of results per peer."""
    workers = []
    training = make(workload).training
    for peer in arguments.peers.split(","):
        if (not training and PEERS[peer].iterations > 1) or (training and not PEERS[peer].trains):
            continue
        if PEERS[peer].only and workload not in PEERS[peer].only:
            continue
        try:
            workers.append(Worker(workload, peer, arguments.threads, arguments.verbose))
        except RuntimeError as error:
            print(f"- {workload}: {error}; left out", file=sys.stderr)
    try:
        check_first_results(workload, workers)
        for _ in range(arguments.rounds):
            for worker in workers:
                worker.run_round(arguments.seconds)
    finally:
        for worker in workers:
            worker.close()
    rates = {w.peer: w.rates(arguments.stat) for w in workers}
    base = rates.get("eager") or next(iter(rates.values()))
    others = [peer for peer in rates if not peer.startswith("pop")]
    rows = []
    for worker in workers:
        own = rates[worker.peer]
        best = [max(rates[peer][i] for peer in others or rates) for i in range(len(own))]
        median = statistics.median(own)
        rows.append(
            {
                "workload": workload,
                "peer": worker.peer,
                "rate": median,
                "vs_eager": statistics.median(a / b for a, b in zip(own, base, strict=True)),
                "vs_best": statistics.median(a / b for a, b in zip(own, best, strict=True)),
                "compile_wall": worker.ready["compile"]["wall"],
                "compile_cpu": worker.ready["compile"]["cpu"],
                "rss_mib": worker.rounds[-1]["rss"],
                "spread": (max(own) - min(own)) / median,
            }
        )
    return sorted(rows, key=lambda row: -row["rate"])


COLUMNS = (
    "| workload | peer | it/s | ms/it | vs eager | vs best peer | compile s (CPU s) | peak RSS MiB "
    "| spread |\n|---|---|---|---|---|---|---|---|---|"
)


def to_markdown(row: dict) -> str:
    """Formats one line of the table."""
    return (
        f"| {row['workload']} | {row['peer']} | {row['rate']:.4g} | {1e3 / row['rate']:.3g} "
        f"| {row['vs_eager']:.2f} | {row['vs_best']:.2f} "
        f"| {row['compile_wall']:.2f} ({row['compile_cpu']:.2f}) | {row['rss_mib']:.0f} "
        f"| {row['spread']:.0%} |"
    )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "workloads",
        nargs="*",
        default=list(WORKLOADS),
        help=f"W0 to W9, {', '.join(KINDS)}, or kinds for these; {', '.join(LARGE)}, or large for "
        "these; W5:bf16, gru:inference",
    )
    parser.add_argument("--peers", default=DEFAULT_PEERS, help=f"of {', '.join(PEERS)}")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--stat", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of one round of one peer")
    parser.add_argument("--json", help="write the rows to this file")
    parser.add_argument("--verbose", action="store_true", help="show what the workers print")
    return parser.parse_args()


def expand(names: list[str]) -> list[str]:
    """Replaces "kinds", "large" and "kinds:inference" by the names that they stand for."""
    groups = {"kinds": KINDS, "large": LARGE}
    single = [*WORKLOADS, *KINDS, *LARGE]
    every = []
    for name in names:
        key, *variants = name.split(":")
        if key not in [*groups, *single]:
            raise SystemExit(
                f"[benchmarks] no workload is named {key!r}. Those are {', '.join(groups)}, "
                f"{', '.join(single)}."
            )
        if wrong := set(variants) - {"inference", *DTYPES}:
            raise SystemExit(
                f"[benchmarks] {name!r}: {sorted(wrong)} must be inference, fp32, fp16 or bf16."
            )
        every += [":".join([k, *variants]) for k in groups.get(key, [key])]
    return every


def main() -> None:
    arguments = parse_arguments()
    print(f"{arguments.threads} thread(s), {arguments.stat} time, {arguments.rounds} rounds\n")
    print(COLUMNS)
    rows = []
    for workload in expand(arguments.workloads):
        for row in compare(workload, arguments):
            rows.append(row)
            print(to_markdown(row), flush=True)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"arguments": vars(arguments), "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
