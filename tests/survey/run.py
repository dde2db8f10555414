"""Runs the survey over several processes: `python tests/survey/run.py [names] [--out file]`.

A process that dies or hangs is a finding about its current case; another process continues after
that case.
"""

import argparse
import collections
import json
import multiprocessing
import pathlib
import queue
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from excused import is_excused
from memory_page import pairs_text, write as write_memory
from refused_page import Page
from table_page import write as write_table

HANG_SECONDS = 120
PASSES = {"same", "refused", "raised", "lenient"}


def _chosen(cases, most: int):
    """Returns at most `most` of them, spread evenly; 0: all."""
    cases = list(cases)
    return cases[:: -(-len(cases) // most)] if most and cases else cases


def _work(name: str, skip: int, most: int, say) -> None:
    import logging
    import os
    import warnings

    os.environ["POPTORCH_LOG_LEVEL"] = "OFF"

    import aliases
    import entries
    import torch
    import trial

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    number = 0
    for dtype in entries.DTYPES:
        try:
            for case in _chosen(entries.cases(name, dtype), most):
                number += 1
                if number <= skip:
                    continue
                say(("at", name, number, case.key))
                forward = trial.run_forward(case)
                say(("done", name, "forward", case.key, forward.kind, forward.text))
                training = trial.run_training(case)
                if training is not None:
                    say(("done", name, "training", case.key, training.kind, training.text))
        except Exception as error:  # an error of the table itself
            say(("done", name, "table", f"{name} {dtype}", "table", repr(error)))
    for dtype in aliases.DTYPES:
        try:
            for case in _chosen(aliases.memory_cases(name, dtype), most):
                number += 1
                if number <= skip:
                    continue
                say(("at", name, number, f"{case.key}, memory"))
                for step, key, found in aliases.outcomes(case):
                    text = pairs_text(found.pairs) if found.kind == "same" else found.text
                    say(("done", name, step, key, found.kind, text))
        except Exception as error:
            say(("done", name, "memory", f"{name} {dtype}", "table", repr(error)))
    say(("end", name))


def _serve(inbox, outbox, most: int) -> None:
    while (task := inbox.get()) is not None:
        _work(*task, most, outbox.put)


class Worker:
    """A process with its queues, and its current case."""

    def __init__(self, context, most: int) -> None:
        self.inbox, self.outbox = context.SimpleQueue(), context.Queue()
        self.process = context.Process(
            target=_serve, args=(self.inbox, self.outbox, most), daemon=True
        )
        self.process.start()
        self.name, self.at, self.number, self.since = None, "", 0, time.monotonic()

    def give(self, name: str, skip: int) -> None:
        self.name, self.at, self.number, self.since = name, "", skip, time.monotonic()
        self.inbox.put((name, skip))


def survey(names, jobs, most, report) -> None:
    context = multiprocessing.get_context("spawn")
    todo = collections.deque((name, 0) for name in names)
    workers = [Worker(context, most) for _ in range(jobs)]
    for place in range(jobs):
        if todo:
            workers[place].give(*todo.popleft())
    while any(w.name for w in workers):
        for place, worker in enumerate(workers):
            if worker.name is None:
                continue
            try:
                message = worker.outbox.get(timeout=0.05)
            except queue.Empty:
                died = not worker.process.is_alive()
                hangs = time.monotonic() - worker.since > HANG_SECONDS
                if died or hangs:
                    kind = "hang" if hangs else "crash"
                    exit_code = worker.process.exitcode
                    report(worker.name, "forward", worker.at, kind, f"exit {exit_code}")
                    worker.process.kill()
                    workers[place] = Worker(context, most)
                    workers[place].give(worker.name, worker.number)
                continue
            worker.since = time.monotonic()
            if message[0] == "at":
                worker.number, worker.at = message[2], message[3]
            elif message[0] == "done":
                report(*message[1:])
            else:
                worker.name = None
                if todo:
                    worker.give(*todo.popleft())
    for worker in workers:
        worker.inbox.put(None)


def _judge(findings, seconds: float) -> int:
    """Prints the findings that nothing excuses, and the counts; returns 1 if there are such
    findings."""
    counts = collections.Counter()
    for _, step, key, kind, text in findings:
        excused = kind == "wrong" and is_excused(key, step)
        counts["excused" if excused else kind] += 1
        if kind not in PASSES and not excused:
            print(f"{key}, {step}: {kind}: {text}")
    told = ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
    print(f"survey: {told}; {seconds / 60:.1f} minutes")
    return int(any(counts[kind] for kind in counts if kind not in {*PASSES, "excused"}))


def main() -> None:
    import entries

    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", default="build/survey.jsonl")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--most", type=int, default=0, help="cases an entry and dtype; 0: all")
    args = parser.parse_args()
    # multiprocessing ends its daemons at exit, but not after a signal's default action.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    names = [n for n in entries.names() if not args.names or n in args.names]
    findings = []
    start = time.monotonic()
    with open(args.out, "w") as out:

        def report(*finding):
            findings.append(finding)
            out.write(json.dumps(finding) + "\n")

        survey(names, args.jobs, args.most, report)
    if not args.names:
        of_values = [finding for finding in findings if not finding[1].startswith("memory")]
        write_table(of_values, args.most)
        write_memory(findings, args.most)
        if not args.most:
            Page.of(of_values).write()
    sys.exit(_judge(findings, time.monotonic() - start))


if __name__ == "__main__":
    main()
