"""The parts of a checkpoint: read from a program, checked against another one, and loaded into it.

A check changes nothing. Data that pass it can be loaded.
"""

import collections
import copy
import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from poptorch._impl.data import host_rng
from poptorch._impl.files.checkpoint_file import plain
from poptorch._impl.optimisers.device_state import Record
from poptorch._impl.optimisers.state_names import SCALE_FACTOR
from poptorch._impl.wrapper import model_classes
from poptorch._impl.wrapper.executor import PoplarExecutor
from poptorch._impl.wrapper.state import wrapper_state
from poptorch.data_loader import DataLoader
from poptorch_core import Error

Data = dict[str, Any]


class Model:
    """A model, with its wrapper if it was passed as one or a training wrapper holds it."""

    def __init__(self, given: Any) -> None:
        is_wrapper = isinstance(given, PoplarExecutor)
        module = wrapper_state(given).wrapped.user_model if is_wrapper else given
        if not isinstance(module, torch.nn.Module):
            raise Error(
                f"[checkpoint] the model is a {type(module).__name__}, which has no state. Pass a "
                "torch.nn.Module, or a wrapper of one."
            )
        self.module = module
        self.wrapper = given if is_wrapper else model_classes.wrapper_of(module)

    def data(self) -> Data:
        """Returns weights and buffers, and the state of the device's random numbers."""
        state = self.module.state_dict()
        wrapper, random = self.wrapper, None
        if wrapper is not None:
            try:
                random = wrapper.rng_state
            except Error:
                pass  # not compiled and not set: random numbers start from the seed
        return {
            "state": plain(dict(state), "the model's state_dict()"),
            "metadata": plain(getattr(state, "_metadata", None), "the model's metadata"),
            "random": random,
        }

    def check(self, data: Data) -> None:
        """Checks names, shapes and dtypes of all tensors."""
        theirs, ours = data["state"], self.module.state_dict()
        for name in theirs:
            if name not in ours:
                raise Error(
                    f"[checkpoint] the checkpoint has {name!r}, which the model does not have. "
                    f"{_nearest(name, ours)}Build the model as it was saved."
                )
        for name, tensor in ours.items():
            if name not in theirs:
                raise Error(
                    f"[checkpoint] the model has {name!r}, which the checkpoint does not have. "
                    f"{_nearest(name, theirs)}Build the model as it was saved."
                )
            got, expected = _described(theirs[name]), _described(tensor)
            if got != expected:
                raise Error(
                    f"[checkpoint] {name!r} is {expected} in the model and {got} in the "
                    "checkpoint. Build the model as it was saved."
                )

    def give(self, data: Data) -> None:
        """Loads the data into the model, and at once onto the device of a compiled wrapper."""
        state = data["state"]
        if data["metadata"] is not None:
            state = collections.OrderedDict(state)
            vars(state)["_metadata"] = data["metadata"]  # like torch's state_dict()
        wrapper = self.wrapper
        if wrapper is None:
            self.module.load_state_dict(state)
            return
        wrapper.load_state_dict(state)
        if data["random"] is not None:
            wrapper.rng_state = data["random"]


