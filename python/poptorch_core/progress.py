"""Progress bars of long work: one at a time in a process.

Bars of transfers appear on a terminal or in a notebook only, and only when the work takes long.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from poptorch_core import _core

if TYPE_CHECKING:
    from tqdm.auto import tqdm

# Of transfers: how long they last before they are worth a line.
DELAY_SECONDS = 1.0

_shown = threading.Lock()  # held while there is a bar


class Bar:
    """A bar of tqdm: a line on stderr, which the log ends before it writes, or a notebook's widget.

    Shows nothing while there is another bar. keywords: those of tqdm.
    """

    def __init__(self, title: str, total: int, **keywords: Any) -> None:
        self._bar: tqdm | None = None
        if _shown.acquire(blocking=False):
            from tqdm import auto  # at the first bar: it takes a while

            self._bar = auto.tqdm(total=total, desc=title, file=sys.stderr, leave=True, **keywords)

    def move_to(self, done: int) -> None:
        """Shows that so much of the total is done."""
        bar = self._bar
        if bar is None:
            return
        bar.n = min(done, bar.total)
        now = time.time()
        if now >= bar.start_t + bar.delay:
            bar.refresh()
            bar.last_print_t = now  # or close() takes it for one that was never seen
            _core.set_line_open(True)

    def close(self) -> None:
        """Ends the line, if there is one."""
        bar, self._bar = self._bar, None
        if bar is None:
            return
        try:
            bar.close()
            _core.set_line_open(False)
        finally:
            _shown.release()


@contextlib.contextmanager
def of_bytes(
    title: str, total: Callable[[], int], shown: bool = True
) -> Iterator[Callable[[int], object]]:
    """The bar of a transfer, around it; gives what is called with the bytes of each part of it.

    What the native layer moves on this thread is counted without that. Within the bar of another
    transfer, or of a compilation, this one counts for that.

    total: the bytes in all, asked for when somebody looks. shown: whether the user wants bars.
    """
    if not shown or _shown.locked() or not is_watched():
        yield _nobody
        return
    count = _Count(Bar(title, max(total(), 1), unit="B", unit_scale=True, unit_divisor=1024,
                       delay=DELAY_SECONDS))  # fmt: skip
    _core.tell_moved_bytes(count)
    try:
        yield count
        count.finish()
    finally:
        _core.tell_moved_bytes(None)
        count.bar.close()


class _Count:
    """Adds parts up. What it is called from may be C++ that no exception should cut short: one of
    a signal's handler waits until the work is done."""

    def __init__(self, bar: Bar) -> None:
        self.bar, self._done = bar, 0
        self._raised: BaseException | None = None

    def __call__(self, more: int) -> None:
        try:
            self._done += more
            self.bar.move_to(self._done)
        except BaseException as error:
            self._raised = self._raised or error

    def finish(self) -> None:
        """All is done, whatever was counted."""
        if self._raised is not None:
            raise self._raised
        self.bar.move_to(sys.maxsize)


def _nobody(_more: int) -> None:
    pass


def is_watched() -> bool:
    """Whether stderr is a terminal, or the program runs in a notebook."""
    try:
        return sys.stderr.isatty() or _is_notebook()
    except (AttributeError, ValueError):  # there is no stderr, or it is closed
        return False


def _is_notebook() -> bool:
    get_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = None if get_shell is None else get_shell()
    return shell is not None and "IPKernelApp" in shell.config
