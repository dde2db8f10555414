"""A stand-in of mpi4py.MPI: the functions that distributed programs call, over popdist."""

import json
from typing import Any

import numpy
import popdist
from popdist import collectives, compat


class _World:
    """All instances of the program."""

    def Get_rank(self) -> int:
        """Returns this instance's number."""
        return popdist.getInstanceIndex()

    def Get_size(self) -> int:
        """Returns the number of instances."""
        return popdist.getNumInstances()

    rank = property(Get_rank)
    size = property(Get_size)

    def Bcast(self, buf: Any, root: int = 0) -> None:
        """Writes the root's values into the array of every instance."""
        array = _array(buf)
        array[...] = collectives.broadcast(array, root)

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """Returns the root's value: numbers, strings, None, lists, tuples and dicts of these.

        The value is sent as JSON, with numpy's numbers as Python's.

        Raises:
            TypeError: The value has another type.
        """
        own = self.Get_rank() == root
        sent = json.dumps(_plain(obj)).encode() if own else b""
        found = collectives.broadcast_bytes(sent, root)
        return obj if own else _restored(json.loads(found))

    def Barrier(self) -> None:
        """Blocks until all instances have called it."""
        popdist.synchronize()

    barrier = Barrier

    def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """Writes the arrays of all instances, in their order, into recvbuf."""
        sent, received = _array(sendbuf), _array(recvbuf)
        if received.size != sent.size * self.Get_size():
            raise ValueError(
                f"Allgather: recvbuf has {received.size} elements, but {self.Get_size()} instances "
                f"send {sent.size} each."
            )
        gathered = collectives.all_gather(sent.reshape(-1))
        received[...] = gathered.reshape(received.shape)

    def __getattr__(self, name: str) -> Any:
        compat.refuse("mpi4py.MPI.COMM_WORLD", name)


def _array(buffer: Any) -> numpy.ndarray:
    found = buffer[0] if isinstance(buffer, (list, tuple)) else buffer
    if not isinstance(found, numpy.ndarray):
        raise TypeError(f"pass a numpy array, not {type(found).__name__}.")
    return found


def _plain(value: Any) -> Any:
    """Returns a value that JSON keeps: tuples and dicts are marked, so that keys keep types."""
    if isinstance(value, numpy.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [_plain(item) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[_plain(key), _plain(item)] for key, item in value.items()]}
    raise TypeError(
        f"bcast of a {type(value).__name__} is not possible. Pass numbers, strings, None, lists, "
        "tuples or dicts; send arrays with Bcast."
    )


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return [_restored(item) for item in value]
    if isinstance(value, dict):
        if "tuple" in value:
            return tuple(_restored(item) for item in value["tuple"])
        return {_restored(key): _restored(item) for key, item in value["dict"]}
    return value


COMM_WORLD = _World()


def __getattr__(name: str) -> Any:
    compat.refuse("mpi4py.MPI", name)
