"""Measures every op against eager torch: `python -m benchmarks.ops --threads 1 2 --json ops.json`.

A separate process measures each number of threads. `--page` writes docs/op-speed.md.
"""

import argparse
import difflib
import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.ops import page, summary
from benchmarks.ops.case import SIZES
from benchmarks.ops.tables import CASES


def run_worker(arguments: argparse.Namespace, threads: int) -> list[dict]:
    """Returns the measurements with this number of threads."""
    count = str(threads)
    environment = {**os.environ, "OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count,
                   "POPTORCH_NUM_THREADS": count}  # fmt: skip
    command = [sys.executable, "-m", "benchmarks.ops.worker", f"--threads={count}",
               "--sizes", *arguments.sizes, "--cases", *arguments.cases,
               "--dtypes", *arguments.dtypes]  # fmt: skip
    if threads == 1:
        command = ["taskset", "-c", str(min(os.sched_getaffinity(0))), *command]
    errors = None if arguments.verbose else subprocess.DEVNULL
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
    ) as process:
        lines = []
        for line in process.stdout:
            lines.append(json.loads(line))
            print(summary.text_of(lines[-1]), flush=True)
    if process.returncode:
        last = lines[-1]["case"] if lines else "start"
        raise SystemExit(f"[benchmarks] The process ended with {process.returncode} after {last}.")
    return lines


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("cases", nargs="*", help="names of cases; all by default")
    parser.add_argument("--threads", nargs="*", type=int, default=[1])
    parser.add_argument("--sizes", nargs="*", choices=SIZES, default=list(SIZES))
    parser.add_argument("--dtypes", nargs="*", default=[])
    parser.add_argument("--json", type=Path, help="write the measurements to this file")
    parser.add_argument("--page", type=Path, help="write the tables as markdown to this file")
    parser.add_argument("--verbose", action="store_true", help="show what the processes print")
    arguments = parser.parse_args()
    names = [case.name for case in CASES]
    for name in arguments.cases:
        if name not in names:
            near = ", ".join(difflib.get_close_matches(name, names, n=5, cutoff=0.4)) or "none"
            parser.error(f"no case is named {name!r}. Names like it: {near}.")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    lines = [line for threads in arguments.threads for line in run_worker(arguments, threads)]
    summary.add_ratios(lines)
    print(summary.overview(lines))
    if arguments.json:
        arguments.json.write_text(json.dumps(lines, indent=0))
    if arguments.page:
        arguments.page.write_text(page.text(lines))


if __name__ == "__main__":
    main()
