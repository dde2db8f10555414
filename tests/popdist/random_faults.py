"""Kills and stops one instance at random times: `python tests/popdist/random_faults.py --points 500
--instances 8`.

poprun runs faulty_program.py, which compiles, trains, saves and calls collectives. Instances share
memory, or are on hosts with `--on-a-host` instances each, with gradients in bulk transfers between
hosts. All instances must end, with errors that name the instances that they waited for. Nothing may
be left: no process, no file in /dev/shm or in the folder of temporary files. Prints the longest
time until the end. At most points the instances are forks of this process, which has torch loaded,
so that the fault strikes their work. At every tenth point they are new processes, and the fault may
strike their start.
"""

import argparse
import contextlib
import itertools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from launching import POPRUN, PYTHON, clean_environment, is_running, left_in_shared_memory

PROGRAM = Path(__file__).with_name("faulty_program.py")
SECONDS_TO_WAIT = 120  # then it hangs
APART = {"TEST_WIDTH": "1500"}  # gradients of which 8 instances have a MiB each
BARE = re.compile(
    "terminate called|Segmentation|core dumped|double free|RuntimeError|KeyError|Bus error"
)


class Run:
    """Runs poprun with the program in a folder. cold: new processes, without torch."""

    def __init__(
        self, args: argparse.Namespace, folder: Path, apart: bool, cold: bool, fault: str
    ) -> None:
        self.folder, self.temporary, self.errors = folder, folder / "tmp", folder / "errors"
        for each in (self.temporary, folder / "runtime"):
            each.mkdir(mode=0o700)
        words = ["-vv", f"--num-instances={args.instances}", PYTHON, str(PROGRAM), str(folder)]
        environment = clean_environment(
            TMPDIR=str(self.temporary),
            XDG_RUNTIME_DIR=str(folder / "runtime"),
            TORCHINDUCTOR_CACHE_DIR=str(folder / "runtime"),  # torch's own
            POPTORCH_LOG_LEVEL="ERR",
            **({"TEST_FAULT": fault} if fault else {}),
            **({**APART, "POPDIST_INSTANCES_PER_HOST": str(args.on_a_host)} if apart else {}),
            POPLAR_ENGINE_OPTIONS=f'{{"target.hostSyncTimeout": "{args.sync_seconds}"}}',
        )
        if cold:
            with self.errors.open("wb") as errors:
                self.process = subprocess.Popen(
                    [*POPRUN, *words], cwd=folder, stdout=subprocess.DEVNULL, stderr=errors,
                    env=environment,
                )  # fmt: skip
        else:
            from loaded_poprun import poprun  # here, so that it is loaded after main has begun

            self.errors.touch()
            self.process = poprun(words, environment, folder, self.errors)

    def status(self) -> int | None:
        """Returns the status as subprocess does; None while it runs."""
        if isinstance(self.process, subprocess.Popen):
            return self.process.poll()
        return self.process.exitcode

    def wait(self) -> None:
        """Waits for its end."""
        (self.process.wait if isinstance(self.process, subprocess.Popen) else self.process.join)()

    def pids(self, instances: int) -> list[int]:
        """Returns the processes of the instances, once all are started."""
        while self.status() is None:
            found = re.findall(r"instance \d+ on \S+ is process (\d+)", self.errors.read_text())
            if len(found) == instances:
                return [int(pid) for pid in found]
            time.sleep(0.01)
        return []

    def left(self) -> list[str]:
        """Returns what is left after its end."""
        found = [f"process {pid}" for pid in self.processes()]
        return found + [f"file {path}" for path in self.temporary.iterdir()]

    def processes(self) -> list[int]:
        """Returns the processes in its folder."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (process / "cwd").readlink() == self.folder:
                    found.append(int(process.name))
        return found


def activity(pid: int) -> str:
    """Returns what a process does: its state, its seconds on a core and, with gdb, its stacks."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        waits_in = Path(f"/proc/{pid}/wchan").read_text()
    except OSError:
        return f"process {pid} has just ended"
    seconds = (int(fields[10]) + int(fields[11])) / os.sysconf("SC_CLK_TCK")
    stacks = ""
    if shutil.which("gdb"):
        gdb = ["timeout", "60", "gdb", "--batch", "--pid", str(pid), "--ex", "thread apply all bt"]
        stacks = subprocess.run(gdb, capture_output=True, text=True).stdout
    return f"process {pid}: state {state} in {waits_in}, {seconds:.1f} s on a core\n{stacks}"


