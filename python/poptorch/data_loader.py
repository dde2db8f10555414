"""poptorch.DataLoader: torch's, with the batch size that one step of a wrapped model takes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized
from typing import Any, cast

import torch
import torch.utils.data
from poptorch._impl.option_group import state_of
from poptorch._logging import logger
from poptorch.async_accessor import AsynchronousDataAccessor, workers_end_with_this_process
from poptorch.enums import DataLoaderMode
from poptorch.options import Options
from poptorch_core import Error


def _micro_batches(options: Any) -> int:
    """Micro-batches of one step: D·A·(R/g)."""
    return (
        options.device_iterations
        * options.Training.gradient_accumulation
        * (options.replication_factor // options.input_group_size)
    )


class _SubDataset(torch.utils.data.Dataset):
    """This process's contiguous share of a data set, of equal length in every process.

    Shuffling is global: every process draws the same permutation of the whole, so that the shares
    of an epoch do not overlap. Epochs take the first and the last items of it by turns, where the
    division leaves some over. The permutation lies in shared memory: workers that live from epoch
    to epoch see the new one.
    """

    def __init__(self, dataset: Any, options: Any, step: int, drop_last: bool) -> None:
        self._dataset = dataset
        self._index = options.Distributed.processId
        self._count = options.Distributed.numProcesses
        self._random: torch.Tensor | None = None  # the state of the generator
        self._epoch = 0
        total = len(dataset)
        if drop_last:
            self._length = total // (step * self._count) * step
        else:
            self._length = math.ceil(total / self._count)
        self._order: torch.Tensor | None = None

    def shuffle_globally(self, seed: int) -> None:
        self._random = torch.Generator().manual_seed(seed).get_state()
        self._order = torch.arange(len(self._dataset)).share_memory_()

    def next_epoch(self) -> None:
        if self._order is None or self._random is None:
            return
        generator = torch.Generator()
        generator.set_state(self._random)
        order = torch.randperm(len(self._dataset), generator=generator)
        self._random = generator.get_state()
        left_over = max(len(order) - self._length * self._count, 0)
        self._order.copy_(order.roll(-left_over) if self._epoch % 2 else order)
        self._epoch += 1

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Any:
        position = (self._index * self._length + index) % len(self._dataset)
        return self._dataset[position if self._order is None else int(self._order[position])]


class _CombinedBatches(torch.utils.data.Sampler):
    """Puts the batches of a user's batch sampler together in groups of one step each."""

    def __init__(self, batches: Any, group: int, drop_last: bool) -> None:
        self._batches, self._group, self._drop_last = batches, group, drop_last

    def __len__(self) -> int:
        whole, rest = divmod(len(self._batches), self._group)
        return whole + (1 if rest and not self._drop_last else 0)

    def __iter__(self) -> Iterator[list[int]]:
        combined: list[int] = []
        count = 0
        for batch in self._batches:
            combined.extend(batch)
            count += 1
            if count == self._group:
                yield combined
                combined, count = [], 0
        if combined and not self._drop_last:
            yield combined


