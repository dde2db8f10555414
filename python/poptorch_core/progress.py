"""Progress bars of long work, one at a time in a process.

Bars of transfers appear only on a terminal or in a notebook, and only if the work takes long.
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

# Transfers show a bar after this time.
DELAY_SECONDS = 1.0

_shown = threading.Lock()  # held while a bar exists


class Bar:
    """A tqdm bar: a line on stderr, or a widget in a notebook. The log ends the line if it writes.

    Shows nothing while another bar exists.

    Args:
        title: The text before the bar.
        total: The amount of work.
        keywords: Further arguments of tqdm.
    """

    def __init__(self, title: str, total: int, **keywords: Any) -> None:
        self._bar: tqdm | None = None
        if _shown.acquire(blocking=False):
            from tqdm import auto  # only at the first bar, as the import is slow

            self._bar = auto.tqdm(total=total, desc=title, file=sys.stderr, leave=True, **keywords)

    def move_to(self, done: int) -> None:
        """Shows that `done` of the total is done."""
        bar = self._bar
        if bar is None:
            return
        bar.n = min(done, bar.total)
        now = time.time()
        if now >= bar.start_t + bar.delay:
            bar.refresh()
            bar.last_print_t = now  # else close() assumes that the bar was never shown
            _core.set_line_open(True)

    def close(self) -> None:
        """Ends the bar's line, if there is one."""
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
    """Shows the bar of a transfer, as a context manager around it.

    Bytes that the native layer moves on this thread are counted automatically. While the bar of
    another transfer or of a compilation is shown, this one shows nothing.

    Args:
        title: The text before the bar.
        total: Returns the bytes of the transfer. It is called only if the bar is shown.
        shown: Whether the user wants bars.

    Yields:
        A function to call with the bytes of each part of the transfer.
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
    """Adds the parts up.

    The caller may be C++ code that an exception must not interrupt. So an exception, such as that
    of a signal handler, is kept until finish().
    """

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
        """Shows that all is done, or raises the exception that was kept."""
        if self._raised is not None:
            raise self._raised
        self.bar.move_to(sys.maxsize)


def _nobody(_more: int) -> None:
    pass


def is_watched() -> bool:
    """Returns whether stderr is a terminal, or the program runs in a notebook."""
    try:
        return sys.stderr.isatty() or _is_notebook()
    except (AttributeError, ValueError):  # stderr is None or closed
        return False


def _is_notebook() -> bool:
    get_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = None if get_shell is None else get_shell()
    return shell is not None and "IPKernelApp" in shell.config
