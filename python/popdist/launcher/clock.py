"""The supervisor's clock."""

import selectors
import time


class Clock:
    """Reads the time and waits for files. Tests replace it by a clock that they set."""

    def now(self) -> float:
        """Returns seconds that never go back."""
        return time.monotonic()

    def wait(
        self, selector: selectors.BaseSelector, seconds: float | None
    ) -> list[tuple[selectors.SelectorKey, int]]:
        """Returns the files that are ready, or none after that many seconds (None: no limit)."""
        return selector.select(seconds)