class DataLoader(torch.utils.data.DataLoader):
    """Loads combined batches: the rows that one call of a wrapped model consumes.

    Args:
        options: the options of the model; frozen by this.
        dataset: map-style or iterable.
        batch_size: the micro-batch: rows that the model sees at a time. None: no batching.
        shuffle: as in torch; in several processes it is global and needs `randomSeed`.
        num_workers: as in torch.
        drop_last: drop rows that do not fill a combined batch (default here: True).
        persistent_workers: defaults to `num_workers > 0`.
        auto_distributed_partitioning: give each process its share of the data set.
        mode: Sync, Async (a worker process loads ahead) or AsyncRebatched (its workers load
            small batches that are put together there).
        async_options: arguments of AsynchronousDataAccessor.
        rebatched_worker_size: batch of AsyncRebatched's workers (default 1).
        batch_sampler: yields micro-batches of indices.
        kwargs: passed to torch's DataLoader.
    """

    def __init__(
        self,
        options: Options,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        num_workers: int = 0,
        drop_last: bool = True,
        persistent_workers: bool | None = None,
        auto_distributed_partitioning: bool = True,
        mode: DataLoaderMode = DataLoaderMode.Sync,
        async_options: dict[str, Any] | None = None,
        rebatched_worker_size: int | None = None,
        batch_sampler: Any = None,
        **kwargs: Any,
    ) -> None:
        self._accessor: AsynchronousDataAccessor | None = None
        if not isinstance(options, Options):
            raise Error(
                f"Invalid type: 'options' is of type {type(options)} but must be poptorch.Options: "
                "DataLoader(options, dataset, ...)."
            )
        state_of(options).freeze()
        self._options = options
        assert isinstance(mode, DataLoaderMode), (
            f"[DataLoader] mode is a member of poptorch.DataLoaderMode, not {mode!r}."
        )
        processes = options.Distributed.numProcesses
        iterable = isinstance(dataset, torch.utils.data.IterableDataset)
        self._refuse_bad_sampler(batch_sampler, batch_size, shuffle, processes,
                                 auto_distributed_partitioning)  # fmt: skip
        factor = _micro_batches(options)
        self._combined = None if batch_size is None else batch_size * factor
        self._shared_out = None
        if processes > 1 and auto_distributed_partitioning:
            assert not iterable, "auto_distributed_partitioning not supported for IterableDataset"
            self._shared_out = _SubDataset(dataset, options, self._combined or 1, drop_last)
            if shuffle:
                assert options.random_seed is not None, (
                    "A shuffled data set in several processes needs the same seed in each: call "
                    "options.randomSeed(seed)."
                )
                self._shared_out.shuffle_globally(options.random_seed)
                shuffle = False
            dataset = self._shared_out
        if iterable and num_workers > 1 and kwargs.get("worker_init_fn") is None:
            logger.warning(
                "An IterableDataset with several workers and no worker_init_fn gives every worker "
                "the same items."
            )
        rebatch = mode == DataLoaderMode.AsyncRebatched or (
            mode == DataLoaderMode.Async and not drop_last
        )
        arguments: dict[str, Any] = {"num_workers": num_workers, **kwargs}
        if batch_sampler is not None:
            arguments["batch_sampler"] = _CombinedBatches(batch_sampler, factor, drop_last)
            self._combined = None
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
        self._rows_left_over(drop_last, iterable)
        if mode != DataLoaderMode.Sync:
            self._start_accessor(async_options or {})

    def _refuse_bad_sampler(self, sampler: Any, batch_size: Any, shuffle: Any, processes: int,
                            partitioned: bool) -> None:  # fmt: skip
        if sampler is None:
            return
        if batch_size != 1 or shuffle:
            raise Error(
                "`batch_sampler` option is mutually exclusive with `batch_size`, `shuffle` and "
                "`drop_last`: the sampler decides them."
            )
        if processes > 1 and partitioned:
            raise Error(
                "`batch_sampler` option is mutually exclusive with automatic partitioning over "
                "processes: set auto_distributed_partitioning=False."
            )

    def _worker_batch(self, rebatch: bool, mode: DataLoaderMode, size: int | None) -> int | None:
        if not rebatch or self._combined is None:
            return self._combined
        if mode == DataLoaderMode.Async:
            return self._combined
        size = 1 if size is None else size
        assert size <= self._combined, (
            f"rebatched_worker_size ({size}) must not be larger than the combined batch size "
            f"({self._combined})"
        )
        return size

    def _rows_left_over(self, drop_last: bool, iterable: bool) -> None:
        if iterable or self._combined is None:
            return
        if drop_last:
            if self._rows() < self._combined:
                logger.warning(
                    f"The data set has {self._rows()} rows, but a step takes "
                    f"{self._combined}: there is no batch. Use smaller batches or drop_last=False."
                )
            return
        rest = self._rows() % self._combined
        if rest:
            logger.warning(
                "The number of elements in the dataset is not divisible by the number of elements "
                f"processed per step: the last tensor will have a batch size of {rest}. Use "
                "drop_last=True to drop it."
            )

    def _start_accessor(self, options: dict[str, Any]) -> None:
        assert "rebatched_size" not in options, (
            "rebatched_size is not an option of async_options: it follows from the mode"
        )
        size = self._combined if self._rebatched and (self._combined or 1) > 1 else None
        self._accessor = AsynchronousDataAccessor(
            _Plain(self), rebatched_size=size, _keep_partial=self._keeps_partial, **options
        )

    @property
    def combinedBatchSize(self) -> int | None:
        """Rows of one combined batch, or None without automatic batching."""
        return self._combined

    @property
    def options(self) -> Any:
        """The options that the loader was made for."""
        return self._options

    def terminate(self) -> None:
        """Ends the worker process of the asynchronous modes."""
        if self._accessor is not None:
            self._accessor.terminate()

    def __len__(self) -> int:
        iterable = isinstance(self.dataset, torch.utils.data.IterableDataset)
        if not self._rebatched or iterable or self._combined is None:
            return super().__len__()
        whole, rest = divmod(self._rows(), self._combined)
        return whole + (1 if rest and self._keeps_partial else 0)

    def _rows(self) -> int:
        return len(cast(Sized, self.dataset))

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # also of another process
        if self._accessor is not None:
            return iter(self._accessor)
        return self._plain_iterator()

    def _plain_iterator(self) -> Iterator[Any]:
        if self._shared_out is not None:
            self._shared_out.next_epoch()
        with workers_end_with_this_process(self):
            return super().__iter__()


class _Plain:
    """The loader as its own worker process sees it: without the accessor around it."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        return self._loader._plain_iterator()
