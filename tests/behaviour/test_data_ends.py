"""However a program that loads data ends, its processes and its shared memory are gone with it.

More kills, at random points, of more kinds of loaders: POPTORCH_KILL_POINTS (of each).
"""

import os
import random
import signal
import subprocess
import sys
import time
import uuid

import poptorch
import pytest
import torch
from poptorch_core import process_guard

POINTS = int(os.environ.get("POPTORCH_KILL_POINTS", "1"))
SECONDS = 2 if POINTS > 1 else 10  # among other tests, the machine is busy

PROGRAM = """
import os, sys, time
import poptorch, torch

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 1000000

    def __getitem__(self, index):
        time.sleep(0.001)
        return torch.ones(1000)

class OwnLoader:
    "Starts workers of its own."

    def __iter__(self):
        return iter(torch.utils.data.DataLoader(Rows(), 8, num_workers=2))

def batches(kind):
    if kind == "own":
        return poptorch.AsynchronousDataAccessor(OwnLoader())
    mode, strategy, workers = kind.split("-")
    asynchronous = {"sharing_strategy": poptorch.SharingStrategy[strategy]} if strategy else None
    return poptorch.DataLoader(
        poptorch.Options().deviceIterations(4), Rows(), num_workers=int(workers),
        mode=poptorch.DataLoaderMode[mode], async_options=asynchronous,
    )

if __name__ == "__main__":
    loader = batches(sys.argv[1])
    for number, _ in enumerate(loader):
        if number == 0:
            print("ready", flush=True)
        if number == 3 and sys.argv[2] == "raise":
            raise ValueError("an error of the program")
        if number == 3 and sys.argv[2] == "exit":
            os._exit(3)
"""
KINDS = ["Sync--2", "Async-ForkServer-2", "own"]
if POINTS > 1:
    strategies = poptorch.SharingStrategy.__members__
    KINDS += [f"Async-{name}-{n}" for name in strategies for n in (0, 2)]
    KINDS.append("AsyncRebatched-ForkServer-2")


def marked(mark):
    """Processes with `mark` in their environment, but those that have ended."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                ours = mark.encode() in file.read()
            with open(f"/proc/{name}/stat") as file:
                ended = file.read().rpartition(")")[2].split()[0] in "ZX"
        except OSError:
            continue
        if ours and not ended:
            found.append(int(name))
    return found


def shared_memory(processes):
    """What they have in /dev/shm, by name."""
    names = set()
    for process in processes:
        try:
            with open(f"/proc/{process}/maps") as file:
                lines = [line.split()[-1] for line in file if "/dev/shm/" in line]
        except OSError:
            continue
        names |= {line for line in lines if line.startswith("/dev/shm/")}
    return {name for name in names if os.path.exists(name)}


def expect_gone(mark, memory):
    end = time.monotonic() + SECONDS
    while (marked(mark) or any(map(os.path.exists, memory))) and time.monotonic() < end:
        time.sleep(0.02)
    left, memory = marked(mark), {name for name in memory if os.path.exists(name)}
    for process in left:
        os.kill(process, signal.SIGKILL)
    assert (left, memory) == ([], set())


class Running:
    """The program, until its first batch."""

    def __init__(self, folder, kind, end="never"):
        file = folder / "program.py"
        file.write_text(PROGRAM)
        self.mark = f"test-{uuid.uuid4().hex}"
        self.process = subprocess.Popen(
            [sys.executable, file, kind, end],
            env={**os.environ, "PYTHONPATH": ":".join(p for p in sys.path if p), "MARK": self.mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout.readline() == "ready\n"
        self.memory = shared_memory(marked(self.mark))

    def expect_gone(self):
        self.process.wait()
        expect_gone(self.mark, self.memory)


@pytest.mark.parametrize("point", range(POINTS))
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_outlives_a_killed_program(tmp_path, kind, point):
    draw = random.Random(f"{kind} {point}")
    program = Running(tmp_path, kind)
    time.sleep(draw.uniform(0, 0.3))
    program.process.send_signal(draw.choice([signal.SIGKILL, signal.SIGTERM]))
    program.expect_gone()


@pytest.mark.parametrize("end", ["raise", "exit"] if POINTS > 1 else ["exit"])
def test_nothing_outlives_a_program_that_ends_early(tmp_path, end):
    Running(tmp_path, "Async-ForkServer-2", end).expect_gone()


class Stuck(torch.utils.data.Dataset):
    """Its second item never comes."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        time.sleep(60 if index else 0)
        return torch.ones(1)


class OwnWorkers:
    """Starts workers, says who they are, and never gives a second item."""

    def __iter__(self):
        loader = torch.utils.data.DataLoader(Stuck(), 1, num_workers=2)
        batches = iter(loader)
        next(batches)
        yield torch.tensor([worker.pid for worker in batches._workers])
        time.sleep(60)


@pytest.mark.parametrize("strategy", ["Fork", "ForkServer", "SharedMemory"])
@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_the_workers_of_a_worker_end_with_it(strategy, how):
    accessor = poptorch.AsynchronousDataAccessor(
        OwnWorkers(), sharing_strategy=poptorch.SharingStrategy[strategy]
    )
    workers = next(iter(accessor)).tolist()
    assert len(workers) == 2 and all(os.path.exists(f"/proc/{worker}") for worker in workers)
    if how == "kill":
        os.kill(accessor._process.pid, signal.SIGKILL)
    accessor.terminate()
    end = time.monotonic() + SECONDS
    while any(_lives(worker) for worker in workers) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(_lives(worker) for worker in workers)


def _lives(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_the_users_worker_init_fn_runs_and_stays():
    seen = torch.zeros(2).share_memory_()

    def note(worker):
        seen[worker] = 1

    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    loader = poptorch.DataLoader(poptorch.Options(), data, num_workers=2, worker_init_fn=note)
    assert len(list(loader)) == 8
    assert seen.tolist() == [1, 1] and loader.worker_init_fn is note


def test_more_shared_memory_than_there_is():
    with pytest.raises(poptorch.Error, match=r"bytes of shared memory for \d+ items cannot be had"):
        poptorch.AsynchronousDataAccessor([torch.ones(1000)], buffer_size=2**40)


@pytest.mark.parametrize("has_files_of_processes", [True, False])
def test_the_end_of_a_process_is_noticed(has_files_of_processes, monkeypatch):
    if not has_files_of_processes:
        monkeypatch.setattr(os, "pidfd_open", _refuse)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.3)"])
    maker = process_guard.Process(child.pid, process_guard._started(child.pid))
    start = time.monotonic()
    process_guard._wait_for_end(maker)  # before anybody has waited for the child
    assert 0.1 < time.monotonic() - start < SECONDS
    other = process_guard.Process(os.getpid(), process_guard.this_process().started - 1)
    process_guard._wait_for_end(other)  # a number is used again
    child.wait()


def _refuse(_):
    raise OSError(38, "Function not implemented")
