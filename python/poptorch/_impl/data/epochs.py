"""A DataLoader's passes over its data (epochs), and the position of one: plain data, from which a
loader that was made alike goes on with the same batches.

A pass that is taken up leaves out what the program has had: of a map-style data set without loading
it, of an iterable one by loading it again.
"""

import contextlib
import copy
import pickle
from collections.abc import Iterator, Sized
from typing import Any, cast

import torch
import torch.utils.data
from poptorch._impl.data import host_rng, worker_exits
from poptorch._impl.data.batch_groups import Groups
from poptorch._impl.data.batch_seeds import IsolatedFetcher, SeededFetcher, SeedsBatches
from poptorch._impl.data.order import Order, Pass
from poptorch._impl.data.shares import ReplicaShare
from poptorch_core import Error, _core

Position = dict[str, Any]


class Passes:
    """Those of one loader.

    order: its index sampler. share: the part of the data set that is this process's, or None.
    rebatched: rows of what the program is given, where these are put together of smaller batches.
    group: batches of a user's sampler in what the program is given; keeps_rest: or fewer, at last.
    own_process: the process does nothing but load.
    rows_to_drop: rows at the beginning of the latest pass that the program has had.
    """

    def __init__(
        self,
        loader: Any,
        share: Any,
        rebatched: int | None,
        mode: str,
        group: int,
        *,
        keeps_rest: bool,
    ) -> None:
        self.share, self.rebatched = share, rebatched
        self.group, self._keeps_rest = group, keeps_rest
        self.dataset, self.batch_size = loader.dataset, loader.batch_size
        self.in_order, self.generator = loader.in_order, loader.generator
        self.iterable = isinstance(loader.dataset, torch.utils.data.IterableDataset)
        self._arguments = {
            "combinedBatchSize": loader.combinedBatchSize,
            "batch_size of the workers": loader.batch_size,
            "drop_last": loader.drop_last,
            "rebatched": rebatched,
            "mode": mode,
            "num_workers": loader.num_workers if self.iterable else min(loader.num_workers, 1),
            "processes": None if share is None else share.processes,
        }
        sampler = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
        self.order = Order(sampler, loader.generator)
        self.own_process = False
        self.rows_to_drop = 0
        self.pending: Position | None = None

    def iterate(self, loader: Any) -> Iterator[Any]:
        """The loader begins a pass, or takes one up."""
        batches = self._batches(loader)
        return batches if self.group == 1 else Groups(batches, self.group, self._keeps_rest)

    def _batches(self, loader: Any) -> Iterator[Any]:
        self.rows_to_drop = 0
        pending, self.pending = self.pending, None
        if pending is not None and pending["pass"] is None:
            self.start_from(pending["next"])
        if pending is None or pending["pass"] is None:
            return self._iterator(loader, self._begin())
        old = Pass(**pending["pass"])
        if self.share is not None:
            self.share.restore(old.share)
            self.share.next_epoch()
        if isinstance(self.share, ReplicaShare):
            old.first = None  # of another number of processes, it was another index
        batches, items, self.rows_to_drop = self._had(pending["taken"])
        self.order.take_up(old, batches, leaves_trace=self.own_process)
        iterator = self._iterator(loader, old)
        for _ in range(items):
            next(iterator, None)
        return iterator

    def _begin(self) -> Pass:
        # In place of the seed that torch draws for its workers.
        seed = torch.empty((), dtype=torch.int64).random_(generator=self.generator)
        share = None
        if self.share is not None:
            share = self.share.state()
            self.share.next_epoch()
        begun = Pass(int(seed), share)
        self.order.begin(begun)
        return begun

    def _had(self, taken: int) -> tuple[int, int, int]:
        """Batches that the order leaves out, items to load for nothing, rows to drop behind."""
        if self.rebatched is None:
            return (0, taken, 0) if self.iterable else (taken * self.group, 0, 0)
        rows = taken * self.rebatched
        if self.iterable:
            return 0, 0, rows
        batches, rows = divmod(rows, self.batch_size)
        return batches, 0, rows

    def _iterator(self, loader: Any, current: Pass) -> Iterator[Any]:
        # A map-style data set that the program itself loads draws from the program's numbers.
        isolated = loader.num_workers == 0 and (self.own_process or self.iterable)
        self.order.numbered = isolated or loader.num_workers > 0
        with _torchs_draws_replaced(loader, current.seed):
            if not isolated:
                return worker_exits.iterate(loader)
            with host_rng.kept():
                SeededFetcher.seed_start(current.seed)
                iterator: Any = worker_exits.iterate(loader)
        name = "_dataset_fetcher"  # torch's
        made = getattr(iterator, name)
        setattr(iterator, name, IsolatedFetcher(SeededFetcher(lambda: made, self.iterable)))
        return iterator

    def position(self, taken: int | None) -> Position:
        """Where it is: behind `taken` items of the current pass, or None: before a new one.

        Raises poptorch.Error for a loader whose position does not say what comes next.
        """
        if not self.in_order:
            raise Error(
                "[data] the position of a loader with in_order=False cannot be saved: its batches "
                "come as they are ready. Leave in_order at True."
            )
        found: Position = {"kind": self.kind(), "taken": taken or 0, "pass": None, "next": None}
        if self.pending is not None:
            return copy.deepcopy(self.pending)
        states = self.order.states()
        if taken is None:
            share = None if self.share is None else self.share.state()
            found["next"] = {**states, "share": share, "random": None}
        else:
            found["pass"] = self.order.started().as_data()
        return found

    def start_from(self, states: dict[str, Any]) -> None:
        """The next pass is a new one that begins with these."""
        self.order.restore(states)
        if self.share is not None:
            self.share.restore(states["share"])
        if states["random"] is not None:
            host_rng.restore(states["random"])

    def kind(self) -> dict[str, Any]:
        """What must be the same of a loader that goes on at a position, by the argument's name."""
        rows = None if self.iterable else len(self.dataset)
        kind = {"rows of the data set": rows, **self._arguments}
        if isinstance(self.share, ReplicaShare):  # it may go on in another number of processes
            kind["rows of the data set"] = self.share.elements
            kind["combinedBatchSize"] = self.share.step_of_all
            kind["batch_size of the workers"] = kind["rebatched"] = None
        return kind

    def check(self, position: Position) -> None:
        """Raises poptorch.Error for what is no position of a loader like this one."""
        try:
            kind, old, taken = position["kind"], position["pass"], position["taken"]
            states = position["next"] if old is None else old
            if not isinstance(taken, int) or taken < 0:
                raise TypeError(taken)
            if not {"samplers", "share", "generator"} <= states.keys():
                raise KeyError(states.keys())
            if states["random"] is not None:
                with host_rng.kept():
                    host_rng.restore(states["random"])
            if old is not None:
                Pass(**old)
        except Exception:
            raise Error(
                "[data] this is no position of a poptorch.DataLoader: take one from its "
                "state_dict()."
            ) from None
        for name, value in self.kind().items():
            if name not in kind or kind[name] != value:
                raise Error(
                    f"[data] the loader's {name} is {value}, but was {kind.get(name)} when the "
                    "position was saved. Make the loader with the same arguments."
                )
        if states["samplers"] is not None:
            self.order.check(states["samplers"])


