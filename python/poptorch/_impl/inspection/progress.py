"""Progress bars: `Graph compilation: 100%|███| 100/100 [00:01<00:00]`, and a model's transfers.

There are none while Options.showCompilationProgressBar is off.
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
    """Called as (steps done, steps in all, phase name), of which it shows the steps.

    A context that ends with the last step, at 100% unless the compilation failed. seconds: from the
    first step to that one. show: what is called with the steps in the place of the bar.
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
            # The last step is __exit__'s: a failed compilation never shows 100%.
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
        elif done == total:  # nobody watches: a log has the finished line
            from tqdm import tqdm  # which takes a while

            line = tqdm.format_meter(done, total, self.seconds, prefix=TITLE, bar_format=LAYOUT)
            with contextlib.suppress(AttributeError, OSError, ValueError):  # there is none
                sys.stderr.write(line + "\n")


def of_bytes(
    title: str, total: Callable[[], int], options: Options | None = None
) -> contextlib.AbstractContextManager[Callable[[int], object]]:
    """As poptorch_core.progress.of_bytes, for a model with these options."""
    shown = options is None or value_of(options, "_show_compilation_progress_bar")
    return progress.of_bytes(title, total, shown)
