"""poptorch.DataLoader: torch's loader, with batches of the rows that a wrapped model takes."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Sized
from typing import Any, ParamSpec, cast

import torch
import torch.utils.data
from poptorch._impl.data.batch_groups import groups_in
from poptorch._impl.data.epochs import OwnProcess, Passes, Steps
from poptorch._impl.data.shares import ContiguousShare, ReplicaShare, Share, micro_batches
from poptorch._impl.data.worker import workers_end_with_this_process
from poptorch._impl.options.stored_values import state_of
from poptorch._logging import logger_of
from poptorch.async_accessor import AsynchronousDataAccessor
from poptorch.enums import DataLoaderMode
from poptorch.options import Options
from poptorch_core import Error

logger = logger_of(__name__)

_BY_REPLICA = "by_replica"
_Arguments = ParamSpec("_Arguments")


def _takes_options(construct: Callable[_Arguments, None]) -> Callable[_Arguments, None]:
    """Names the missing options of `DataLoader(dataset)`, torch's form, before Python counts."""

    @functools.wraps(construct)
    def checked(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> None:
        options = named.get("options", arguments[1] if len(arguments) > 1 else None)
        if not isinstance(options, Options):
            raise Error(
                f"Invalid type: 'options' is of type {type(options)} but must be poptorch.Options: "
                "DataLoader(options, dataset, ...)."
            )
        construct(*arguments, **named)

    return checked


class DataLoader(torch.utils.data.DataLoader):
    """Loads combined batches: the rows that one call of a wrapped model consumes.

    Args:
        options: The options of the model. The loader freezes them.
        dataset: A map-style or iterable data set.
        batch_size: The micro-batch: the rows that the model sees at a time. None: no batching.
        shuffle: As in torch. With several processes it is global and needs `randomSeed`.
        num_workers: As in torch.
        drop_last: Drop rows that do not fill a combined batch (default here: True).
        persistent_workers: As in torch (default here: `num_workers > 0`).
        auto_distributed_partitioning: Give each process its share of the data set. True gives it
            consecutive elements. "by_replica" gives it the rows of its replicas in every step, so
            that values do not depend on the number of processes; shuffling then needs `randomSeed`
            also in one process.
        mode: Sync, Async (a worker process loads ahead) or AsyncRebatched (the workers load small
            batches, which the worker process joins).
        async_options: The arguments of AsynchronousDataAccessor.
        rebatched_worker_size: The batch of AsyncRebatched's workers (default: a combined batch).
        batch_sampler: Yields micro-batches of indices, which may differ in size. They are collated
            one by one, and then joined in groups for one step. drop_last decides whether an
            incomplete last group is dropped.
        kwargs: Further arguments of torch's DataLoader.

    Raises:
        AssertionError: `mode`, `rebatched_worker_size` or `async_options` are invalid,
            `randomSeed` is missing, or the data set cannot be divided among processes.
        ValueError: auto_distributed_partitioning is not True, False or "by_replica".
        poptorch.Error: `options` are not poptorch.Options, or batch_sampler is combined with
            batch_size, shuffle or auto_distributed_partitioning.
    """

    @_takes_options
    def __init__(
        self,
        options: Options,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        num_workers: int = 0,
        drop_last: bool = True,
        persistent_workers: bool | None = None,
        auto_distributed_partitioning: bool | str = True,
        mode: DataLoaderMode = DataLoaderMode.Sync,
        async_options: dict[str, Any] | None = None,
        rebatched_worker_size: int | None = None,
        batch_sampler: Any = None,
        **kwargs: Any,
    ) -> None:
        self._accessor: AsynchronousDataAccessor | None = None
        state_of(options).freeze()
        self._options = options
        if not isinstance(mode, DataLoaderMode):
            raise AssertionError(
                f"[DataLoader] mode must be a member of poptorch.DataLoaderMode, not {mode!r}."
            )
        iterable = isinstance(dataset, torch.utils.data.IterableDataset)
        self._refuse_bad_sampler(batch_sampler, batch_size, shuffle, auto_distributed_partitioning)
        factor = micro_batches(options)
        self._combined = None if batch_size is None else batch_size * factor
        self._shared_out = self._share(
            dataset, batch_size, drop_last, auto_distributed_partitioning
        )
        if self._shared_out is not None:
            if shuffle:
                if not options.exists("random_seed"):
                    raise AssertionError(
                        "A shuffled data set in several processes needs the same seed in each: "
                        "call options.randomSeed(seed)."
                    )
                self._shared_out.shuffle_globally(options.random_seed)
                shuffle = False
            dataset = self._shared_out
        if iterable and num_workers > 1 and kwargs.get("worker_init_fn") is None:
            logger.warning(
                "An IterableDataset with several workers and no worker_init_fn gives every worker "
                "the same items."
            )
        rebatch = batch_sampler is None and (
            mode == DataLoaderMode.AsyncRebatched
            or (mode == DataLoaderMode.Async and not drop_last)
        )
        arguments: dict[str, Any] = {"num_workers": num_workers, **kwargs}
        if batch_sampler is not None:
            arguments["batch_sampler"] = batch_sampler
            self._combined = getattr(batch_sampler, "batch_size", 1) * factor
        else:
            arguments["batch_size"] = self._worker_batch(rebatch, mode, rebatched_worker_size)
            arguments["drop_last"] = drop_last and self._combined is not None and not rebatch
            if not iterable:
                arguments["shuffle"] = shuffle
        if num_workers > 0:
            arguments["persistent_workers"] = (
                True if persistent_workers is None else persistent_workers
            )
        super().__init__(dataset, **arguments)
        self._keeps_partial = not drop_last
        self._rebatched = rebatch
        self._group = 1 if batch_sampler is None else factor
        if batch_sampler is None and not iterable:
            self._rows_left_over(drop_last)
        size = self._combined if rebatch and (self._combined or 1) > 1 else None
        self._passes = Passes(
            self, self._shared_out, size, mode.name, self._group, keeps_rest=not drop_last
        )
        self._steps: weakref.ref[Steps] | None = None
        if mode != DataLoaderMode.Sync:
            self._start_accessor(async_options or {})

    def _shares_out(self, partitioned: bool | str) -> bool:
        """Returns whether each process gets a share. Raises ValueError for an unknown way."""
        if partitioned not in (True, False, _BY_REPLICA):
            raise ValueError(
                f"[data] auto_distributed_partitioning={partitioned!r}: choose True, False or "
                f"{_BY_REPLICA!r}."
            )
        several = self._options.Distributed.numProcesses > 1
        return partitioned == _BY_REPLICA or (several and bool(partitioned))

    def _share(
        self, dataset: Any, batch: int | None, drop_last: bool, partitioned: bool | str
    ) -> Share | None:
        if not self._shares_out(partitioned):
            return None
        if isinstance(dataset, torch.utils.data.IterableDataset):
            raise AssertionError("auto_distributed_partitioning not supported for IterableDataset")
        if batch is None or self._combined is None:
            raise AssertionError(
                "auto_distributed_partitioning needs a batch_size: with None there are no steps to "
                "divide. Set it to False, and load in each process only its share."
            )
        if partitioned == _BY_REPLICA:
            return ReplicaShare(dataset, self._options, batch, drop_last)
        return ContiguousShare(dataset, self._options, self._combined, drop_last)

    def _refuse_bad_sampler(
        self, sampler: Any, batch_size: Any, shuffle: Any, partitioned: bool | str
    ) -> None:
        if sampler is None:
            return
        if batch_size != 1 or shuffle:
            raise Error(
                "`batch_sampler` option is mutually exclusive with batch_size, shuffle. The "
                "sampler decides them."
            )
        if self._shares_out(partitioned):
            raise Error(
                "`batch_sampler` option is mutually exclusive with "
                f"auto_distributed_partitioning={partitioned!r}. Set it to False, and sample in "
                "each process only its share."
            )

    def _worker_batch(self, rebatch: bool, mode: DataLoaderMode, size: int | None) -> int | None:
        if not rebatch or self._combined is None:
            return self._combined
        if mode == DataLoaderMode.Async or size is None:
            return self._combined
        if size > self._combined:
            raise AssertionError(
                f"rebatched_worker_size ({size}) must not be larger than the combined batch size "
                f"({self._combined})"
            )
        return size

    def _rows_left_over(self, drop_last: bool) -> None:
        if self._combined is None:
            return
        if drop_last:
            if self._rows() < self._combined:
                logger.warning(
                    f"The data set has {self._rows()} rows, but a step takes "
                    f"{self._combined}: the loader is empty. Use smaller batches, or "
                    "drop_last=False."
                )
            return
        rest = self._rows() % self._combined
        if rest:
            logger.warning(
                f"The number of elements in the dataset ({self._rows()}) is not divisible by the "
                f"number of elements processed per step ({self._combined}) and drop_last=False. "
                f"The last tensor will have a batch size of {rest}. Use drop_last=True to drop it."
            )

    def _start_accessor(self, options: dict[str, Any]) -> None:
        if "rebatched_size" in options:
            raise AssertionError(
                "rebatched_size is not an option of async_options: it follows from the mode"
            )
        self._accessor = AsynchronousDataAccessor(
            OwnProcess(self, self._passes),
            rebatched_size=self._passes.rebatched,
            _keep_partial=self._keeps_partial,
            **options,
        )

    @property
    def combinedBatchSize(self) -> int | None:
        """The rows of one combined batch, or None without automatic batching.

        With a batch sampler that has no batch_size: the number of batches in a group.
        """
        return self._combined

    @property
    def options(self) -> Any:
        """The options that the loader was given."""
        return self._options

    def terminate(self) -> None:
        """Ends the worker process of the asynchronous modes."""
        if self._accessor is not None:
            self._accessor.terminate()

    def __len__(self) -> int:
        iterable = isinstance(self.dataset, torch.utils.data.IterableDataset)
        if not self._rebatched or iterable or self._combined is None:
            return groups_in(super().__len__(), self._group, self._keeps_partial)
        return groups_in(self._rows(), self._combined, self._keeps_partial)

    def _rows(self) -> int:
        return len(cast(Sized, self.dataset))

    @property
    def _index_sampler(self) -> Any:  # torch reads this property
        return self._passes.order

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # from any process
        if self._accessor is not None:
            return iter(self._accessor)
        pending = self._passes.pending
        with workers_end_with_this_process(self):
            steps = Steps(self._passes.iterate(self), 0 if pending is None else pending["taken"])
        self._steps = weakref.ref(steps)
        return steps

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_steps": None}

    def state_dict(self) -> dict[str, Any]:
        """Returns the position in the data set.

        Returns:
            Plain data: how the current pass over the data began, and how many of its batches the
            program has received. Batches that were loaded ahead do not count.

        Raises:
            poptorch.Error: The position of this loader does not determine the next batches.
        """
        if self._accessor is not None:
            return self._accessor.position()
        steps = None if self._steps is None else self._steps()
        running = steps is not None and not steps.over
        return self._passes.position(steps.taken if steps is not None and running else None)

    def check_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Checks that a position belongs to a loader with these arguments.

        Args:
            state_dict: A position that state_dict() returned.

        Raises:
            poptorch.Error: It is not a position of such a loader.
        """
        self._passes.check(state_dict)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues the next iteration at a position, with the remaining batches of its pass.

        In mode Sync without workers, a map-style data set draws random numbers from the program's
        generators: restore these as well. In the asynchronous modes the worker process is
        restarted.

        Args:
            state_dict: A position that state_dict() returned.

        Raises:
            poptorch.Error: It is not a position of a loader with these arguments.
        """
        self.check_state_dict(state_dict)
        self._steps = None
        if self._accessor is not None:
            self._accessor.restart(state_dict)
        elif state_dict["pass"] is None:
            self._passes.pending = None
            self._passes.start_from(state_dict["next"])
        else:
            self._passes.pending = state_dict
