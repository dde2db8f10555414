"""The progress bar of compilation: `Graph compilation: 100%|███| 100/100 [00:01<00:00]`."""

import sys

from tqdm import tqdm

TITLE = "Graph compilation"
STEPS = 100


class Progress:
    """Called as (steps done, steps in all, phase name); shows the phase while it runs."""

    def __init__(self, shown: bool) -> None:
        self._bar = None
        if shown:
            self._bar = tqdm(
                total=STEPS,
                desc=TITLE,
                file=sys.stderr,
                bar_format="{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}]",
                leave=True,
            )

    def __call__(self, done: int, total: int, phase: str) -> None:
        if self._bar is None:
            return
        self._bar.set_description(f"{TITLE} ({phase})", refresh=False)
        # The last step is close()'s: a failed compilation never shows 100%.
        self._bar.n = min(STEPS - 1, STEPS * done // max(total, 1))
        self._bar.refresh()

    def close(self, finished: bool) -> None:
        """Ends the bar: at 100% when the compilation was finished."""
        if self._bar is None:
            return
        self._bar.set_description(TITLE, refresh=False)
        if finished:
            self._bar.n = STEPS
        self._bar.refresh()
        self._bar.close()
