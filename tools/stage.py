#!/usr/bin/env python3
"""Runs one stage of the build: `tools/stage.py NAME COMMAND ...`.

Prints one line that shows the progress and, at the end, the seconds. The command's output goes to
build/logs/NAME.log. When the command fails, the last lines and the name of that file are printed.
With --show the output is printed as well. Every stage adds a line to build/logs/stages.tsv;
`tools/stage.py --table` prints how long each stage took.
"""

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path

LOGS = Path(__file__).resolve().parent.parent / "build" / "logs"
STAGES = "stages.tsv"
NINJA_STEP = re.compile(rb"^\[(\d+)/(\d+)\] ")
TENTH = 10  # per cent between two figures if a line cannot be overwritten
LAST_LINES = 40


class Progress:
    """The line of a stage: overwritten on a terminal, otherwise a figure at every tenth."""

    def __init__(self, name, out):
        self._name, self._out, self._shown = name, out, 0
        self._overwrites = out.isatty()
        self._write(f"[{name}]" + ("" if self._overwrites else " ..."))

    def step(self, line):
        match = NINJA_STEP.match(line)
        percent = 100 * int(match[1]) // int(match[2]) if match and int(match[2]) else 0
        if self._overwrites and percent > self._shown:
            self._shown = percent
            self._write(f"\r[{self._name}] {percent} %")
        elif percent // TENTH > self._shown // TENTH and percent < 100:
            self._shown = percent
            self._write(f" {percent} %")

    def end(self, seconds, status):
        word = "done" if status == 0 else "FAILED"
        line = f"{word}, {seconds:.0f} s\n"
        self._write(f"\r[{self._name}] {line}" if self._overwrites else f" {line}")

    def _write(self, text):
        self._out.write(text)
        self._out.flush()


def run(name, command, show, out=sys.stdout):
    """Runs the command; returns its exit status."""
    LOGS.mkdir(parents=True, exist_ok=True)
    path = LOGS / f"{name}.log"
    begin, started = time.monotonic(), time.time()
    progress = None if show else Progress(name, out)
    with path.open("wb") as log:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for line in child.stdout:
            log.write(line)
            log.flush()
            if progress:
                progress.step(line)
            else:
                out.buffer.write(line)
                out.flush()
    status = child.wait()
    seconds = time.monotonic() - begin
    if progress:
        progress.end(seconds, status)
    else:
        out.write(f"[{name}] {'done' if status == 0 else 'FAILED'}, {seconds:.0f} s\n")
    with (LOGS / STAGES).open("a") as stages:
        stages.write(f"{name}\t{seconds:.1f}\t{status}\t{started:.1f}\n")
    if status != 0:
        if progress:
            out.write("\n".join(last_lines(path)) + "\n")
        out.write(f"[{name}] The whole output is in {path}.\n")
    return status


def last_lines(path):
    """Returns the end of a log, from the first failure of a build if it has one."""
    lines = path.read_text(errors="replace").splitlines()
    failed = next((i for i, line in enumerate(lines) if line.startswith("FAILED: ")), len(lines))
    return lines[failed:][:LAST_LINES] or lines[-LAST_LINES:]


def table():
    """Returns the stages in the order of their ends, with their minutes, and the time of all:
    stages can run at the same time."""
    rows = [line.split("\t") for line in (LOGS / STAGES).read_text().splitlines()]
    spans = [(float(begin), float(begin) + float(seconds)) for _, seconds, _, begin in rows]
    total = max(end for _, end in spans) - min(begin for begin, _ in spans)
    lines = [f"{name:<24} {float(seconds) / 60:6.1f} min" for name, seconds, *_ in rows]
    return "\n".join([*lines, f"{'all':<24} {total / 60:6.1f} min"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--show", action="store_true", help="print the output of the command too")
    parser.add_argument("--table", action="store_true", help="print the times of all stages so far")
    parser.add_argument("name", nargs="?")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    if args.table:
        print(table())
        return 0
    if not args.name or not args.command:
        parser.error("give the name of the stage and its command")
    try:
        return run(args.name, args.command, args.show)
    except KeyboardInterrupt:  # the command has received the signal too
        print(f"\n[{args.name}] interrupted")
        return 130


if __name__ == "__main__":
    sys.exit(main())
