"""Random numbers of batches: each batch draws from streams that are seeded for it.

So a batch does not depend on the worker that loads it, or on whether earlier batches were loaded.
Every worker iterates an iterable data set separately, so such a batch depends on the worker, too.
"""

from collections.abc import Callable
from typing import Any

from poptorch._impl.data import host_rng
from poptorch._impl.data.order import Numbered
from poptorch_core import _core
from torch.utils.data import _DatasetKind, get_worker_info

_BEFORE = -1  # the number for draws before the first batch


class SeededFetcher:
    """Fetches the batch of a Numbered; creates the underlying fetcher at the first call."""

    def __init__(self, make: Callable[[], Any], by_worker: bool) -> None:
        self._make, self._by_worker = make, by_worker
        self._fetcher: Any = None
        self._count = 0

    def fetch(self, asked: Numbered) -> Any:
        """Returns a batch."""
        info = get_worker_info()
        if info is not None:
            _core.meet_fault("load", "worker", info.id)
        worker = info.id if self._by_worker and info is not None else 0
        if self._fetcher is None:
            if isinstance(asked, Numbered):
                self.seed_start(asked.seed, worker)
            self._fetcher = self._make()
        if not isinstance(asked, Numbered):  # from a loader that a data set uses in a worker
            return self._fetcher.fetch(asked)
        host_rng.seed(asked.seed, worker, self._count if self._by_worker else asked.number)
        self._count += 1
        return self._fetcher.fetch(asked.index)

    @staticmethod
    def seed_start(seed: int, worker: int = 0) -> None:
        """Seeds the draws at the start of the data set's iteration."""
        host_rng.seed(seed, worker, _BEFORE)


class IsolatedFetcher:
    """A SeededFetcher that restores the random state of its process."""

    def __init__(self, fetcher: SeededFetcher) -> None:
        self._fetcher = fetcher

    def fetch(self, asked: Numbered) -> Any:
        """Returns a batch."""
        with host_rng.kept():
            return self._fetcher.fetch(asked)


class SeedsBatches:
    """A worker_init_fn that makes the worker accept `Numbered` indices."""

    def __init__(self, then: Callable[[int], Any] | None) -> None:
        self._then = then

    def __call__(self, worker: int) -> None:
        plain = _DatasetKind.create_fetcher

        def seeded(kind: Any, *arguments: Any) -> SeededFetcher:
            return SeededFetcher(
                lambda: plain(kind, *arguments), by_worker=kind == _DatasetKind.Iterable
            )

        setattr(_DatasetKind, "create_fetcher", staticmethod(seeded))  # noqa: B010
        if self._then is not None:
            self._then(worker)