class Optimizer:
    """An optimiser, with its state on the device."""

    def __init__(self, given: Any) -> None:
        if not isinstance(given, torch.optim.Optimizer):
            raise Error(
                f"[checkpoint] the optimizer is a {type(given).__name__}. Pass the optimizer of "
                "torch.optim or poptorch.optim that trains the model."
            )
        self._optimizer = given
        self._before: Data | None = None

    def data(self) -> Data:
        """Returns the state_dict, and the state that only the device has."""
        state = self._optimizer.state_dict()
        held = Record.of(self._optimizer).state or {}
        device = {name: held[name] for name in (SCALE_FACTOR,) if name in held}
        return {
            **self._kind(),
            "state": plain(state, "the optimizer's state_dict()"),
            "device": plain(device, "the optimizer's state"),
        }

    def _kind(self) -> Data:
        made = type(self._optimizer)
        groups = self._optimizer.param_groups
        shapes = [[list(tensor.shape) for tensor in group["params"]] for group in groups]
        return {"class": f"{made.__module__.split('.')[0]}.{made.__name__}", "shapes": shapes}

    def check(self, data: Data) -> None:
        """Checks the class, and the shapes of the updated parameters."""
        for name, value in self._kind().items():
            if data[name] != value:
                what = {"class": "is a", "shapes": "updates parameters of the shapes"}[name]
                raise Error(
                    f"[checkpoint] the optimizer {what} {value}, and in the checkpoint "
                    f"{data[name]}. Build the optimizer as it was saved."
                )

    def give(self, data: Data) -> None:
        """Loads the state, or restores the old one if a compiled optimiser refuses a value."""
        optimizer = self._optimizer
        before = copy.deepcopy(optimizer.state_dict())
        try:
            optimizer.load_state_dict(data["state"])
            if data["device"]:
                Record.of(optimizer).add(data["device"])
        except BaseException:
            optimizer.load_state_dict(before)
            raise


class Scheduler:
    """A learning-rate scheduler."""

    def __init__(self, given: Any) -> None:
        if not all(callable(getattr(given, n, None)) for n in ("state_dict", "load_state_dict")):
            raise Error(
                f"[checkpoint] the scheduler is a {type(given).__name__}, which has no "
                "state_dict() and load_state_dict(). Pass one of torch.optim.lr_scheduler."
            )
        self._scheduler = given

    def data(self) -> Data:
        """Returns the class and the state_dict."""
        state = plain(self._scheduler.state_dict(), "the scheduler's state_dict()")
        return {"class": type(self._scheduler).__name__, "state": state}

    def check(self, data: Data) -> None:
        """Checks the class."""
        ours = type(self._scheduler).__name__
        if data["class"] != ours:
            raise Error(
                f"[checkpoint] the scheduler is a {ours}, and in the checkpoint a "
                f"{data['class']}. Build the scheduler as it was saved."
            )

    def give(self, data: Data) -> None:
        """Loads the state."""
        self._scheduler.load_state_dict(data["state"])


class Loader:
    """A poptorch.DataLoader."""

    def __init__(self, given: Any) -> None:
        if not isinstance(given, DataLoader):
            raise Error(
                f"[checkpoint] the loader is a {type(given).__name__}, whose position is unknown. "
                "Pass a poptorch.DataLoader; with mode=DataLoaderMode.Async it has an "
                "AsynchronousDataAccessor."
            )
        self._loader = given

    def data(self) -> Data:
        """Returns the loader's position."""
        return plain(self._loader.state_dict(), "the loader's position")

    def check(self, data: Data) -> None:
        """Checks that the loader has the same parameters as the saved one."""
        self._loader.check_state_dict(data)

    def give(self, data: Data) -> None:
        """Sets the loader's position."""
        self._loader.load_state_dict(data)


class Random:
    """The states of the program's random number generators."""

    def data(self) -> Data:
        """Returns the states of the generators of torch, Python and NumPy."""
        return host_rng.current()

    def check(self, data: Data) -> None:
        """Checks that the generators accept the states."""
        with host_rng.kept():
            host_rng.restore(data)

    def give(self, data: Data) -> None:
        """Sets the states."""
        host_rng.restore(data)


def several(kind: Callable[[Any], Any], given: Any) -> list[Any]:
    """Returns the parts for None, one object or a list of objects."""
    if given is None:
        return []
    return [kind(one) for one in (given if isinstance(given, (list, tuple)) else [given])]


def check_count(what: str, parts: Sequence[Any], data: Sequence[Data]) -> None:
    """Raises poptorch.Error if parts are loaded, but not as many as were saved."""
    if parts and len(parts) != len(data):
        raise Error(
            f"[checkpoint] the checkpoint has {len(data)} {what}s, but {len(parts)} were passed. "
            f"Pass those that were passed to save_checkpoint, or no {what}."
        )


def _described(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return "not a tensor"


def _nearest(name: str, names: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, list(names), 1)
    return f"Is it {found[0]!r}? " if found else ""
