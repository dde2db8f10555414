"""save_checkpoint and load_checkpoint, with which a training run continues bit-identically.

A file is written completely or not at all, holds plain data, and is loaded completely or not at
all.
"""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import torch
from poptorch import _versions
from poptorch._impl.files import checkpoint_file, checkpoint_parts as parts
from poptorch._impl.wrapper import model_classes
from poptorch._impl.wrapper.executor import PoplarExecutor
from poptorch.data_loader import DataLoader
from poptorch.options import Options
from poptorch_core import Error


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """The result of load_checkpoint.

    Attributes:
        step: The step that was given to save_checkpoint.
        extra: The extra values that were given to save_checkpoint.
    """

    step: int
    extra: dict[str, Any]


def _options_of(model: Any) -> Options | None:
    """Returns the options of the model's wrapper, if there is one."""
    wrapper = model if isinstance(model, PoplarExecutor) else model_classes.wrapper_of(model)
    return None if wrapper is None else wrapper.options


def save_checkpoint(
    path: str | os.PathLike,
    model: torch.nn.Module | PoplarExecutor,
    optimizer: torch.optim.Optimizer | None = None,
    *,
    step: int = 0,
    scheduler: Any = None,
    loader: DataLoader | Sequence[DataLoader] | None = None,
    extra: dict[str, Any] | None = None,
) -> None:
    """Writes all state that a training run needs to continue bit-identically.

    The state is the weights, the optimiser's state, schedulers, the positions of data loaders, and
    the random state of device and program. Call this between two steps. A batch that the loader has
    returned counts as used. If the process is killed at any time, either the former file of this
    name or the new one exists, complete.

    With several processes, each process writes the file that it names. One file suffices to
    continue with any number of processes, if loaders share data "by_replica". If a weight has a
    replicaGrouping, all processes must call this.

    Args:
        path: The file, which gets mode 0600. Its folder must exist.
        model: The wrapper or its model.
        optimizer: An optimiser of torch.optim or poptorch.optim.
        step: The number of completed steps.
        scheduler: A scheduler of torch.optim.lr_scheduler, or a list of them.
        loader: A poptorch.DataLoader, or a list of them.
        extra: Other values: numbers, texts, tensors, and lists, tuples and dicts of them.

    Raises:
        poptorch.Error: The file cannot be written, or it cannot hold one of the values.
    """
    if not isinstance(step, int):
        raise Error(f"[checkpoint] step is {step!r}, but must be an integer.")
    if extra is not None and not isinstance(extra, dict):
        raise Error(f"[checkpoint] extra is a {type(extra).__name__}, but must be a dict.")
    content = {
        "poptorch": _versions.VERSION,
        "torch": str(torch.__version__),
        "step": int(step),
        "extra": checkpoint_file.plain(extra or {}, "extra"),
        "model": parts.Model(model).data(),
        "optimizer": None if optimizer is None else parts.Optimizer(optimizer).data(),
        "schedulers": [part.data() for part in parts.several(parts.Scheduler, scheduler)],
        "loaders": [part.data() for part in parts.several(parts.Loader, loader)],
        "random": parts.Random().data(),
    }
    checkpoint_file.write(path, content, _options_of(model))


def load_checkpoint(
    path: str | os.PathLike,
    model: torch.nn.Module | PoplarExecutor,
    optimizer: torch.optim.Optimizer | None = None,
    *,
    scheduler: Any = None,
    loader: DataLoader | Sequence[DataLoader] | None = None,
) -> Checkpoint:
    """Restores the state of a checkpoint in a program that is built like the one that saved it.

    Everything is checked before anything is changed. The wrapper may be compiled or not. The next
    iteration over a loader continues in the epoch that was begun. Nothing in the file is executed.

    Args:
        path: The file.
        model: The wrapper or its model.
        optimizer: The optimiser to restore. None: its state is not loaded.
        scheduler: A scheduler, or a list of them. None: no scheduler is restored.
        loader: A poptorch.DataLoader, or a list of them. None: no loader is restored.

    Returns:
        The step and the extra values. The random state of the program is always restored.

    Raises:
        poptorch.Error: The file is truncated, damaged, of another version or not a checkpoint, or
            the program's objects differ from those that were saved.
    """
    content = checkpoint_file.read(path, _options_of(model))
    schedulers = parts.several(parts.Scheduler, scheduler)
    loaders = parts.several(parts.Loader, loader)
    try:
        step, extra, saved = content["step"], content["extra"], content["optimizer"]
        if not isinstance(step, int) or not isinstance(extra, dict):
            raise TypeError("its step or its extra values have another type")
        parts.check_count("scheduler", schedulers, content["schedulers"])
        parts.check_count("loader", loaders, content["loaders"])
        if optimizer is not None and saved is None:
            raise Error(
                "[checkpoint] the checkpoint holds no optimizer's state. Give save_checkpoint the "
                "optimizer, or load without."
            )
        given = [
            # The optimiser comes first, because it may refuse to be restored.
            *([] if optimizer is None else [(parts.Optimizer(optimizer), saved)]),
            (parts.Model(model), content["model"]),
            *zip(schedulers, content["schedulers"], strict=False),
            *zip(loaders, content["loaders"], strict=False),
            (parts.Random(), content["random"]),
        ]
        for part, data in given:
            part.check(data)
    except Error:
        raise
    except Exception as error:  # the data has another structure
        raise Error(
            f"[checkpoint] {os.fspath(path)!r} does not have the structure of a checkpoint "
            f"({type(error).__name__}: {error}). Use one that poptorch.save_checkpoint has written."
        ) from None
    for part, data in given:
        part.give(data)
    return Checkpoint(step, extra)
