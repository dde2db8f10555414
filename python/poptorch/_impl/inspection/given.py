"""The arguments of poptorch.plan, estimate and explain: their checks, and those of a wrapper."""

from typing import Any

import torch
from poptorch._impl.wrapper.executor import PoplarExecutor
from poptorch._impl.wrapper.state import wrapper_state
from poptorch.options import Options
from poptorch_core import Error


def check_training(function: str, training: Any) -> None:
    """Raises poptorch.Error unless `training` is True, False or None.

    function: the public function that a message names, here and in the other checks.
    """
    if training is not None and not isinstance(training, bool):
        raise Error(f"[{function}] training is {training!r}. Pass True, False or None.")


def check_options(function: str, options: Any) -> None:
    """Raises poptorch.Error unless the options are poptorch.Options or None."""
    if options is not None and not isinstance(options, Options):
        raise Error(
            f"[{function}] options is {options!r}. Pass poptorch.Options, made for example by "
            "poptorch.Options.from_dict."
        )


def check_count(function: str, name: str, value: Any) -> None:
    """Raises poptorch.Error unless a value is a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise Error(f"[{function}] {name} is {value!r}. Pass a whole number of 1 or more.")


def of_wrapper(
    model: Any,
    options: Options | None,
    training: bool | None,
    optimizer: torch.optim.Optimizer | None,
) -> tuple[Any, Options | None, bool | None, torch.optim.Optimizer | None]:
    """Returns the arguments with a wrapper replaced by its model.

    Arguments that are None become those of the wrapper; its optimiser is for training only. The
    arguments of another model stay as they are.
    """
    if not isinstance(model, PoplarExecutor):
        return model, options, training, optimizer
    state = wrapper_state(model)
    options = state.wrapped.asked if options is None else options
    training = state.wrapped.training if training is None else training
    optimizer = state.optimizer if optimizer is None and training else optimizer
    return state.wrapped.user_model, options, training, optimizer
