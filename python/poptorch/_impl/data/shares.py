"""The share of a data set that one of several processes loads.

Shuffling is global: every process draws the same permutation of the whole data set, so that the
shares of an epoch do not overlap. The permutation is in shared memory, so that persistent workers
see each new one.
"""

from typing import Any

import torch
import torch.utils.data
from poptorch import enums
from poptorch._impl.options import core_table
from poptorch_core import Error


def groups_of_replicas(options: Any) -> int:
    """Returns the number of input groups of one process, L/g."""
    return core_table.execution_of(options).input_groups


def micro_batches(options: Any) -> int:
    """Returns the number of micro-batches of one step of one process, D·A·(L/g)."""
    return core_table.execution_of(options).input_factor


def check_groups_lie_within(options: Any) -> None:
    """Raises poptorch.Error if replicas of different processes belong to one input group."""
    apart = options.input_cgt == enums.CommGroupType.Orthogonal and options.input_group_size > 1
    if options.Distributed.numProcesses > 1 and apart:
        raise Error(
            f"[data] inputReplicaGrouping({options.input_group_size}, CommGroupType.Orthogonal) in "
            f"{options.Distributed.numProcesses} processes: an input group would have replicas in "
            "several processes, so rows cannot be divided by replica. Use "
            "CommGroupType.Consecutive, or pass each process its rows."
        )


class Share(torch.utils.data.Dataset):
    """The elements of one process. Subclasses map an index to a place in the order.

    whole: the data set of all processes.
    processes: the number of processes, or another value that must be equal in a loader that
    continues from a position.
    """

    processes: Any

    def __init__(self, dataset: Any) -> None:
        self.whole = dataset
        self._random: torch.Tensor | None = None  # the state of the generator
        self._epoch = 0
        self._order: torch.Tensor | None = None

    def shuffle_globally(self, seed: int) -> None:
        """Makes every later epoch use a new order."""
        self._random = torch.Generator().manual_seed(seed).get_state()
        self._order = torch.arange(len(self.whole)).share_memory_()

    def next_epoch(self) -> None:
        """Draws the order of the next epoch."""
        if self._order is None or self._random is None:
            return
        generator = torch.Generator()
        generator.set_state(self._random)
        order = torch.randperm(len(self.whole), generator=generator)
        self._random = generator.get_state()
        self._order.copy_(self._turned(order))
        self._epoch += 1

    def _turned(self, order: torch.Tensor) -> torch.Tensor:
        return order

    def state(self) -> dict[str, Any]:
        """Returns the state that the next epoch depends on."""
        return {"random": self._random, "epoch": self._epoch}

    def restore(self, state: dict[str, Any]) -> None:
        """Restores a result of state(), for the next epoch."""
        self._random, self._epoch = state["random"], state["epoch"]

    def _position(self, index: int) -> int:
        raise NotImplementedError

    def __getitem__(self, index: int) -> Any:
        position = self._position(index)
        return self.whole[position if self._order is None else int(self._order[position])]


class ContiguousShare(Share):
    """A contiguous range of the order.

    step: the rows of a step of one process. drop_last: every process has the same whole number of
    steps; else all elements are divided, and the first processes may have one more. Shuffled epochs
    alternately skip the remainder of the division at the beginning and at the end.
    Raises poptorch.Error if a process would have no step.
    """

    def __init__(self, dataset: Any, options: Any, step: int, drop_last: bool) -> None:
        super().__init__(dataset)
        index = options.Distributed.processId
        count = self.processes = options.Distributed.numProcesses
        total = len(dataset)
        each, more = divmod(total, count)
        if drop_last:
            each, more = total // (step * count) * step, 0
        if each == 0:
            raise Error(
                f"[data] {total} elements are too few for {count} processes with {step} elements "
                f"a step. Use at least {step * count if drop_last else count} elements, or smaller "
                "batches."
            )
        self._length = each + (index < more)
        self._start = index * each + min(index, more)
        self._left_over = total % each if drop_last else 0

    def _turned(self, order: torch.Tensor) -> torch.Tensor:
        return order if self._epoch % 2 else order.roll(-self._left_over)

    def __len__(self) -> int:
        return self._length

    def _position(self, index: int) -> int:
        return self._start + index


class ReplicaShare(Share):
    """The rows of this process's replicas in every step of all processes.

    Each replica gets the rows that it would get if one process ran all replicas.
    batch: the rows of a micro-batch. drop_last: if False, the data must fill the last step.
    Raises poptorch.Error if the data do not fill the last step or make no step at all, or if
    check_groups_lie_within() refuses the groups.
    """

    def __init__(self, dataset: Any, options: Any, batch: int, drop_last: bool) -> None:
        super().__init__(dataset)
        check_groups_lie_within(options)
        self.processes = "by_replica"
        self._index, self._count = options.Distributed.processId, options.Distributed.numProcesses
        self._block = batch * groups_of_replicas(options)
        self._step = batch * micro_batches(options)
        total, everybody = len(dataset), self._step * self._count
        steps, rest = divmod(total, everybody)
        if steps == 0 or (rest and not drop_last):
            raise Error(
                f"[data] auto_distributed_partitioning='by_replica': {total} elements are "
                f"{'fewer than' if steps == 0 else 'not a multiple of'} the {everybody} of a step "
                f"of all {self._count} processes. Use "
                f"{'smaller batches' if steps == 0 else 'drop_last=True'} or another number of "
                "elements."
            )
        self.step_of_all, self.elements = everybody, total
        self._length = steps * self._step

    def __len__(self) -> int:
        return self._length

    def _position(self, index: int) -> int:
        block, row = divmod(index, self._block)
        return (block * self._count + self._index) * self._block + row


def replica_rows(rows: int, options: Any, process: int, count: int) -> torch.Tensor:
    """Returns the indices of the rows of a global batch that belong to a process's replicas.

    rows: the rows of a step of all `count` processes, in blocks of at least one row for each input
    group. Raises poptorch.Error if the number cannot be divided, or by check_groups_lie_within().
    """
    check_groups_lie_within(options)
    parts = micro_batches(options) * count
    if rows == 0 or rows % parts:
        raise Error(
            f"[data] a batch of {rows} rows cannot be shared by {count} processes: a step has "
            f"{parts} micro-batches (device iterations, accumulation and replicas of all). Pass a "
            "multiple of these."
        )
    block = rows // parts * groups_of_replicas(options)
    return torch.arange(rows).reshape(-1, count, block)[:, process].reshape(-1)