def wait(run: Run, pids: list[int], victim: int | None) -> bool:
    """Returns whether it ends. Continues a stopped victim for which no instance waits any more."""
    until = time.monotonic() + SECONDS_TO_WAIT
    while run.status() is None and time.monotonic() < until:
        if victim is not None and not any(is_running(pid) for pid in pids if pid != victim):
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGCONT)
        time.sleep(0.02)
    return run.status() is not None


class Ended(NamedTuple):
    """How poprun with the program ended."""

    seconds: float  # since the fault, or since the start
    status: int | None
    error: str  # what is wrong, and the output; "" if nothing is
    said: str  # by poprun and all instances
    told: str  # the error of instance 0


def strike(
    args: argparse.Namespace,
    apart: bool,
    cold: bool,
    kind: signal.Signals,
    after: float | None = None,
    fault: str = "",
) -> Ended:
    """Runs the program and strikes one instance, or none.

    It strikes any instance by a signal `after` seconds, or the last one at the point of a
    POPTORCH_FAULT.
    """
    shared = set(os.listdir("/dev/shm"))
    folder = Path(tempfile.mkdtemp()).resolve()  # forks would remove a TemporaryDirectory
    run = Run(args, folder, apart, cold, fault)
    begin = time.monotonic()
    try:
        pids = run.pids(args.instances)
        victim = pids[-1] if pids and fault else None
        if after is not None and pids:
            time.sleep(max(begin + after - time.monotonic(), 0))
            victim = random.choice(pids)
            with contextlib.suppress(ProcessLookupError):  # it has already ended
                os.kill(victim, kind)
            begin = time.monotonic()
        ended = wait(run, pids, victim if kind == signal.SIGSTOP else None)
        seconds = time.monotonic() - begin
        said = run.errors.read_text(errors="replace")
        wrong = [] if ended else ["it hangs", *map(activity, run.processes())]
        wrong += [f"left: {each}" for each in run.left()]
        wrong += [f"left: /dev/shm/{each}" for each in left_in_shared_memory(shared)]
        wrong += BARE.findall(said)
        status = run.status()
        allowed = (0, 1, 128 + kind) if victim or fault else (0,)
        if status not in allowed:
            wrong.append(f"status {status}")
        error = f"{'; '.join(wrong)}\n{said}" if wrong else ""
        told = folder / "0"
        return Ended(seconds, status, error, said, told.read_text() if told.exists() else "")
    finally:
        for pid in run.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        run.wait()
        shutil.rmtree(folder, ignore_errors=True)


def named(way: tuple[bool, bool]) -> str:
    """Returns a way in words."""
    return f"{'apart' if way[0] else 'together'}, {'cold' if way[1] else 'loaded'}"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=500)
    parser.add_argument("--instances", type=int, default=8)
    parser.add_argument("--on-a-host", type=int, default=1)  # instances, where they are apart
    parser.add_argument("--sync-seconds", type=int, default=20)  # until a stopped instance is named
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    args = parser.parse_args()
    random.seed(args.seed)
    print(f"--seed={args.seed}", flush=True)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # threads do not survive a fork
    whole = {}
    for way in itertools.product((False, True), repeat=2):
        undisturbed = strike(args, *way, signal.SIGKILL)
        whole[way] = undisturbed.seconds
        if undisturbed.error:
            print(f"undisturbed, {named(way)}: {undisturbed.error}")
            return 1
    wrong, longest = 0, {signal.SIGKILL: 0.0, signal.SIGSTOP: 0.0}
    for point in range(args.points):
        way = (point % 2 == 1, point % 20 in (9, 18))
        after = random.uniform(0, whole[way])
        kind = random.choice(list(longest))
        ended = strike(args, *way, kind, after)
        longest[kind] = max(longest[kind], ended.seconds)
        if point % 50 == 49:
            print(f"{point + 1} points, {wrong} wrong", flush=True)
        if ended.error:
            wrong += 1
            print(
                f"point {point}, {named(way)}, {kind.name} after {after:.3f} s: {ended.error}",
                flush=True,
            )
    slowest = ", ".join(f"{seconds:.1f} s after {kind.name}" for kind, seconds in longest.items())
    print(f"instance faults: {args.points} points, {wrong} wrong; all ended at most {slowest}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
