"""Progress bars: `Graph compilation: 100%|███| 100/100 [00:01<00:00]`, and a model's transfers.

Options.showCompilationProgressBar(False) disables them.
"""

import contextlib
import sys
import time
from collections.abc import Callable

from poptorch._impl.options.group_class import value_of
from poptorch.options import Options
from poptorch_core import progress

TITLE = "Graph compilation"
STEPS = 100
LAYOUT = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}]"


class Progress:
    """Shows the progress of a compilation; the compiler calls it with (steps done, all, phase).

    Use it as a context manager: the end of the body shows 100% unless the compilation failed.
    seconds: the time from the first step to the end of the body.
    show: a function that gets (steps done, all) instead of the bar.
    """

    def __init__(self, shown: bool, show: Callable[[int, int], object] | None = None) -> None:
        self.seconds = 0.0
        self._began: float | None = None
        self._bar: progress.Bar | None = None
        self._show = (show or self._draw) if shown else None

    def __call__(self, done: int, total: int, _phase: str) -> None:
        if self._began is None:
            self._began = time.perf_counter()
        if self._show is not None:
            # Only __exit__ shows the last step: a failed compilation never shows 100%.
            self._show(min(STEPS - 1, STEPS * done // max(total, 1)), STEPS)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, failure: object, *_: object) -> None:
        if self._began is not None:
            self.seconds = time.perf_counter() - self._began
        if self._show is not None and failure is None:
            self._show(STEPS, STEPS)
        if self._bar is not None:
            self._bar.close()

    def _draw(self, done: int, total: int) -> None:
        if self._bar is not None:
            self._bar.move_to(done)
        elif progress.is_watched():
            self._bar = progress.Bar(TITLE, total, bar_format=LAYOUT)
            self._bar.move_to(done)
        elif done == total:  # not a terminal: write only the final line, for logs
            from tqdm import tqdm  # a slow import

            line = tqdm.format_meter(done, total, self.seconds, prefix=TITLE, bar_format=LAYOUT)
            with contextlib.suppress(AttributeError, OSError, ValueError):  # stderr is closed
                sys.stderr.write(line + "\n")


def of_bytes(
    title: str, total: Callable[[], int], options: Options | None = None
) -> contextlib.AbstractContextManager[Callable[[int], object]]:
    """Like poptorch_core.progress.of_bytes, but respects the options of a model."""
    shown = options is None or value_of(options, "_show_compilation_progress_bar")
    return progress.of_bytes(title, total, shown)
