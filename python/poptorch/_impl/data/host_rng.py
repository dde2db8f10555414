"""The global random number generators of this process: torch's, Python's and NumPy's.

Their states are plain data, which can be sent to files and processes.
"""

import contextlib
import hashlib
import random
from collections.abc import Iterator
from typing import Any

import torch

numpy: Any
try:
    import numpy
except ImportError:
    numpy = None

State = dict[str, Any]


def current() -> State:
    """Returns the states of all three generators."""
    return {
        "torch": torch.get_rng_state(),
        "python": random.getstate(),
        "numpy": None if numpy is None else _plain(numpy.random.get_state(legacy=False)),
    }


def restore(state: State) -> None:
    """Sets the states of all three generators.

    Raises ValueError, TypeError, RuntimeError or KeyError for an invalid state, and then restores
    the old states.
    """
    before = current()
    try:
        _restore(state)
    except Exception:
        _restore(before)
        raise


def _restore(state: State) -> None:
    torch.set_rng_state(state["torch"])
    random.setstate(state["python"])
    if numpy is not None and state["numpy"] is not None:
        numpy.random.set_state(_arrays(state["numpy"]))


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Restores the states after the body."""
    before = torch.get_rng_state(), random.getstate()
    numpys = None if numpy is None else numpy.random.get_state()
    try:
        yield
    finally:
        torch.set_rng_state(before[0])
        random.setstate(before[1])
        if numpys is not None:
            numpy.random.set_state(numpys)


def seed(*numbers: int) -> None:
    """Seeds all three generators with a hash of the numbers."""
    text = ",".join(str(number) for number in numbers).encode()
    mixed = hashlib.blake2b(text, digest_size=8).digest()
    torch.default_generator.manual_seed(int.from_bytes(mixed, "little"))
    random.seed(mixed)
    if numpy is not None:
        numpy.random.seed(numpy.frombuffer(mixed, dtype=numpy.uint32))


def state_of(generator: Any) -> State | None:
    """Returns the state of a generator object of the three kinds, or None for other objects."""
    if isinstance(generator, torch.Generator):
        return {"torch": generator.get_state()}
    if isinstance(generator, random.Random):
        return {"python": generator.getstate()}
    if numpy is not None and isinstance(generator, numpy.random.Generator):
        return {"numpy": _plain(generator.bit_generator.state)}
    if numpy is not None and isinstance(generator, numpy.random.RandomState):
        return {"numpy": _plain(generator.get_state(legacy=False))}
    return None


def restore_to(generator: Any, state: State) -> None:
    """Sets the state of a generator object to a result of state_of()."""
    if "torch" in state:
        generator.set_state(state["torch"])
    elif "python" in state:
        generator.setstate(state["python"])
    elif isinstance(generator, numpy.random.Generator):
        generator.bit_generator.state = _arrays(state["numpy"])
    else:
        generator.set_state(_arrays(state["numpy"]))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, numpy.ndarray):
        return {"array": value.tolist(), "type": value.dtype.name}
    return value.item() if isinstance(value, numpy.generic) else value


def _arrays(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value.keys() == {"array", "type"}:
        return numpy.array(value["array"], dtype=value["type"])
    return {name: _arrays(part) for name, part in value.items()}
