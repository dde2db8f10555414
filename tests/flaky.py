"""Repeats the tests that depend on signals, kills or the order of processes or threads, on a busy
machine.

`make flaky RUNS=20`, or `python tests/flaky.py [--runs 20] [--jobs N] [--minutes 60]`, repeats the
tests beside four busy processes and again under `nice 19`. The tests are those that CI runs and
that have the marker `signals`; `UNIT_TESTS` selects tests of the core. Prints a table for each of
the two conditions, and exits with 1 when a test failed or had fewer runs. The output of failures is
in the folder that it names.

Under `nice 19` one process is busy, not four: four would leave the tests a hundredth of two cores.
"""

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
MARK = re.compile(r"\bmark\.signals\b")
UNIT_TESTS = [
    "*ExchangeState*", "*Remote*", "*Fabric*", "*Peers*", "*SharedPages*", "*PeerProcess*",
    "*Interrupt*", "*Watch*", "*Fault*", "*Pool*", "*FileLock*", "*WholeFile*", "*Foreign*",
    "Cache.*", "Session.*",
]  # fmt: skip
# A limit for tests that wait for a core beside busy processes, or at low priority.
SECONDS_A_TEST = 900


@dataclass
class Condition:
    title: str
    busy: int
    niceness: int


CONDITIONS = [
    Condition("beside four busy processes", busy=4, niceness=0),
    Condition("under nice 19, beside a busy process", busy=1, niceness=19),
]


@contextlib.contextmanager
def busy_processes(count):
    """Keeps `count` cores busy inside the block."""
    words = [sys.executable, "-c", "while True: pass"]
    started = [subprocess.Popen(words) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def marked_files():
    """Returns test files with the marker: collecting the others would take a minute per process."""
    return [file for file in sorted(TESTS.rglob("test_*.py")) if MARK.search(file.read_text())]


def run_python(args, condition, folder, seconds):
    """Runs the marked tests; returns their table: test → [runs, failures, slowest]."""
    table = folder / "table.json"
    words = [
        sys.executable, "-m", "pytest", "-q", "-m", "signals and not nightly",
        "-n", str(at_once(args)),
        "--dist", "worksteal", "-p", "repeated", "--repeat", str(args.runs),
        "--repeat-results", str(folder), "--timeout", str(SECONDS_A_TEST),
        "--session-timeout", str(max(1, round(seconds))), "-p", "no:cacheprovider",
        *(args.tests or map(str, marked_files())),
    ]  # fmt: skip
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    with (folder / "pytest.log").open("wb") as log:
        niced(condition, words, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": path})
    return json.loads(table.read_text()) if table.exists() else {}


def run_unit_tests(args, condition, folder, seconds):
    """Runs the core's tests of `UNIT_TESTS` equally often; returns their table."""
    table, until = {}, time.monotonic() + seconds
    with ThreadPoolExecutor(at_once(args)) as threads:
        one = partial(unit_run, args, condition, folder, until)
        for row in chain.from_iterable(threads.map(one, range(args.runs))):
            add(table, *row)
    return table


def unit_run(args, condition, folder, until, number):
    """Runs them once. Returns (test, whether it failed, seconds) for each, or [] if time is up."""
    if time.monotonic() > until:
        return []
    results, log = folder / f"unit-{number}.json", folder / f"unit-{number}.log"
    words = [
        args.unit_tests, "--gtest_brief=1", f"--gtest_filter={':'.join(UNIT_TESTS)}",
        f"--gtest_output=json:{results}",
    ]  # fmt: skip
    with log.open("wb") as written:
        # These tests go through every type, group and reduction, and run a few of their cases.
        few = {**os.environ, "POPTORCH_ONE_IN": "20"}
        status = niced(condition, words, stdout=written, stderr=written, env=few)
    if status == 0:
        log.unlink()
    if not results.exists():
        return [(f"the process (status {status})", True, 0.0)]
    return [
        (f"{suite['name']}.{test['name']}", "failures" in test, float(test["time"].rstrip("s")))
        for suite in json.loads(results.read_text())["testsuites"]
        for test in suite["testsuite"]
        if test["result"] == "COMPLETED"
    ]


def at_once(args):
    """Returns how many tests run at the same time. Many of them only wait."""
    return 2 * args.jobs


def niced(condition, words, **more):
    """Runs a command with the condition's niceness; returns its status."""
    prefix = ["nice", "-n", str(condition.niceness)] if condition.niceness else []
    return subprocess.run([*prefix, *map(str, words)], cwd=ROOT, **more).returncode


def add(table, name, failed, seconds):
    row = table.setdefault(name, [0, 0, 0.0])
    row[:] = row[0] + 1, row[1] + failed, max(row[2], seconds)


def shown(condition, table, seconds):
    """Formats the table as text."""
    lines = [f"{condition.title}, {seconds / 60:.1f} minutes:", ""]
    lines += ["| test | runs | failures | slowest (s) |", "|---|---|---|---|"]
    lines += [f"| {name} | {n} | {bad} | {slow:.2f} |" for name, (n, bad, slow) in table.items()]
    runs, failures = (sum(row[column] for row in table.values()) for column in (0, 1))
    return "\n".join([*lines, f"| {len(table)} tests | {runs} | {failures} | |", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--unit-tests", default=ROOT / "build/tests/unit/poptorch_unit_tests")
    parser.add_argument("tests", nargs="*", help="instead of all files with the marker")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="flaky-"))
    print(f"flaky: {args.runs} runs of each test; what fails is in {folder}", flush=True)
    until, good = time.monotonic() + 60 * args.minutes, True
    for number, condition in enumerate(CONDITIONS):
        start = time.monotonic()
        share = (until - start) / (len(CONDITIONS) - number)
        own = folder / str(number)
        own.mkdir()
        with busy_processes(condition.busy):
            table = run_unit_tests(args, condition, own, share / 3)
            table |= run_python(args, condition, own, share - (time.monotonic() - start))
        print(shown(condition, table, time.monotonic() - start), flush=True)
        rows = table.values()
        good &= bool(table) and all(n == args.runs and not bad for n, bad, _ in rows)
    print("flaky: no test failed" if good else f"flaky: see {folder}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
