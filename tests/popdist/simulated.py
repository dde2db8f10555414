"""Simulates a clock, and instances that end, write and receive signals, as a test says."""

import os
import signal
from types import SimpleNamespace

from popdist.launcher.clock import Clock
from popdist.launcher.running import Command, Running
from popdist.launcher.sink import Sink
from popdist.launcher.supervisor import Supervisor


class SimulatedClock(Clock):
    """Time passes only where the supervisor waits and nothing is ready."""

    def __init__(self):
        self.time = 0.0
        self._plan = []

    def at(self, time, action):
        """Calls an action at a time; actions for the same time are called together, in order."""
        self._plan.append((time, action))
        self._plan.sort(key=lambda planned: planned[0])

    def now(self):
        return self.time

    def wait(self, selector, seconds):
        if ready := selector.select(0):
            return ready
        until = None if seconds is None else self.time + seconds
        if self._plan and (until is None or self._plan[0][0] <= until):
            self.time = max(self.time, self._plan[0][0])
            while self._plan and self._plan[0][0] <= self.time:
                self._plan.pop(0)[1]()
            return selector.select(0)
        assert until is not None, "the supervisor waits for ever"
        self.time = until
        return []


class SimulatedInstance(Running):
    """heard: the signals that it received, with their times. obeys: those that end it."""

    def __init__(self, clock, index, streams, *, obeys, has_pidfd):
        outs = [os.pipe() for _ in range(2)]
        files = [os.fdopen(reads, "rb", buffering=0) for reads, _ in outs]
        process = SimpleNamespace(
            pid=1000 + index, stdin=None, stdout=files[0], stderr=files[1], returncode=None,
            wait=lambda: process.returncode,
        )  # fmt: skip
        super().__init__(index, f"host{index}", process, streams, None)
        self._clock, self._obeys, self._writers = clock, obeys, [writes for _, writes in outs]
        self.heard = []
        self._ends = None
        if has_pidfd:
            self.pidfd, self._ends = os.pipe()

    def write(self, data, file=1):
        """Writes to stdout or stderr as much as the pipe accepts, and returns the rest."""
        os.set_blocking(self._writers[file - 1], False)
        try:
            return data[os.write(self._writers[file - 1], data) :]
        except BlockingIOError:
            return data

    def close(self):
        """Closes stdout and stderr."""
        for file in self._writers:
            os.close(file)
        self._writers = []

    def end(self, code, *, held=False):
        """Ends with a status, or a negative signal. held: another process keeps its pipes open."""
        if self.process.returncode is None:
            self.process.returncode = code
            if not held:
                self.close()
            if self._ends is not None:
                os.close(self._ends)  # makes the pidfd readable

    def has_ended(self):
        return self.process.returncode is not None

    def signal(self, number):
        if self.status is None and self.process.returncode is None and number != signal.SIGCONT:
            self.heard.append((round(self._clock.time, 6), number))
            if number in (*self._obeys, signal.SIGKILL):
                self.end(-number)


class Simulation:
    """A supervisor of simulated instances. groups: the process groups that the guard would kill.

    obeys: signals that end an instance, by instance; SIGKILL ends all. reader: reads stdout, and
    stderr too.
    """

    def __init__(self, count, *, obeys=None, has_pidfd=True, folder=None):
        self.clock, self.groups, self.instances = SimulatedClock(), set(), []
        self.reader, writes = os.pipe()
        self._sink = Sink(writes)
        self._count, self._obeys, self._has_pidfd = count, obeys or {}, has_pidfd
        self._supervisor = Supervisor(
            SimpleNamespace(watch=self.groups.add, forget=self.groups.discard),
            lambda _: True, folder, lambda _: b"", clock=self.clock, start=self._started,
            sinks=lambda: {1: self._sink, 2: self._sink},
        )  # fmt: skip

    def _started(self, index, command, streams):
        obeys = self._obeys.get(index, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
        made = SimulatedInstance(
            self.clock, index, streams, obeys=obeys, has_pidfd=self._has_pidfd
        )  # fmt: skip
        self.instances.append(made)
        return made

    def at(self, time, index, action, *arguments, **keywords):
        """Calls a method of an instance at a time."""

        def act():
            getattr(self.instances[index], action)(*arguments, **keywords)

        self.clock.at(time, act)

    def run(self):
        """Returns the outcome, when nothing is left."""
        outcome = self._supervisor.run([Command((), {}, "") for _ in range(self._count)])
        assert self.groups == set()
        return outcome

    def read(self):
        """Returns the data that the reader finds now."""
        os.set_blocking(self.reader, False)
        try:
            return os.read(self.reader, 1 << 20)
        except BlockingIOError:
            return b""

    def close_reader(self):
        """Closes the reader: nothing reads any more."""
        os.close(self.reader)
        self.reader = None

    def close(self):
        """Closes everything that the simulation has opened."""
        os.close(self._sink.file)
        if self.reader is not None:
            self.close_reader()
