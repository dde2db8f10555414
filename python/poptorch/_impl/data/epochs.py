"""A DataLoader's passes over its data (epochs), and their positions.

A position is plain data. A loader with the same arguments continues from it with the same batches.
A resumed pass skips the items that the program has received: it does not load those of a map-style
data set, and loads those of an iterable one again.
"""

import contextlib
import copy
import pickle
import weakref
from collections.abc import Iterator, Sized
from typing import Any, cast

import torch
import torch.utils.data
from poptorch._impl.data import host_rng, sampler_state, worker_exits
from poptorch._impl.data.batch_groups import Groups
from poptorch._impl.data.batch_seeds import IsolatedFetcher, SeededFetcher, SeedsBatches
from poptorch._impl.data.object_digest import digest
from poptorch._impl.data.order import Order, Pass
from poptorch._impl.data.shares import ReplicaShare
from poptorch_core import Error, _core

Position = dict[str, Any]
_WORKERS, _SHUT_DOWN = "_iterator", "_shutdown_workers"  # torch's


def functions_of(loader: Any) -> list[Any]:
    """Returns the functions of a loader that its workers call."""
    return [loader.collate_fn, loader.worker_init_fn]


class Passes:
    """The passes of one loader.

    order: its index sampler.
    share: this process's part of the data set, or None.
    rebatched: the rows of an item of the program, if it is joined from smaller batches; else None.
    group: the batches of a user's sampler in an item of the program.
    keeps_rest: the last item may have fewer of them.
    own_process: the process only loads data.
    rows_to_drop: rows at the beginning of the latest pass that the program has received before.
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
        self._digest: bytes | None = None  # of what the persistent workers have

    def program_data(self) -> Any:
        """Returns the program's data set."""
        return self.dataset if self.share is None else self.share.whole

    def iterate(self, loader: Any) -> Iterator[Any]:
        """Begins a pass, or resumes one."""
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
            old.first = None  # the first index depends on the number of processes
        batches, items, self.rows_to_drop = self._had(pending["taken"])
        self.order.take_up(old, batches, leaves_trace=self.own_process)
        iterator = self._iterator(loader, old)
        for _ in range(items):
            next(iterator, None)
        return iterator

    def _begin(self) -> Pass:
        # Replaces the seed that torch draws for its workers.
        seed = torch.empty((), dtype=torch.int64).random_(generator=self.generator)
        share = None
        if self.share is not None:
            share = self.share.state()
            self.share.next_epoch()
        begun = Pass(int(seed), share)
        self.order.begin(begun)
        return begun

    def _had(self, taken: int) -> tuple[int, int, int]:
        """Returns the batches that the order skips, items to load and skip, and rows to drop."""
        if self.rebatched is None:
            return (0, taken, 0) if self.iterable else (taken * self.group, 0, 0)
        rows = taken * self.rebatched
        if self.iterable:
            return 0, 0, rows
        batches, rows = divmod(rows, self.batch_size)
        return batches, 0, rows

    def _renew_workers(self, loader: Any) -> None:
        """Ends persistent workers whose copy of the data set the program has changed since."""
        if self.own_process or loader.num_workers == 0 or not loader.persistent_workers:
            return
        now = digest(self.program_data(), *functions_of(loader))
        workers = getattr(loader, _WORKERS)
        if workers is not None and now != self._digest:
            getattr(workers, _SHUT_DOWN)()
            setattr(loader, _WORKERS, None)
        self._digest = now

    def _iterator(self, loader: Any, current: Pass) -> Iterator[Any]:
        self._renew_workers(loader)
        # A map-style data set without workers draws from the program's generators.
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
        """Returns the position after `taken` items of the current pass; None: before a new pass.

        Raises poptorch.Error for a loader whose position does not determine the next items.
        """
        if not self.in_order:
            raise Error(
                "[data] the position of a loader with in_order=False cannot be saved: the order of "
                "its batches depends on timing. Leave in_order at True."
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
        """Makes the next pass begin with these states."""
        self.order.restore(states)
        if self.share is not None:
            self.share.restore(states["share"])
        if states["random"] is not None:
            host_rng.restore(states["random"])

    def kind(self) -> dict[str, Any]:
        """Returns the values, by argument, that a loader needs to continue from a position."""
        rows = None if self.iterable else len(self.dataset)
        kind = {"rows of the data set": rows, **self._arguments}
        if isinstance(self.share, ReplicaShare):  # the number of processes may change
            kind["rows of the data set"] = self.share.elements
            kind["combinedBatchSize"] = self.share.step_of_all
            kind["batch_size of the workers"] = kind["rebatched"] = None
        return kind

    def check(self, position: Position) -> None:
        """Raises poptorch.Error unless it is a position of a loader like this one."""
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
                "[data] this is not a position of a poptorch.DataLoader. Pass a result of its "
                "state_dict()."
            ) from None
        for name, value in self.kind().items():
            if name not in kind or kind[name] != value:
                raise Error(
                    f"[data] the loader's {name} is {value}, but was {kind.get(name)} when the "
                    "position was saved. Create the loader with the same arguments."
                )
        if states["samplers"] is not None:
            self.order.check(states["samplers"])


