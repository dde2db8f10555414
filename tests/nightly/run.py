"""Runs the long tests (`make nightly`), and prints a table with the figures of the run.

`python tests/nightly/run.py [--share 0.1] [--only R12 ...]`: `--share` runs a share of the counts
of a whole night. The logs are in build/nightly.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from rows import NOT_BUILT, ROWS, Row
from seed import SEED

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT / "build/nightly"
GOLDEN_TEXTS = 500  # about: of R5's mutants each


def values(row: Row, share: float, jobs: int) -> dict[str, object]:
    count = max(1, round(row.full * share))
    return {
        "python": sys.executable,
        "jobs": jobs,
        "count": 0 if row.name == "R1, R2" and share >= 1 else count,
        "per_golden": max(10, count // GOLDEN_TEXTS),
        "one_in": max(1, round(1 / share)),
        "cycles": max(100, count // 500),
        "seed": SEED,
    }


def run(row: Row, number: int, share: float, jobs: int) -> tuple[bool, str, float]:
    """Returns whether it held, its figure, and its seconds."""
    given = values(row, share, jobs)
    environment = {name: text.format(**given) for name, text in row.environment.items()}
    path = f"{ROOT / 'build/python'}:{os.environ.get('PYTHONPATH', '')}".rstrip(":")
    start = time.monotonic()
    done = subprocess.run(
        row.command.format(**given),
        shell=True,
        cwd=ROOT,
        env={**os.environ, "POPTORCH_SEED": str(SEED), **environment, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        errors="replace",
    )
    (LOGS / f"{number:02}.log").write_text(done.stdout)
    return done.returncode == 0, row.figure(done.stdout), time.monotonic() - start


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    LOGS.mkdir(parents=True, exist_ok=True)
    all_held = True
    print(f"POPTORCH_SEED={SEED}\n")
    print("| row | what | held | figure | minutes |\n|---|---|---|---|---|", flush=True)
    for number, row in enumerate(ROWS):
        if args.only and not set(args.only) & set(row.name.split(", ")):
            continue
        held, figure, seconds = run(row, number, args.share, args.jobs)
        all_held &= held
        word = "yes" if held else "**no**"
        print(f"| {row.name} | {row.what} | {word} | {figure} | {seconds / 60:.1f} |", flush=True)
    for name, what in NOT_BUILT.items():
        print(f"| {name} | {what} | not built | | |")
    return 0 if all_held else 1


if __name__ == "__main__":
    sys.exit(main())
