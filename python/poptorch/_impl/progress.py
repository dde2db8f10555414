"""The progress bar of compilation: `Graph compilation: 100%|███| 100/100 [00:01<00:00]`."""

import sys
import time
from collections.abc import Callable

from poptorch_core import _core
from tqdm import tqdm

TITLE = "Graph compilation"
STEPS = 100


class Progress:
    """Called as (steps done, steps in all, phase name), of which it shows the steps.

    A context that ends with the last step, at 100% unless the compilation failed. seconds: from the
    first step to that one. show: what is called with the steps in the place of the bar.
    """

    def __init__(self, shown: bool, show: Callable[[int, int], object] | None = None) -> None:
        self.seconds = 0.0
        self._began: float | None = None
        self._bar: tqdm | None = None
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
            _core.set_line_open(False)

    def _draw(self, done: int, total: int) -> None:
        if self._bar is None:
            self._bar = tqdm(
                total=total,
                desc=TITLE,
                file=sys.stderr,
                bar_format="{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}]",
                leave=True,
            )
        self._bar.n = done
        self._bar.refresh()
        _core.set_line_open(True)
