"""Trace points of a program's own, beside those of PopTorch, in one file for a trace viewer.

With PVTI_OPTIONS='{"enable":"true"}' in the environment, the process writes
`poptorch_<process id>.json` when it ends: the Trace Event format of chrome://tracing and Perfetto,
times in microseconds since the epoch, so that files of several processes line up. "directory" names
another folder than the current one. Without the variable nothing is recorded and nothing slows
down.
"""

import atexit
import contextlib
import functools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from poptorch._impl import environment, own_folders
from poptorch._logging import logger
from poptorch_core import Error


class _Trace:
    """The events of this process, written to a file at its end."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.events: list[dict] = []
        self._process = os.getpid()
        # perf_counter is finer and steady; the epoch is what processes share.
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
        if os.getpid() != self._process:  # a forked child has the parent's events
            return
        path = self.folder / f"poptorch_{self._process}.json"
        own_folders.write_text(path, json.dumps({"traceEvents": self.events}), "profiling")


def _asked_trace() -> _Trace | None:
    text = environment.text("PVTI_OPTIONS")
    if not text:
        return None
    try:
        asked = json.loads(text)
        if not isinstance(asked, dict):
            raise ValueError("it is no object")
    except ValueError as error:
        raise Error(
            f"[profiling] PVTI_OPTIONS={text} is not understood: {error}. "
            'Set it to {"enable":"true"} or unset it.'
        ) from None
    unknown = sorted(asked.keys() - {"enable", "directory"})
    if unknown:
        logger.warning(f"Ignoring unknown PVTI_OPTIONS: {unknown}")
    if str(asked.get("enable", "false")).lower() != "true":
        return None
    return _Trace(asked.get("directory", "."))


_trace = _asked_trace()


class Channel:
    """A named row of trace points."""

    def __init__(self, name: str) -> None:
        self.name = name

    def instrument(self, obj: Any, *methods: str) -> Any:
        """Traces every call of the named methods of an object or class; gives `obj` back.

        Raises poptorch.Error for names that are no methods of it.
        """
        for method in methods:
            function = getattr(obj, method, None)
            if not callable(function):
                raise Error(
                    f"[profiling] {type(obj).__name__} has no method {method!r} to instrument."
                )
            if _trace is not None:
                setattr(obj, method, self._traced(function, method))
        return obj

    def _traced(self, function: Callable, name: str) -> Callable:
        @functools.wraps(function)
        def traced(*args: Any, **kwargs: Any) -> Any:
            with self.tracepoint(name):
                return function(*args, **kwargs)

        return traced

    @contextlib.contextmanager
    def tracepoint(self, name: str) -> Iterator[None]:
        """Traces the body of a `with` statement."""
        if _trace is None:
            yield
            return
        start = time.perf_counter()
        try:
            yield
        finally:
            _trace.add(self.name, name, start, time.perf_counter())
