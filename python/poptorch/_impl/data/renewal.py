"""Notices changes of a data set that a worker process has copied, and sends them to it."""

import io
import pickle
from typing import Any, NamedTuple

from poptorch._impl.data.epochs import OwnProcess, Position
from poptorch._impl.data.object_digest import digest

_KEPT = "kept"  # stands for the data set that the worker has already


class Successor(NamedTuple):
    """A data set with the current objects of the program.

    keeps_data: the loader's data set has not changed. keeps_workers: nor have its functions.
    """

    dataset: Any
    keeps_data: bool
    keeps_workers: bool


class Program:
    """The objects of the program that a worker has copied."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.note()

    def note(self) -> None:
        """Records that the worker has the current objects."""
        self._digests = self._current()
        self._states = self._dataset.states() if isinstance(self._dataset, OwnProcess) else None

    def has_changed(self) -> bool:
        """Returns whether the program has changed an object since note()."""
        return self._current() != self._digests

    def _current(self) -> list[bytes]:
        """Returns the digests of the data set, its functions and the order."""
        if not isinstance(self._dataset, OwnProcess):
            return [digest(self._dataset)]
        return [digest(*objects) for objects in self._dataset.program_objects()]

    def successor(self, position: Position | None, *, untouched: bool) -> Successor:
        """Returns the data set with the current objects.

        position: where the worker is, at the beginning of a pass.
        untouched: the program has not received an item since the start of the worker.
        """
        if not isinstance(self._dataset, OwnProcess):
            return Successor(self._dataset, False, False)
        same = [now == former for now, former in zip(self._current(), self._digests, strict=True)]
        self._dataset = self._dataset.renewed(position, self._states, untouched=untouched)
        return Successor(self._dataset, same[0], same[0] and same[1])


class _Pickler(pickle.Pickler):
    def __init__(self, file: Any, kept: Any) -> None:
        super().__init__(file)
        self._kept = kept

    def persistent_id(self, value: Any) -> Any:  # pickle calls this method
        return _KEPT if self._kept is not None and value is self._kept else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, kept: Any) -> None:
        super().__init__(file)
        self._kept = kept

    def persistent_load(self, pid: Any) -> Any:  # pickle calls this method
        return self._kept


def dumps(successor: Successor) -> bytes:
    """Pickles a data set by value. Raises any exception if this is impossible."""
    dataset = successor.dataset
    kept = dataset.kept() if successor.keeps_data else None
    if kept is None and isinstance(dataset, OwnProcess) and dataset.has_share():
        raise TypeError("the order of a share is in shared memory")
    file = io.BytesIO()
    _Pickler(file, kept).dump(tuple(successor))
    return file.getvalue()


def loads(data: bytes, former: Any) -> Any:
    """Returns the data set of a result of dumps() in the worker, which had the data set `former`.

    If nothing but the order has changed, the worker processes of a loader stay.
    """
    kept = former.kept() if isinstance(former, OwnProcess) else None
    successor = Successor(*_Unpickler(io.BytesIO(data), kept).load())
    if successor.keeps_workers:
        former.adopt(successor.dataset)
        return former
    return successor.dataset
