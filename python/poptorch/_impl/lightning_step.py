"""Steps of a LightningModule as forward passes, with what they log.

A step has no values while it is traced. So the calls of `log` and `log_dict` in a step are noted,
the logged tensors are further outputs of the compiled step, and each run logs their values.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from poptorch_core import Error

# How the values of the micro-batches of a run become one value, by log's reduce_fx.
_REDUCTIONS: dict[Any, Callable] = {
    "mean": torch.mean,
    "sum": torch.sum,
    "max": torch.amax,
    "min": torch.amin,
}


# Names of a second argument that is the number of the batch: idx, batch_nb, i, n, _, _unused.
_INDEX = re.compile(r"_.*|[in]|(.*_)?(idx|index|nb|number)")

Call: TypeAlias = tuple[str, Any, dict[str, Any]]  # name, value, further arguments


class Log:
    """The calls of log that the last trace of a step made, without the values of tensors."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def __deepcopy__(self, _memo: dict) -> "Log":
        return self  # a wrapper copies the step; both have one log


class Step(torch.nn.Module):
    """A step of a LightningModule as a forward pass: returns its result and what it logs.

    Args:
        module: The LightningModule.
        name: The step's name, such as "training_step".
    """

    def __init__(self, module: torch.nn.Module, name: str) -> None:
        super().__init__()
        self.module = module
        self.name = name
        names = _positional(getattr(module, name))
        # Otherwise the step gets the parts of the batch as arguments.
        is_pair = len(names) == 2 and _INDEX.fullmatch(names[1]) is not None
        self.takes_batch = is_pair or bool({"batch", "batch_idx"} & set(names))
        self.takes_index = self.takes_batch and len(names) > 1
        self.logged = Log()

    def forward(self, *batch: Any) -> tuple[Any, list[torch.Tensor]]:
        """Calls the step.

        Args:
            batch: The batch, or its parts.
        """
        index = (0,) if self.takes_index else ()
        with _noted(self.module) as calls:
            result = getattr(self.module, self.name)(*batch, *index)
        tensors = [value for _, value, _ in calls if isinstance(value, torch.Tensor)]
        self.logged.calls[:] = [
            (name, None if isinstance(value, torch.Tensor) else value, options)
            for name, value, options in calls
        ]
        return result, tensors


def _positional(step: Callable) -> list[str]:
    """Returns the names of a step's arguments by position, as Lightning passes them."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in inspect.signature(step).parameters.values() if p.kind in kinds]


@contextmanager
def _noted(module: Any) -> Iterator[list[Call]]:
    """Notes what the module logs, instead of logging it."""
    calls: list[Call] = []

    def log(name: str, value: Any, *others: Any, **options: Any) -> None:
        given = inspect.signature(type(module).log).bind(module, name, value, *others, **options)
        if not isinstance(value, (torch.Tensor, int, float)):
            raise Error(
                f"[lightning] log({name!r}) in a step got a {type(value).__name__}, but a step has "
                "no values while it is compiled. Log a tensor, or update and log the metric in a "
                "hook such as on_train_batch_end."
            )
        if isinstance(value, torch.Tensor) and value.numel() != 1:
            raise Error(
                f"[lightning] log({name!r}) in a step got a tensor of shape {list(value.shape)}. "
                "Log one number, for example value.mean()."
            )
        kept = {k: v for k, v in given.arguments.items() if k not in ("self", "name", "value")}
        calls.append((name, value, kept))

    def log_dict(dictionary: Any, *others: Any, **options: Any) -> None:
        for name, value in dictionary.items():
            log(name, value, *others, **options)

    module.__dict__["log"], module.__dict__["log_dict"] = log, log_dict
    try:
        yield calls
    finally:
        del module.__dict__["log"], module.__dict__["log_dict"]


def log_values(module: Any, logged: Log, values: list[torch.Tensor]) -> None:
    """Logs the values of a run: of all its micro-batches together.

    Args:
        module: The LightningModule of the trainer.
        logged: The log of the step.
        values: The values of the micro-batches, for each call with a tensor.
    """
    found = iter(values)
    for name, number, options in logged.calls:
        value = next(found).flatten() if number is None else torch.tensor([number])
        if not value.is_floating_point():
            value = value.to(torch.get_default_dtype())
        reduction = options.get("reduce_fx", "mean")
        size = options.get("batch_size")
        sized = {} if size is None else {"batch_size": size * value.numel()}
        # Lightning refuses other texts.
        reduce = reduction if callable(reduction) else _REDUCTIONS.get(reduction, torch.mean)
        module.log(name, reduce(value), **{**options, **sized})
