"""save_checkpoint and load_checkpoint: all that a training run needs to go on bit by bit.

A file is written whole or not at all, holds plain data, and is loaded whole or not at all.
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
    """What load_checkpoint gives back. step, extra: as they were given to save_checkpoint."""

    step: int
    extra: dict[str, Any]


def _options_of(model: Any) -> Options | None:
    """Of its wrapper, if there is one."""
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
    """Writes what a training run needs to go on with the same bits: weights, the optimiser's state,
    schedulers, the positions of data loaders, and the random numbers of device and program.

    After a kill at any time there is the former file of this name or the new one, whole. To be
    called between two steps; a batch that the loader has given counts as used.

    Of several processes each writes the file that it names. One suffices to go on with any number
    of them, if loaders share data "by_replica"; where a weight has a replicaGrouping, all processes
    must call this.

    Args:
        path: the file, of mode 0600. Its folder exists.
        model: the wrapper or its model.
        optimizer: of torch.optim or poptorch.optim.
        step: how many steps were made.
        scheduler: of torch.optim.lr_scheduler, or a list of them.
        loader: a poptorch.DataLoader, or a list of them.
        extra: anything else, of numbers, texts, tensors, and lists, tuples and dicts of them.

    Raises:
        poptorch.Error: the file cannot be written, or something given cannot be held by it.
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
    """Gives a program, made as the one was that saved the checkpoint, the state that one had.

    Everything is checked before anything is changed. A wrapper may be compiled or not yet. What is
    not given is not loaded; the random numbers of the program always are. The next iteration over
    a loader goes on in the epoch that was begun. Nothing in the file is executed.

    Raises:
        poptorch.Error: the file is truncated, damaged, of another version or no checkpoint, or the
            program's objects are not like those that were saved.
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
            # First what may refuse to be given.
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
    except Exception as error:  # of data in other forms than ours
        raise Error(
            f"[checkpoint] {os.fspath(path)!r} lacks what a checkpoint holds "
            f"({type(error).__name__}: {error}). Use one that poptorch.save_checkpoint has written."
        ) from None
    for part, data in given:
        part.give(data)
    return Checkpoint(step, extra)
