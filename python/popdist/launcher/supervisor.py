"""Runs the instances of a program side by side until all have ended.

One loop waits for output, ends and signals. Every instance leads a process group, so that its child
processes end with it.
"""

import os
import selectors
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from popdist.launcher.clock import Clock
from popdist.launcher.output import Stream
from popdist.launcher.running import Command, Running, started
from popdist.launcher.sink import OutputError, Sink, standard_sinks

_SECONDS_TO_NOTICE = 2.0  # from an instance's failure until the others get SIGTERM
_SECONDS_TO_END = 2.5  # from SIGTERM until SIGKILL
_SECONDS_AFTER_SIGNAL = 0.6  # the same when a signal ends the launcher
_SECONDS_OF_OUTPUT = 0.5  # for pipes that other processes hold open after all instances' ends
_SECONDS_TO_WRITE = 0.2  # to a slow reader, when a signal ends the launcher
_POLL = 0.05  # where the kernel has no pidfd
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass
class Outcome:
    """How a run ended.

    Attributes:
        status: The launcher's exit status.
        failed: The instance that failed first.
        before: The instances that had ended with status 0 by then.
        signal: The signal that ended the launcher.
        error: The failure of the launcher that ended the run.
        instances: All instances.
    """

    status: int = 0
    failed: Running | None = None
    before: list[Running] = field(default_factory=list)
    signal: int = 0
    error: str = ""
    instances: list[Running] = field(default_factory=list)

    @property
    def may_restart(self) -> bool:
        """Whether an instance failed, and neither a signal nor the launcher ended the run."""
        return self.failed is not None and not self.signal and not self.error


class Watcher(Protocol):
    """Kills process groups that outlive the launcher, as Guard does."""

    def watch(self, group: int) -> None:
        """Adds a group."""

    def forget(self, group: int) -> None:
        """Removes a group, which has ended."""


