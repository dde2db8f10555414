"""Reports which worker process of a loader has ended."""

import multiprocessing.connection
import traceback
from collections.abc import Iterator, Sized
from typing import Any, cast

import torch.utils.data

LONGEST_WAIT = 10.0  # seconds until a process whose connections are closed has ended


class FromWorkers:
    """Iterates over a torch DataLoader with workers, and names the worker that ended.

    A killed process closes its connections before it ends. If torch is reading a batch from one, it
    finds all workers alive and reports only a broken connection.
    """

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches

    def __iter__(self) -> "FromWorkers":
        return self

    def __len__(self) -> int:
        return len(cast(Sized, self._batches))

    def __next__(self) -> Any:
        try:
            return next(self._batches)
        except (EOFError, OSError) as error:
            if _is_of_a_connection(error):
                self._raise_if_one_ends(error)
            raise

    def _raise_if_one_ends(self, error: BaseException) -> None:
        workers = {worker.sentinel: worker for worker in getattr(self._batches, WORKERS)}
        # Torch's handler of SIGCHLD may raise its error here, but not after join().
        for ended in multiprocessing.connection.wait(workers, LONGEST_WAIT):
            worker = workers[cast(int, ended)]
            worker.join()
            raise RuntimeError(
                f"DataLoader worker (pid {worker.pid}) exited unexpectedly, with code "
                f"{worker.exitcode}."
            ) from error


WORKERS = "_workers"  # torch's


def _is_of_a_connection(error: BaseException) -> bool:
    """Returns whether it was raised in this process, not by the data set in a worker."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__")).startswith("multiprocessing.")


def iterate(loader: Any) -> Iterator[Any]:
    """Returns an iterator over the batches of torch's DataLoader."""
    batches = torch.utils.data.DataLoader.__iter__(loader)
    return FromWorkers(batches) if loader.num_workers else batches
