"""The parts of a checkpoint: how each is taken from a running program, checked against another
one, and given to it. A check changes nothing; what has passed it can be given.
"""

import collections
import copy
import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from poptorch._impl.data import host_rng
from poptorch._impl.files.checkpoint_file import plain
from poptorch._impl.optimisers.device_state import SCALE_FACTOR, Record
from poptorch._impl.wrapper import model_classes
from poptorch._impl.wrapper.executor import PoplarExecutor
from poptorch.data_loader import DataLoader
from poptorch_core import Error

Data = dict[str, Any]


class Model:
    """A model, with the wrapper that trains it or was given, if there is one."""

    def __init__(self, given: Any) -> None:
        is_wrapper = isinstance(given, PoplarExecutor)
        module = given.model if is_wrapper else given
        if not isinstance(module, torch.nn.Module):
            raise Error(
                f"[checkpoint] the model is a {type(module).__name__}, which has no state. Give a "
                "torch.nn.Module, or what wraps one."
            )
        self.module = module
        self.wrapper = given if is_wrapper else model_classes.wrapper_of(module)

    def data(self) -> Data:
        """Weights and buffers, and the state of the device's random numbers."""
        state = self.module.state_dict()
        wrapper, random = self.wrapper, None
        if wrapper is not None:
            try:
                random = wrapper.rng_state
            except Error:
                pass  # neither compiled nor told: it will begin anew
        return {
            "state": plain(dict(state), "the model's state_dict()"),
            "metadata": plain(getattr(state, "_metadata", None), "the model's metadata"),
            "random": random,
        }

    def check(self, data: Data) -> None:
        """Names, shapes and types of all tensors."""
        theirs, ours = data["state"], self.module.state_dict()
        for name in theirs:
            if name not in ours:
                raise Error(
                    f"[checkpoint] the checkpoint holds {name!r}, which the model has not. "
                    f"{_nearest(name, ours)}Make the model as it was."
                )
        for name, tensor in ours.items():
            if name not in theirs:
                raise Error(
                    f"[checkpoint] the model has {name!r}, which the checkpoint does not hold. "
                    f"{_nearest(name, theirs)}Make the model as it was."
                )
            got, expected = _described(theirs[name]), _described(tensor)
            if got != expected:
                raise Error(
                    f"[checkpoint] {name!r} is {expected} in the model and {got} in the "
                    "checkpoint. Make the model as it was."
                )

    def give(self, data: Data) -> None:
        """Loads all; a compiled wrapper's device has it at once."""
        state = data["state"]
        if data["metadata"] is not None:
            state = collections.OrderedDict(state)
            vars(state)["_metadata"] = data["metadata"]  # as torch puts it there
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
                f"[checkpoint] the optimizer is a {type(given).__name__}. Give the one of "
                "torch.optim or poptorch.optim that trains the model."
            )
        self._optimizer = given
        self._before: Data | None = None

    def data(self) -> Data:
        """The state_dict, and what only the device has."""
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
        """Its class, and the shapes of what it updates."""
        for name, value in self._kind().items():
            if data[name] != value:
                what = {"class": "is a", "shapes": "updates parameters of the shapes"}[name]
                raise Error(
                    f"[checkpoint] the optimizer {what} {value}, and in the checkpoint "
                    f"{data[name]}. Make the optimizer as it was."
                )

    def give(self, data: Data) -> None:
        """All or nothing: a compiled optimiser refuses other values of what is compiled in."""
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
                "state_dict() and load_state_dict(). Give one of torch.optim.lr_scheduler."
            )
        self._scheduler = given

    def data(self) -> Data:
        """The state_dict."""
        state = plain(self._scheduler.state_dict(), "the scheduler's state_dict()")
        return {"class": type(self._scheduler).__name__, "state": state}

    def check(self, data: Data) -> None:
        """Its class."""
        ours = type(self._scheduler).__name__
        if data["class"] != ours:
            raise Error(
                f"[checkpoint] the scheduler is a {ours}, and in the checkpoint a "
                f"{data['class']}. Make the scheduler as it was."
            )

    def give(self, data: Data) -> None:
        """Its state."""
        self._scheduler.load_state_dict(data["state"])


class Loader:
    """A poptorch.DataLoader."""

    def __init__(self, given: Any) -> None:
        if not isinstance(given, DataLoader):
            raise Error(
                f"[checkpoint] the loader is a {type(given).__name__}, whose position nothing "
                "tells. Give a poptorch.DataLoader; its mode=DataLoaderMode.Async has an "
                "AsynchronousDataAccessor."
            )
        self._loader = given

    def data(self) -> Data:
        """Its position."""
        return plain(self._loader.state_dict(), "the loader's position")

    def check(self, data: Data) -> None:
        """Whether the loader is made like the one that was there."""
        self._loader.check_state_dict(data)

    def give(self, data: Data) -> None:
        """Its position."""
        self._loader.load_state_dict(data)


class Random:
    """The random numbers of the program."""

    def data(self) -> Data:
        """The states of torch's, Python's and NumPy's."""
        return host_rng.current()

    def check(self, data: Data) -> None:
        """Whether they are such states."""
        with host_rng.kept():
            host_rng.restore(data)

    def give(self, data: Data) -> None:
        """The states."""
        host_rng.restore(data)


def several(kind: Callable[[Any], Any], given: Any) -> list[Any]:
    """Parts of what was given: None, one, or a list of them."""
    if given is None:
        return []
    return [kind(one) for one in (given if isinstance(given, (list, tuple)) else [given])]


def check_count(what: str, parts: Sequence[Any], data: Sequence[Data]) -> None:
    """Raises poptorch.Error where some are asked for that were not saved."""
    if parts and len(parts) != len(data):
        raise Error(
            f"[checkpoint] the checkpoint holds {len(data)} {what}s, and {len(parts)} are to be "
            f"loaded. Give those that were given to save_checkpoint, or no {what}."
        )


def _described(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return "no tensor"


def _nearest(name: str, names: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, list(names), 1)
    return f"Is it {found[0]!r}? " if found else ""
