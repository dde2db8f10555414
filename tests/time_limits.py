"""Ends a test that exceeds its limit (`timeout` of pyproject.toml, or its marker).

The stacks of all threads and the test's processes are printed, these processes are killed, and this
process ends. xdist reports the test as failed and starts another worker. Signals are not used,
because tests have their own handlers. If the interpreter's lock is not released, faulthandler's
thread prints the stacks and ends this process a little later.
"""

import faulthandler
import os
import signal
import threading
from pathlib import Path

import pytest

SECONDS_FOR_THE_LOCK = 30
STDERR = pytest.StashKey[int]()


def configure(config):
    """Keeps stderr: during tests, its descriptor belongs to pytest's capture."""
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        config.stash[STDERR] = os.dup(2)


def set_timer(item, settings):
    """pytest_timeout_set_timer: sets the timer of one test."""
    stderr = item.config.stash[STDERR]
    timer = threading.Timer(settings.timeout, expire, (item, settings.timeout, stderr))
    timer.daemon = True
    timer.start()
    later = settings.timeout + SECONDS_FOR_THE_LOCK
    faulthandler.dump_traceback_later(later, exit=True, file=stderr)

    def cancel():
        faulthandler.cancel_dump_traceback_later()
        timer.cancel()

    item.cancel_timeout = cancel
    return True


def expire(item, seconds, stderr):
    """Prints the stacks and processes, ends the processes of the test, and this process."""
    try:
        captured = item.config.pluginmanager.getplugin("capturemanager").read_global_capture()
        started = descendants(os.getpid())
        lines = [f"{item.nodeid} exceeds its limit of {seconds:g} s.", *filter(None, captured)]
        lines += [f"process {pid}: {command_of(pid)}" for pid in started]
        os.write(stderr, ("\n" + "\n".join(lines) + "\n").encode(errors="replace"))
        faulthandler.dump_traceback(stderr, all_threads=True)
        for pid in started:
            os.kill(pid, signal.SIGKILL)
    finally:
        os._exit(1)


def descendants(pid):
    """Returns process ids of all descendants."""
    children = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found = children.get(pid, [])
    for each in found:
        found += children.get(each, [])
    return found


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
    except OSError:
        return "has ended"
