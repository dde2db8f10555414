"""Writes trace points of the program and of PopTorch into one file for a trace viewer.

With PVTI_OPTIONS='{"enable":"true"}' in the environment, the process writes
`poptorch_<process id>.json` when it ends, in the Trace Event format of chrome://tracing and
Perfetto. Times are in microseconds since the epoch, so that files of several processes line up.
"directory" names a folder other than the current one. Without the variable, nothing is recorded and
nothing takes time.
"""

import atexit
import contextlib
import functools
import inspect
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from poptorch._impl.files import private_folders
from poptorch._logging import logger_of
from poptorch_core import Error, variables

logger = logger_of(__name__)


class _Trace:
    """The events of this process, written to a file at its end."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.events: list[dict] = []
        self._process = os.getpid()
        # perf_counter is finer and monotonic; processes share the epoch.
        self._epoch = time.time() - time.perf_counter()
        atexit.register(self.write)

    def add(self, channel: str, name: str, start: float, end: float) -> None:
        self.events.append(
            {
                "name": name,
                "cat": channel,
                "ph": "X",
                "ts": (self._epoch + start) * 1e6,
                "dur": (end - start) * 1e6,
                "pid": self._process,
                "tid": threading.get_native_id(),
            }
        )

    def write(self) -> None:
        if os.getpid() != self._process:  # a forked child has a copy of the parent's events
            return
        path = self.folder / f"poptorch_{self._process}.json"
        try:
            private_folders.write_text(path, json.dumps({"traceEvents": self.events}), "profiling")
        except Error as error:  # no code can catch it at the end of a process
            logger.error(error.message)


def _asked_trace() -> _Trace | None:
    asked = variables.json_object("PVTI_OPTIONS", {"enable": "true"})
    unknown = sorted(asked.keys() - {"enable", "directory"})
    if unknown:
        logger.warning(f"Ignoring unknown PVTI_OPTIONS: {unknown}")
    if str(asked.get("enable", "false")).lower() != "true":
        return None
    return _Trace(str(asked.get("directory", ".")))


_trace = _asked_trace()


def recorded() -> list[dict]:
    """Returns the events so far, for the trace of a report; empty if PVTI_OPTIONS enables none."""
    return [] if _trace is None else list(_trace.events)


class Channel:
    """A named row of trace points.

    Args:
        name: The category of its events.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def instrument(self, obj: Any, *methods: str) -> Any:
        """Traces every call of the named methods of an object or class.

        Args:
            obj: The object or class.
            methods: The names of methods.

        Returns:
            `obj`.

        Raises:
            poptorch.Error: A name is not that of a method of `obj`.
        """
        for method in methods:
            function = getattr(obj, method, None)
            if not callable(function):
                raise Error(
                    f"[profiling] {type(obj).__name__} has no method {method!r} to instrument."
                )
            if _trace is not None:
                traced = self._traced(function, method)
                # Class and static methods must not receive the object on which they are called.
                bound = isinstance(obj, type) and isinstance(
                    inspect.getattr_static(obj, method), (classmethod, staticmethod)
                )
                setattr(obj, method, staticmethod(traced) if bound else traced)
        return obj

    def _traced(self, function: Callable, name: str) -> Callable:
        @functools.wraps(function)
        def traced(*args: Any, **kwargs: Any) -> Any:
            with self.tracepoint(name):
                return function(*args, **kwargs)

        return traced

    @contextlib.contextmanager
    def tracepoint(self, name: str) -> Iterator[None]:
        """Traces the body of a `with` statement.

        Args:
            name: The name of the event.
        """
        if _trace is None:
            yield
            return
        start = time.perf_counter()
        try:
            yield
        finally:
            _trace.add(self.name, name, start, time.perf_counter())
