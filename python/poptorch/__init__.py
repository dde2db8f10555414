"""PyTorch models on (emulated) IPUs."""

import builtins as _builtins
import os as _os

_os.environ.setdefault("RDMAV_FORK_SAFE", "1")

# First, so that a wrong installation ends in one clear error.
from poptorch import _logging as _logging, _native as _native, _versions as _versions

_logging.set_up()

import torch as _torch
from poptorch import (
    _args_parser as _args_parser,
    _impl as _impl,
    _poplar_executor as _poplar_executor,
    _poptorch_data as _poptorch_data,
    _utils as _utils,
    distributed as distributed,
    enums as enums,
    ops as ops,
    optim as optim,
    options as options,
    poptorch_core as poptorch_core,
    profiling as profiling,
)
from poptorch._impl import environment as _environment, wrapped_classes as _wrapped_classes
from poptorch._impl.blocks import module_repr as module_repr
from poptorch._impl.device_pool import (
    ipuHardwareIsAvailable as ipuHardwareIsAvailable,
    ipuHardwareVersion as ipuHardwareVersion,
)
from poptorch._impl.executor import PoplarExecutor as PoplarExecutor
from poptorch._impl.explaining import Explanation as Explanation, explain as explain
from poptorch._impl.hooks import (
    registerPostCompileHook as registerPostCompileHook,
    registerPreCompileHook as registerPreCompileHook,
)
from poptorch._impl.planning import Plan as Plan, plan as plan
from poptorch._impl.safe_pickle import add_safe_globals as add_safe_globals
from poptorch._impl.structures import (
    ICustomArgParser as ICustomArgParser,
    registerCustomArgParser as registerCustomArgParser,
)
from poptorch._impl.wrapping import (
    inferenceModel as inferenceModel,
    load as load,
    trainingModel as trainingModel,
)
from poptorch.async_accessor import AsynchronousDataAccessor as AsynchronousDataAccessor
from poptorch.checkpoints import (
    Checkpoint as Checkpoint,
    load_checkpoint as load_checkpoint,
    save_checkpoint as save_checkpoint,
)
from poptorch.data_loader import DataLoader as DataLoader
from poptorch.enums import *
from poptorch.ops import *
from poptorch.options import (
    ConfigFileError as ConfigFileError,
    Options as Options,
    ParallelPhasedExecution as ParallelPhasedExecution,
    Phase as Phase,
    PipelinedExecution as PipelinedExecution,
    SerialPhasedExecution as SerialPhasedExecution,
    ShardedExecution as ShardedExecution,
    Stage as Stage,
    TensorLocationSettings as TensorLocationSettings,
)
from poptorch_core import (
    Error as Error,
    RecoverableError as RecoverableError,
    UnrecoverableError as UnrecoverableError,
)

__version__ = _versions.VERSION


def print(m: object) -> None:
    """Prints anything; a module as module_repr() shows it."""
    _builtins.print(module_repr(m) if isinstance(m, _torch.nn.Module) else m)


def createPoptorchError(msg: str) -> Error:
    """The error that PopTorch's Python layer raises."""
    return Error(msg)


def setLogLevel(level: str | int) -> None:
    """Sets the level of both layers: TRACE, DEBUG, INFO, WARN, ERR, OFF, or 0, 1, 2, 3, 4, 6.

    Raises ValueError for others.
    """
    _native.set_log_level(_logging.set_level(level))


# What programs look for in poptorch._impl. Its modules are above it, so that it cannot import them.
vars(_impl).update(
    isDispatchTracing=_native.is_tracing,
    isRunningOnIpu=ops.isRunningOnIpu,
    createPoptorchError=createPoptorchError,
    isWrapped=_wrapped_classes.isWrapped,
    unwrapIfWrapped=_wrapped_classes.unwrapIfWrapped,
    registerWrapperType=_wrapped_classes.registerWrapperType,
)

_environment.check()

profiling.Channel("poptorch").instrument(
    PoplarExecutor,
    *("__call__", "compile", "setOptimizer", "copyWeightsToHost", "copyWeightsToDevice", "destroy"),
)
