"""A program that loads data leaves nothing after kills and Ctrl-C at random moments.

`pytest tests/nightly/loader_ends.py`: within two seconds, nothing of the program is left.
POPTORCH_KILL_POINTS sets the number of moments of each kind.
"""

import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

import poptorch
import pytest
import torch
from seed import HOW_TO_REPEAT, SEED

sys.path.insert(0, str(Path(__file__).parents[1] / "behaviour"))

from interrupted_loading import OF_PYTHON, started
from loading_program import Running

POINTS = range(int(os.environ.get("POPTORCH_KILL_POINTS", "1")))
SECONDS = 2
STRATEGIES = list(poptorch.SharingStrategy.__members__)
KINDS = ["Sync--2", "own", "AsyncRebatched-ForkServer-2"]
KINDS += [f"Async-{name}-{workers}" for name in STRATEGIES for workers in (0, 2)]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_outlives_a_killed_program(tmp_path, kind, point):
    draw = random.Random(f"{SEED} {kind} {point}")
    program = Running(tmp_path, kind)
    program.go_on()
    time.sleep(draw.uniform(0, 0.3))
    program.process.send_signal(draw.choice([signal.SIGKILL, signal.SIGTERM]))
    assert program.left_behind(SECONDS) == ([], set()), HOW_TO_REPEAT


@pytest.mark.parametrize("end", ["raise", "exit"])
def test_nothing_outlives_a_program_that_ends_early(tmp_path, end):
    program = Running(tmp_path, "Async-ForkServer-2", end)
    program.go_on()
    assert program.left_behind(SECONDS) == ([], set())


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("moment", ["ready", "started"])
@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_interrupts_print_nothing(tmp_path, strategy, workers, moment, point):
    with started(tmp_path, strategy, workers, "never") as running:
        while running.stdout.readline() != f"{moment}\n":
            assert running.poll() is None
        time.sleep(random.Random(f"{SEED} {strategy} {workers} {point}").uniform(0, 1.5))
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does
        assert not OF_PYTHON.sub("", running.communicate(timeout=60)[1]), HOW_TO_REPEAT
    assert running.returncode == 0, HOW_TO_REPEAT


class Slow:
    """Never delivers its second item."""

    def __iter__(self):
        yield torch.ones(1)
        threading.Event().wait()


def test_a_killed_worker_is_an_error_within_two_seconds():
    accessor = poptorch.AsynchronousDataAccessor(Slow())
    items = iter(accessor)
    next(items)
    os.kill(accessor._process.pid, signal.SIGKILL)
    start = time.monotonic()
    with pytest.raises(AssertionError, match="An error occurred in the data fetcher"):
        next(items)
    assert time.monotonic() - start < SECONDS
    accessor.terminate()
