"""A program that loads data, and functions that list its processes and shared memory."""

import os
import select
import signal
import subprocess
import sys
import uuid

PROGRAM = """
import os, sys
import poptorch, torch

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 1000000

    def __getitem__(self, index):
        return torch.ones(1000)

class OwnLoader:
    "Starts its workers itself."

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
    while True:
        for number, _ in enumerate(loader):
            if number == 0:
                print("ready", flush=True)
                sys.stdin.readline()
            if number == 3 and sys.argv[2] == "raise":
                raise ValueError("an error of the program")
            if number == 3 and sys.argv[2] == "exit":
                os._exit(3)
"""


def marked(mark):
    """Returns the processes with `mark` in their environment that have not ended."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                ours = mark.encode() in file.read()
        except OSError:
            continue
        if ours and lives(int(name)):
            found.append(int(name))
    return found


def lives(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for_end(process, seconds=None):
    """Returns whether a process of any parent ends, within the given seconds or ever."""
    try:
        file = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([file], [], [], seconds)[0])
    finally:
        os.close(file)


def shared_memory(processes):
    """Returns their files in /dev/shm, by name."""
    names = set()
    for process in processes:
        try:
            with open(f"/proc/{process}/maps") as file:
                lines = [line.split()[-1] for line in file if "/dev/shm/" in line]
        except OSError:
            continue
        names |= {line for line in lines if line.startswith("/dev/shm/")}
    return {name for name in names if os.path.exists(name)}


class Running:
    """Starts the program, which waits at its first batch of data until go_on()."""

    def __init__(self, folder, kind, end="never", **environment):
        file = folder / "program.py"
        file.write_text(PROGRAM)
        self.mark = f"test-{uuid.uuid4().hex}"
        self.process = subprocess.Popen(
            [sys.executable, file, kind, end],
            env={
                **os.environ,
                "PYTHONPATH": ":".join(p for p in sys.path if p),
                "MARK": self.mark,
                **environment,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout.readline() == "ready\n"
        self.memory = shared_memory(marked(self.mark))

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def left_behind(self, seconds=None):
        """Returns processes and shared memory that outlive the program by the given seconds."""
        self.process.wait()
        left = []
        while new := [process for process in marked(self.mark) if process not in left]:
            left += [process for process in new if not wait_for_end(process, seconds)]
        for process in left:
            os.kill(process, signal.SIGKILL)
        return left, {name for name in self.memory if os.path.exists(name)}