@contextlib.contextmanager
def _torchs_draws_replaced(loader: Any, seed: int) -> Iterator[None]:
    """Makes torch draw seeds from a private generator, and workers accept Numbered indices."""
    asked = loader.generator, loader.worker_init_fn
    loader.generator = torch.Generator().manual_seed(seed)
    loader.worker_init_fn = SeedsBatches(asked[1])
    try:
        yield
    finally:
        loader.generator, loader.worker_init_fn = asked


class Steps:
    """The iterator that the program gets for a pass.

    taken: the number of items so far, with those before the pass was resumed.
    over: the program has reached the end.
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
    """The loader's iteration in a separate process that loads ahead.

    passes: a copy of the loader's. seed: of the process's random numbers, until the first pass.
    """

    def __init__(self, loader: Any, passes: Passes) -> None:
        self._programs: Any = weakref.ref(loader), weakref.ref(passes)
        self._loader, self.passes = copy.copy(loader), copy.copy(passes)
        vars(self._loader)["_accessor"] = None  # it stays in the program
        self.passes.own_process = True
        self.seed: int | None = torch.initial_seed()  # the program's order depends on it

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_programs": None}

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        if self.seed is not None:
            host_rng.seed(self.seed)
            self.seed = None
        return self.passes.iterate(self._loader)

    def take_up(self, position: Position) -> None:
        """Makes the next pass continue from a position. Call it before the process starts."""
        self.passes.pending = position

    def kept(self) -> Any:
        """Returns the data set of the loader, with the process's share."""
        return self.passes.dataset

    def has_share(self) -> bool:
        """Returns whether the process loads a share of the data set."""
        return self.passes.share is not None

    def program_objects(self) -> tuple[list[Any], list[Any], list[Any]]:
        """Returns the program's data set, its functions, and the objects that give the order."""
        passes, loader = self.passes, self._programs[0]()
        functions = functions_of(self._loader if loader is None else loader)
        return [passes.program_data()], functions, [passes.order.sampler, passes.generator]

    def adopt(self, other: "OwnProcess") -> None:
        """Takes the order of another object, for the next pass."""
        self.seed, self.passes.pending = other.seed, other.passes.pending
        self.passes.generator = self._loader.generator = other.passes.generator
        self.passes.order.adopt(other.passes.order)

    def states(self) -> Any:
        """Returns the states of the program's samplers; None if they cannot be saved."""
        try:
            return self.passes.order.states()
        except Exception:  # also of samplers
            return None

    def renewed(self, position: Position | None, before: Any, *, untouched: bool) -> "OwnProcess":
        """Returns a copy with the program's current objects, for the next pass.

        position: the position of the worker. before: the states() that it began with.
        untouched: no item of the worker has arrived, so that the pass begins again.
        """
        loader, passes = (held() for held in self._programs)
        if loader is None or passes is None:  # the program has only the iterator
            loader, passes = self._loader, self.passes
        made = OwnProcess(loader, passes)
        made.passes.pending = None
        if untouched:
            return made
        if position is None or "refused" in position or before is None:
            made.seed = None  # the order continues with the worker's random numbers
            return made
        now = self.states()
        followed = copy.deepcopy(position)
        sampler_state.follow(followed["next"]["samplers"], before["samplers"], now["samplers"])
        if not sampler_state.equal(before["generator"], now["generator"]):
            followed["next"]["generator"] = now["generator"]
        made.take_up(followed)
        return made

    def position(self, running: bool) -> Position:
        """Returns the position at the beginning of the current pass, or before the next one.

        Returns {"refused": why} if the position cannot be saved.
        """
        try:
            found = self.passes.position(0 if running else None)
            if found["next"] is not None:
                found["next"]["random"] = host_rng.current()
            pickle.dumps(found)  # it is sent to the program
        except Exception as error:  # also of samplers; it matters only if a position is needed
            return {"refused": error.message if isinstance(error, Error) else str(error)}
        return found

    def rows_to_drop(self) -> int:
        """Returns Passes.rows_to_drop of the current pass."""
        return self.passes.rows_to_drop
