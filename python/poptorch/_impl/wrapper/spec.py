"""A wrapper's model and options, which stay the same over all its compilations."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from poptorch._impl.devices import processes
from poptorch._impl.inspection.source_lines import user_location
from poptorch._impl.options import core_table
from poptorch._impl.options.group_class import value_of
from poptorch._impl.options.stored_values import state_of
from poptorch._impl.placement.policy import Placement, placement_of
from poptorch._impl.weights.replica_groups import Groupings
from poptorch._impl.wrapper import compile_log, model_classes
from poptorch._impl.wrapper.batching import Batching, resolve_output_mode
from poptorch._impl.wrapper.call_arguments import Signature, check_initialised
from poptorch._logging import logger_of, set_repeat_limit
from poptorch.options import Options
from poptorch_core import Error

logger = logger_of(__name__)


@dataclass(frozen=True, eq=False)
class Wrapped:
    """A model with its options.

    options: the options that the model uses, with those that follow from the model.
    asked: the user's options, unchanged.
    model: a copy that shares the user's tensors, but not attributes such as `training`. The wrapper
    traces it, so that changes of it before the compilation take effect.
    """

    user_model: Callable
    model: Callable
    training: bool
    options: Options
    asked: Options
    batching: Batching
    placement: Placement
    signature: Signature
    groupings: Groupings

    @property
    def module(self) -> torch.nn.Module | None:
        """The model, unless it is a function."""
        return self.model if isinstance(self.model, torch.nn.Module) else None

    @property
    def trained_model(self) -> torch.nn.Module:
        """The model of a training wrapper, which is never a function."""
        return cast(torch.nn.Module, self.model)

    @property
    def user_module(self) -> torch.nn.Module:
        """The user's model, where it is a module."""
        return cast(torch.nn.Module, self.user_model)

    @property
    def name(self) -> str:
        """The name of the wrapper in messages."""
        kind = "training" if self.training else "inference"
        named = self.module is not None
        what = model_classes.original_name(self.model) if named else repr(self.model)
        return f"{value_of(self.options, 'model_name') or what} for {kind}"


def wrapped(
    model: Callable,
    options: Options | None,
    training: bool,
    user_model: torch.nn.Module | None = None,
) -> Wrapped:
    """Describes a model and its options, which are frozen.

    user_model: the model that owns the weights, if that is not `model`.
    Raises poptorch.Error for options that are invalid or do not fit the model.
    """
    options = options if options is not None else Options()
    if not isinstance(options, Options):
        cure = "Pass an object: poptorch.Options()."
        if isinstance(options, torch.optim.Optimizer):
            cure = "Pass the optimiser by name: optimizer=..."
        raise Error(
            f"Invalid type: 'options' is of type {type(options)} but must be poptorch.Options. "
            f"{cure} ({user_location()})"
        )
    used: Callable = model if user_model is None else user_model
    if isinstance(model, torch.nn.Module):
        check_initialised(model)
        model = model_classes.shallow_copy(model)
    state_of(options).freeze()
    set_repeat_limit(options.max_repeat_logs)
    asked, options = options, options.clone()
    resolve_output_mode(options, training)
    batching = Batching.of(options)  # of the options before the placement's changes
    placement = placement_of(used, options, training)
    placement.apply_to(options, training)
    state_of(options).freeze()
    _check(options, model, training)
    return Wrapped(
        user_model=used,
        model=model,
        training=training,
        options=options,
        asked=asked,
        batching=batching,
        placement=placement,
        signature=Signature(used.forward if isinstance(used, torch.nn.Module) else used),
        groupings=Groupings(processes.replicas_of(options)),
    )


def _check(options: Options, model: Callable, training: bool) -> None:
    if not training and (defect := core_table.execution_of(options).wrapper_defect):
        raise Error(defect)
    if value_of(options, "use_model") and options.cache_path is not None:
        logger.warning("enableExecutableCaching doesn't work with the IPU model")
    compile_log.check(options)
