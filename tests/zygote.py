"""Starts Python programs as forks of a process that has already imported torch and poptorch.

`zygote.run` and `zygote.Popen` take and return the same as those of `subprocess`. The program is a
child of the caller: waiting, signals and the exit status are those of a new process. It has its own
arguments, environment, folder, standard streams and `__main__`. A command that needs more than this
(see `can_be_forked`) starts as a new process. After `zygote.start_workers()`, the processes that
multiprocessing starts are such forks too. In programs of tests they are new processes.

These things differ from a new process: torch, torch._dynamo and numpy are in `sys.modules`, and
/proc has the command line and the environment of the zygote. A test that depends on them uses
`subprocess`; the reasons are in tests/meta/test_zygote.py.
"""

import contextlib
import ctypes
import multiprocessing.util
import os
import pickle
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import zygote_program

SERVER = Path(__file__).with_name("zygote_server.py")
ENVIRONMENT = dict(os.environ)  # of the zygote: see take_environment()

# Variables that Python, torch, its libraries or poptorch read when they are loaded.
# POPTORCH_LOG_LEVEL is one, too; the zygote's forks read it again.
READ_WHEN_LOADED = re.compile(
    "PYTHON(?!PATH$)|LANG|LC_|TZ$|LD_|MALLOC_|GLIBC_|OMP_|GOMP_|KMP_|MKL_|OPENBLAS_|DNNL_|ONEDNN_|"
    "ATEN_|TORCH_|PYTORCH_|POPTORCH_LOG_DEST$|POPART_LOG_LEVEL$|PVTI_OPTIONS$|RDMAV_FORK_SAFE$"
)
PR_SET_CHILD_SUBREAPER = 36


def take_environment() -> None:
    """Gives the zygote the variables as they are before the first test, when all modules of tests
    are imported: libraries such as sklearn set some of them."""
    ENVIRONMENT.clear()
    ENVIRONMENT.update(os.environ)


def can_be_forked(words: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Returns whether a fork of the zygote behaves as `words` do in a new process."""
    if len(words) < 2 or words[0] != sys.executable:
        return False
    if words[1] not in ("-c", "-m") and not words[1].endswith(".py"):
        return False
    names = {*environment, *ENVIRONMENT}
    return all(
        environment.get(name) == ENVIRONMENT.get(name)
        for name in filter(READ_WHEN_LOADED.match, names)
    )


def blocked_signals() -> set[int]:
    """Returns the signals that this thread blocks, which a new process inherits.

    The zygote may have been started by a thread that blocked others.
    """
    return set(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, [])))


class Zygote:
    """The process that forks, and the connection to it."""

    def __init__(self) -> None:
        self.owner, self.lock = os.getpid(), threading.Lock()
        self.connection, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, str(SERVER), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=ENVIRONMENT,
            )

    def start(self, program: dict, files: Sequence[int]) -> int:
        """Forks a child of this process that runs the program; returns its process id."""
        with self.lock, _orphans_become_children():
            body = pickle.dumps(program)
            socket.send_fds(self.connection, [struct.pack("=Q", len(body))], files)
            self.connection.sendall(body)
            answer = self.connection.recv(8, socket.MSG_WAITALL)
        if len(answer) < 8:
            raise RuntimeError(f"the zygote ended with status {self.process.wait()}")
        (pid,) = struct.unpack("=q", answer)
        if pid < 0:
            raise OSError(-pid, os.strerror(-pid))
        return pid


@contextlib.contextmanager
def _orphans_become_children():
    """Gives this process the program, whose parent is a fork of the zygote that ends at once."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


_zygotes: list[Zygote] = []


def _zygote() -> Zygote:
    """Returns the zygote of this process, started when it is first needed."""
    if not _zygotes or _zygotes[-1].owner != os.getpid():
        _zygotes.append(Zygote())
    return _zygotes[-1]


class Popen(subprocess.Popen):
    """Starts a fork of the zygote, or a new process where that makes a difference."""

    def _execute_child(
        self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo,
        creationflags, shell, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite,
        restore_signals, gid, gids, uid, umask, start_new_session, *more,
    ):  # fmt: skip
        pipes = p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite
        listed = [args] if isinstance(args, (str, bytes, os.PathLike)) else args
        words = [os.fsdecode(word) for word in listed]
        environment = dict(os.environ if env is None else env)
        ordinary = (executable, preexec_fn, gid, gids, uid) == (None,) * 5 and umask < 0
        ordinary &= close_fds and restore_signals and not (pass_fds or shell)
        if not ordinary or not self._can_be_forked(words, environment):
            return super()._execute_child(
                args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo,
                creationflags, shell, *pipes, restore_signals, gid, gids, uid, umask,
                start_new_session, *more,
            )  # fmt: skip
        program = {
            "words": words,
            "environment": environment,
            "folder": os.path.join(os.getcwd(), os.fsdecode(cwd or "")),
            "blocked": blocked_signals(),
            "new_session": start_new_session,
            "process_group": more[0] if more else -1,
        }
        streams = [
            given if given >= 0 else ours
            for ours, given in enumerate((p2cread, c2pwrite, errwrite))
        ]
        self.pid = self._start(program, streams)
        self._child_created = True
        self._close_pipe_fds(*pipes)

    _can_be_forked = staticmethod(can_be_forked)

    def _start(self, program: dict, streams: Sequence[int]) -> int:
        return _zygote().start(program, streams)


def start_workers() -> None:
    """Makes multiprocessing start processes (`spawn`, the fork server) as forks of the zygote."""
    multiprocessing.util.spawnv_passfds = _spawn  # type: ignore[attr-defined]


_SPAWN = multiprocessing.util.spawnv_passfds  # type: ignore[attr-defined]


def _spawn(path, args, passed: Sequence[int]) -> int:
    words = [os.fsdecode(word) for word in args]
    starts_torch = any("spawn_main" in word or "forkserver" in word for word in words)
    too_many = len(passed) + 3 > zygote_program.MOST_FILES
    if not starts_torch or too_many or not can_be_forked(words, os.environ):
        return _SPAWN(path, args, passed)
    program = {
        "words": words,
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "blocked": blocked_signals(),
        "passed": sorted(passed),
    }
    return _zygote().start(program, [0, 1, 2, *sorted(passed)])


class OwnFork(Popen):
    """A Popen whose process is a fork of this one, which has torch loaded and has one thread.

    Variables that are read when libraries are loaded have the values that this process has.
    """

    _can_be_forked = staticmethod(lambda words, environment: True)

    def _start(self, program: dict, streams: Sequence[int]) -> int:
        pid = os.fork()
        if pid == 0:
            zygote_program.become(zygote_program.Program(**program), streams)
        return pid


def run(words, *, input=None, capture_output=False, timeout=None, check=False, **more):
    """subprocess.run with `Popen`."""
    if input is not None:
        more["stdin"] = subprocess.PIPE
    if capture_output:
        more["stdout"] = more["stderr"] = subprocess.PIPE
    with Popen(words, **more) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            process.wait()
            raise
    done = subprocess.CompletedProcess(words, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done
