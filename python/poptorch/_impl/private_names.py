"""Private names of PopTorch that public programs read: aliases of what the public names give.

tests/meta/test_private_names.py holds the same names in one table. No other code here uses them.
"""

import datetime
import itertools
from collections.abc import Callable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any

import torch
from poptorch import _args_parser, _impl, _logging, _native, _utils, ops
from poptorch._impl.optimisers.device_state import Record
from poptorch._impl.options.group_class import OptionGroup
from poptorch._impl.options.stored_values import state_of
from poptorch._impl.pytree import structures
from poptorch._impl.wrapper import model_classes, unwrapped_models
from poptorch._impl.wrapper.compiled_model import Compiled
from poptorch._impl.wrapper.executor import PoplarExecutor
from poptorch._impl.wrapper.state import WrapperState, wrapper_state
from poptorch.data_loader import DataLoader
from poptorch.options import Options
from poptorch_core import Error
from torch.utils.weak import WeakIdKeyDictionary

Getter = Callable[[Any], Any]


def _of_state(read: Callable[[WrapperState], Any]) -> Getter:
    """Returns a getter for an executor that reads its state."""
    return lambda executor: read(wrapper_state(executor))


def _of_compiled(read: Callable[[Compiled], Any], otherwise: Any = None) -> Getter:
    """Returns a getter for an executor that is `otherwise` unless the model is compiled."""

    def get(executor: PoplarExecutor) -> Any:
        compiled = wrapper_state(executor).compiled
        return otherwise if compiled is None else read(compiled)

    return get


def _cycle_count(executor: PoplarExecutor) -> int | None:
    compiled = wrapper_state(executor).compiled
    counts = compiled is not None and executor.options.log_cycle_count and compiled.device.runs
    return executor.cycleCount() if counts else None


def _host_weights_version(state: WrapperState) -> int:
    weights = state.weights.root()
    return weights.version if weights.newest is None else weights.host_version


def _args_parser_of(executor: PoplarExecutor) -> _args_parser.ArgsParser:
    """Returns the same parser each time, so that its names can be assigned."""
    made = vars(executor).get("_parser")
    return made or vars(executor).setdefault(
        "_parser", _args_parser.ArgsParser(wrapper_state(executor).wrapped.user_model)
    )


def _attributes_to_state(state: WrapperState) -> dict[str, torch.Tensor]:
    """Returns the model's parameters and buffers by the path of their attribute."""
    model = state.wrapped.module
    return (
        {} if model is None else {**dict(model.named_parameters()), **dict(model.named_buffers())}
    )


def _compile(executor: PoplarExecutor, *args: Any, **kwargs: Any) -> Any:
    """Compiles for the arguments of a call, or for a ParsedArgs; returns the executable."""
    if len(args) == 1 and isinstance(args[0], _args_parser.Args):
        args = args[0].asTuple()
    executor.compile(*args, **kwargs)
    return getattr(executor, "_executable")  # noqa: B009  (a property, made below)


EXECUTOR: dict[str, Getter] = {
    "_options": lambda executor: executor.options,
    "_executable": _of_compiled(lambda compiled: compiled.executable),
    "_executable_inputs": _of_compiled(lambda compiled: _args_parser.Args(compiled.arguments)),
    "_user_model": _of_state(lambda state: state.wrapped.user_model),
    "_model": _of_state(lambda state: state.wrapped.model),
    "_is_attached": lambda executor: executor.isAttachedToDevice(),
    "_dict_optimizer": _of_compiled(lambda compiled: compiled.spec or {}, {}),
    "_host_weights_version": _of_state(_host_weights_version),
    "_dirty_host_weights": _of_state(lambda state: state.weights.root().newest is not None),
    "_compilation_time": _of_compiled(lambda made: datetime.timedelta(seconds=made.seconds)),
    "_cycle_count": _cycle_count,
    "_ipu_optimizer_state_is_dirty": _of_state(
        lambda state: state.optimizer is not None and Record.of(state.optimizer).is_behind
    ),
    "_trace": lambda executor: executor.graph("traced") if executor.isCompiled() else None,
    "_args_parser": _args_parser_of,
    "_attributes_to_state": _of_state(_attributes_to_state),
}


def _values(options: OptionGroup) -> Mapping[str, Any]:
    """Returns the values by name. They can be read before an output mode is chosen."""
    return MappingProxyType(state_of(options).values)


OPTIONS: dict[str, Getter] = {
    "_training": lambda options: options.Training,
    "_precision": lambda options: options.Precision,
    "_distributed": lambda options: options.Distributed,
    "_jit": lambda options: options.Jit,
    "_tensor_locations": lambda options: options.TensorLocations,
}


def _is_user_batch_sampler_set(loader: DataLoader) -> bool:
    """Returns whether the program passed `batch_sampler`: torch then has no batch size."""
    return loader.batch_sampler is not None and loader.batch_size is None


LOADER: dict[str, Getter] = {
    "_is_user_batch_sampler_set": _is_user_batch_sampler_set,
    "_rebatched_size": lambda loader: vars(loader)["_passes"].rebatched,
    "_combined_batch_size": lambda loader: loader.combinedBatchSize,
}

_ids: Any = WeakIdKeyDictionary()
_numbers = itertools.count(1)


def get_ipu_tensor_id(tensor: torch.Tensor) -> int:
    """Returns a number that identifies a tensor of the traced model.

    Args:
        tensor: A tensor of the running trace.

    Raises:
        poptorch.Error: The tensor is not one of a trace.
    """
    if not _utils.isOnIpu(tensor):
        raise Error(
            f"[tracer] getIpuTensorId expected a tensor of the traced model but got {tensor!r}. "
            "Call it in forward, with a tensor that the model computes."
        )
    if tensor not in _ids:
        _ids[tensor] = next(_numbers)
    return _ids[tensor]


def _has_custom_parser(value: Any) -> bool:
    return structures.parser_of(value) is not None


MODULES: dict[ModuleType, dict[str, Any]] = {
    _impl: {
        "isDispatchTracing": _native.is_tracing,
        "isRunningOnIpu": ops.isRunningOnIpu,
        "isWrapped": model_classes.isWrapped,
        "unwrapIfWrapped": model_classes.unwrapIfWrapped,
        "registerWrapperType": model_classes.registerWrapperType,
        "unwrapModelIfNecessary": unwrapped_models.unwrapModelIfNecessary,
        "rewrapModelIfNecessary": unwrapped_models.rewrapModelIfNecessary,
        "_restoreWrapperIfNecessary": unwrapped_models.restore_wrapper,
    },
    _utils: {
        "getIpuTensorId": get_ipu_tensor_id,
        "getCustomParser": structures.parser_of,
        "hasCustomParser": _has_custom_parser,
        "on_ipu": _utils.isOnIpu,
    },
}


def install(**public: Callable[..., Any]) -> None:
    """Adds the names.

    Args:
        public: Functions of the package poptorch, which this module cannot import.
    """
    for module, names in MODULES.items():
        for name, value in names.items():
            setattr(module, name, value)
    setattr(_impl, "createPoptorchError", public["createPoptorchError"])  # noqa: B010
    setattr(_logging, "setLogLevel", public["setLogLevel"])  # noqa: B010
    setattr(OptionGroup, "_values", property(_values))  # noqa: B010
    setattr(PoplarExecutor, "_compile", _compile)  # noqa: B010
    classes = ((PoplarExecutor, EXECUTOR), (Options, OPTIONS), (DataLoader, LOADER))
    for kind, getters in classes:
        for name, getter in getters.items():
            setattr(kind, name, property(getter))