class Supervisor:
    """Runs instances, passes on their output, and ends all when one fails.

    Args:
        guard: Kills instances that outlive the launcher.
        shows: Whether an instance's output is shown.
        folder: The folder to which the output is also written, or None.
        told: Returns a line of the launcher's log for a sentence, or b"" if it is not wanted.
        clock: A replacement for tests.
        start: A replacement for tests.
        sinks: A replacement for tests.
    """

    def __init__(
        self,
        guard: Watcher,
        shows: Callable[[int], bool],
        folder: Path | None,
        told: Callable[[str], bytes],
        *,
        clock: Clock | None = None,
        start: Callable[[int, Command, list[Stream]], Running] = started,
        sinks: Callable[[], Mapping[int, Sink]] = standard_sinks,
    ) -> None:
        self._guard, self._shows, self._folder, self._told = guard, shows, folder, told
        self._clock, self._start_process, self._make_sinks = clock or Clock(), start, sinks

    def run(self, commands: Sequence[Command]) -> Outcome:
        """Starts all instances and returns when all have ended.

        Raises:
            StartError: One cannot be started; the others have been ended.
        """
        self._selector = selectors.PollSelector()  # epoll cannot watch regular files
        self._outcome = Outcome()
        self._due: list[tuple[float, int]] = []  # signals to send, and when
        self._sinks = self._make_sinks()
        self._paused: list[tuple[Any, Stream]] = []  # pipes that are not read for now
        self._reads_on = False  # reads even if the sinks are full
        waker, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        former_waker = signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        numbers = [number for number in _SIGNALS if not _is_ignored(number)]
        former = {number: signal.signal(number, lambda *_: None) for number in numbers}
        self._selector.register(waker, selectors.EVENT_READ, self._signalled)
        try:
            try:
                for index, command in enumerate(commands):
                    self._outcome.instances.append(self._start(index, command))
                self._loop()
            finally:
                self._end_all()
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(former_waker)
            self._selector.close()
            for sink in set(self._sinks.values()):
                sink.close()
            os.close(waker)
            os.close(wakes)
        return self._outcome

    def _start(self, index: int, command: Command) -> Running:
        folder = None if self._folder is None else self._folder / "1" / f"rank.{index}"
        shown = self._shows(index)
        streams = [
            Stream(index, name, self._sinks[file] if shown else None, folder)
            for name, file in (("stdout", 1), ("stderr", 2))
        ]
        running = self._start_process(index, command, streams)
        pid = running.process.pid
        self._guard.watch(pid)
        self._tell(f"instance {index} on {command.host} is process {pid}")
        running.tell()
        pipes = (running.process.stdout, running.process.stderr)
        for pipe, stream in zip(pipes, streams, strict=True):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, stream)
        if running.pidfd >= 0:
            self._selector.register(running.pidfd, selectors.EVENT_READ, None)
        return running

    def _tell(self, text: str) -> None:
        self._sinks[2].put(self._told(text))

    def _loop(self) -> None:
        while any(running.status is None for running in self._outcome.instances):
            self._wait(self._seconds_to_wait())
            self._look_for_ends()
            for moment, number in self._due:
                if self._clock.now() >= moment:
                    self._signal_all(number)
            self._due = [due for due in self._due if due[0] > self._clock.now()]
        self._drain()

    def _seconds_to_wait(self) -> float | None:
        polls = any(r.pidfd < 0 and r.status is None for r in self._outcome.instances)
        until = [_POLL] if polls else []
        until += [max(moment - self._clock.now(), 0.0) for moment, _ in self._due]
        return min(until, default=None)

    def _wait(self, seconds: float | None) -> bool:
        """Waits for events and handles them. Returns whether there were any."""
        self._look_at_sinks()
        events = self._clock.wait(self._selector, seconds)
        for key, _ in events:
            if isinstance(key.data, Stream):
                self._read(key.fileobj, key.data)
            elif isinstance(key.data, Sink):
                self._write(key.data)
            elif key.data is not None:
                key.data(key.fd)
        return bool(events)

    def _look_at_sinks(self) -> None:
        """Registers sinks with unwritten data, and resumes pipes whose output is written."""
        known = self._selector.get_map()
        for sink in self._sinks.values():
            if sink.waits and sink.out not in known:
                self._selector.register(sink.out, selectors.EVENT_WRITE, sink)
            elif not sink.waits and sink.out in known:
                self._selector.unregister(sink.out)
        paused, self._paused = self._paused, []
        for pipe, stream in paused:
            if self._reads_on or stream.out is None or not stream.out.waits:
                self._selector.register(pipe, selectors.EVENT_READ, stream)
            else:
                self._paused.append((pipe, stream))

    def _read(self, pipe: Any, stream: Stream) -> None:
        try:
            data = os.read(pipe.fileno(), 1 << 16)
        except BlockingIOError:
            return
        try:
            if data:
                stream.take(data)
            else:
                self._selector.unregister(pipe)
                pipe.close()
                stream.end()
        except OutputError as error:
            self._cannot(str(error))
        if data and stream.out is not None and stream.out.is_full and not self._reads_on:
            self._selector.unregister(pipe)
            self._paused.append((pipe, stream))

    def _write(self, sink: Sink) -> None:
        try:
            sink.write()
        except BrokenPipeError:
            self._told_to_end(signal.SIGPIPE)
        except OutputError as error:
            self._cannot(str(error))

    def _look_for_ends(self) -> None:
        instances = self._outcome.instances
        ended = [running for running in instances if running.status is None and running.has_ended()]
        for running in ended:
            self._note_end(running)
        failed = [running for running in ended if running.status]
        if failed and not self._outcome.status:
            # If one was killed, the errors of the others are consequences.
            first = min(failed, key=lambda running: running.process.returncode >= 0)
            self._outcome.failed, self._outcome.status = first, first.status or 0
            self._outcome.before = [running for running in instances if running.status == 0]
            # Meanwhile the others raise their errors, and may save their state.
            self._end_others(signal.SIGTERM, _SECONDS_TO_NOTICE, _SECONDS_TO_END)

    def _note_end(self, running: Running) -> None:
        running.signal(signal.SIGKILL)  # its children, while the group's number is not reused
        code = running.process.wait()
        self._guard.forget(running.process.pid)
        running.status = code if code >= 0 else 128 - code
        running.tell()
        if running.pidfd >= 0:
            self._selector.unregister(running.pidfd)
            os.close(running.pidfd)
        self._tell(f"instance {running.index} ended with {running.status}")

    def _signalled(self, waker: int) -> None:
        for number in os.read(waker, 64):
            if number in _SIGNALS:
                self._told_to_end(number)

    def _told_to_end(self, number: int) -> None:
        if not self._outcome.signal:
            self._outcome.signal, self._outcome.status = number, 128 + number
            passed = signal.SIGTERM if number == signal.SIGPIPE else number
            self._end_others(passed, 0.0, _SECONDS_AFTER_SIGNAL)

    def _cannot(self, error: str) -> None:
        if not self._outcome.error:
            self._outcome.error, self._outcome.status = error, 1
            self._end_others(signal.SIGTERM, 0.0, _SECONDS_AFTER_SIGNAL)

    def _end_others(self, number: int, wait: float, seconds: float) -> None:
        now = self._clock.now()
        self._due += [(now + wait, number), (now + wait + seconds, signal.SIGKILL)]

    def _signal_all(self, number: int) -> None:
        for running in self._outcome.instances:
            if running.status is None:
                running.signal(number)
                running.signal(signal.SIGCONT)  # a stopped process then handles the signal

    def _drain(self) -> None:
        """Reads the rest of the pipes and writes all output."""
        if not self._is_told():
            self._wait_for(lambda: not self._paused)
        self._reads_on = True
        until = self._clock.now() + _SECONDS_OF_OUTPUT  # other processes may hold the pipes open
        while self._streams() and self._wait(max(until - self._clock.now(), 0.0)):
            if self._clock.now() > until:
                break
        for pipe, stream in self._streams():
            self._selector.unregister(pipe)
            stream.end()
        self._wait_for(lambda: not any(sink.waits for sink in self._sinks.values()))

    def _wait_for(self, is_so: Callable[[], bool]) -> None:
        """Waits for a reader until `is_so`; after a signal or an error, for a short time only."""
        self._look_at_sinks()
        while not is_so() and not self._is_told():
            self._wait(None)
            self._look_at_sinks()
        until = self._clock.now() + _SECONDS_TO_WRITE
        while not is_so() and self._clock.now() < until:
            self._wait(until - self._clock.now())

    def _is_told(self) -> bool:
        return bool(self._outcome.signal or self._outcome.error)

    def _streams(self) -> list[tuple[Any, Stream]]:
        keys = self._selector.get_map().values()
        return [(key.fileobj, key.data) for key in keys if isinstance(key.data, Stream)]

    def _end_all(self) -> None:
        """Kills the instances that are left, and closes their pipes."""
        self._signal_all(signal.SIGKILL)
        for running in self._outcome.instances:
            if running.status is None:
                running.status = running.process.wait()
                self._guard.forget(running.process.pid)
            for pipe in (running.process.stdin, running.process.stdout, running.process.stderr):
                if pipe is not None:
                    pipe.close()


def _is_ignored(number: int) -> bool:
    """Returns whether SIGHUP is ignored, for example by nohup: the terminal's end is irrelevant."""
    return number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN
