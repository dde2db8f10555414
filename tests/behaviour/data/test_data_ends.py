"""A program that loads data leaves no process and no shared memory, however it ends.

tests/nightly/loader_ends.py does the same at random moments, with a limit of two seconds.
"""

import os
import signal
import subprocess
import sys
import threading
import types

import poptorch
import pytest
import torch
from loading_program import Running, lives, wait_for_end
from poptorch_core import process_guard

NOTHING = ([], set())


@pytest.mark.nightly
@pytest.mark.signals
@pytest.mark.parametrize("kind", ["SIGKILL", "SIGTERM"])
@pytest.mark.parametrize("loader", ["Sync--2", "Async-ForkServer-2", "own"])
def test_nothing_outlives_a_killed_program(tmp_path, loader, kind):
    program = Running(tmp_path, loader, POPTORCH_FAULT=f"load:4:program:{kind}")
    program.go_on()
    assert program.left_behind() == NOTHING
    assert program.process.returncode == -getattr(signal, kind)


@pytest.mark.nightly
@pytest.mark.signals
def test_nothing_outlives_a_program_that_exits_early(tmp_path):
    program = Running(tmp_path, "Async-ForkServer-2", "exit")
    program.go_on()
    assert program.left_behind() == NOTHING
    assert program.process.returncode == 3


class Stuck(torch.utils.data.Dataset):
    """Never delivers its second item."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index:
            threading.Event().wait()
        return torch.ones(1)


class OwnWorkers:
    """Starts workers, prints their ids, and never delivers a second item."""

    def __iter__(self):
        loader = torch.utils.data.DataLoader(Stuck(), 1, num_workers=2)
        batches = iter(loader)
        next(batches)
        yield torch.tensor([worker.pid for worker in batches._workers])
        threading.Event().wait()


@pytest.mark.nightly
@pytest.mark.signals
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
    assert all(wait_for_end(worker) for worker in workers)


def test_the_users_worker_init_fn_runs_and_stays():
    seen = torch.zeros(2).share_memory_()

    def note(worker):
        seen[worker] = 1

    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    loader = poptorch.DataLoader(poptorch.Options(), data, num_workers=2, worker_init_fn=note)
    assert len(list(loader)) == 8
    assert seen.tolist() == [1, 1] and loader.worker_init_fn is note


@pytest.mark.shared
def test_more_shared_memory_than_there_is():
    with pytest.raises(poptorch.Error, match=r"cannot allocate \d+ bytes of shared memory"):
        poptorch.AsynchronousDataAccessor([torch.ones(1000)], buffer_size=2**40)


def test_the_end_of_a_process_is_noticed():
    child = waiting_child()
    maker = process_guard.Process(child.pid, process_guard._started(child.pid))
    seen = threading.Event()
    waiting = threading.Thread(target=lambda: process_guard._wait_for_end(maker) or seen.set())
    waiting.start()
    assert not seen.is_set()
    child.stdin.close()
    waiting.join()  # before any process has waited for the child
    child.wait()


def test_the_end_of_a_process_is_noticed_without_files_of_processes(monkeypatch):
    child, slept = waiting_child(), []
    maker = process_guard.Process(child.pid, process_guard._started(child.pid))

    def sleep(_):
        slept.append(lives(child.pid))
        if len(slept) == 3:
            child.stdin.close()
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

    monkeypatch.setattr(os, "pidfd_open", _refuse)
    monkeypatch.setattr(process_guard, "time", types.SimpleNamespace(sleep=sleep))
    process_guard._wait_for_end(maker)
    assert slept == [True, True, True]
    child.wait()


def test_a_process_is_not_taken_for_a_later_one_of_its_number():
    other = process_guard.Process(os.getpid(), process_guard.this_process().started - 1)
    process_guard._wait_for_end(other)  # returns at once
    assert not process_guard.lives(other)


def waiting_child():
    """A process that ends when its stdin is closed."""
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE,
                            stderr=subprocess.DEVNULL)  # fmt: skip


def _refuse(_):
    raise OSError(38, "Function not implemented")