@contextlib.contextmanager
def _torchs_draws_replaced(loader: Any, seed: int) -> Iterator[None]:
    """Torch draws seeds from a generator that nobody else has; workers take Numbered indices."""
    asked = loader.generator, loader.worker_init_fn
    loader.generator = torch.Generator().manual_seed(seed)
    loader.worker_init_fn = SeedsBatches(asked[1])
    try:
        yield
    finally:
        loader.generator, loader.worker_init_fn = asked


class Steps:
    """What a pass gives the program.

    taken: how many items, with those before the pass was taken up; over: the program has seen the
    end.
    """

    def __init__(self, batches: Iterator[Any], taken: int) -> None:
        self._batches, self.taken = batches, taken
        self.over = False

    def __iter__(self) -> "Steps":
        return self

    def __len__(self) -> int:
        return len(cast(Sized, self._batches))

    def __next__(self) -> Any:
        _core.meet_fault("load", "program")
        try:
            batch = next(self._batches)
        except StopIteration:
            self.over = True
            raise
        self.taken += 1
        return batch


class OwnProcess:
    """What a process that loads ahead goes through: the loader without the process."""

    def __init__(self, loader: Any, passes: Passes) -> None:
        self._loader, self._passes = copy.copy(loader), copy.copy(passes)
        self._passes.own_process = True
        self._seed: int | None = torch.initial_seed()  # as the program's order would depend on it

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        if self._seed is not None:
            host_rng.seed(self._seed)
            self._seed = None
        return self._passes.iterate(self._loader)

    def take_up(self, position: Position) -> None:
        """The next pass goes on there. To be called before the process is started."""
        self._passes.pending = position

    def position(self, running: bool) -> Position:
        """That of the current pass's beginning, or before the next; {"refused": why} without."""
        try:
            found = self._passes.position(0 if running else None)
            if found["next"] is not None:
                found["next"]["random"] = host_rng.current()
            pickle.dumps(found)  # for the way to the program
        except Exception as error:  # also of samplers; only who asks for a position needs it
            return {"refused": error.message if isinstance(error, Error) else str(error)}
        return found

    def rows_to_drop(self) -> int:
        """Of the pass that was just begun: see Passes."""
        return self._passes.rows_to_drop
