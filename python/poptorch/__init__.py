"""PyTorch models on (emulated) IPUs."""

import builtins as _builtins
import gc as _gc
import os as _os

_os.environ.setdefault("RDMAV_FORK_SAFE", "1")

# These come first, so that a wrong installation ends in one clear error.
from poptorch import _logging as _logging, _native as _native, _versions as _versions

_logging.set_up()

# A full collection amid these imports would visit every object of torch, for longer than they take.
_collects = _gc.isenabled()
_gc.disable()

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
from poptorch._impl import (
    lightning_registration as _lightning,
    moved as _moved,
    private_names as _private_names,
)
from poptorch._impl.devices.ipu_pool import (
    ipuHardwareIsAvailable as ipuHardwareIsAvailable,
    ipuHardwareVersion as ipuHardwareVersion,
)
from poptorch._impl.files.safe_pickle import add_safe_globals as add_safe_globals
from poptorch._impl.inspection.estimate import (
    Estimate as Estimate,
    IpuEstimate as IpuEstimate,
    estimate as estimate,
)
from poptorch._impl.inspection.explain import (
    Explanation as Explanation,
    explain as explain,
)
from poptorch._impl.ops.python_ops import PythonOp as _PythonOp
from poptorch._impl.options import environment as _environment
from poptorch._impl.placement.blocks import module_repr as module_repr
from poptorch._impl.placement.planner import Plan as Plan, plan as plan
from poptorch._impl.pytree.structures import (
    ICustomArgParser as ICustomArgParser,
    registerCustomArgParser as registerCustomArgParser,
)
from poptorch._impl.torch_compile import registration as _torch_compile
from poptorch._impl.wrapper.compile_hooks import (
    registerPostCompileHook as registerPostCompileHook,
    registerPreCompileHook as registerPreCompileHook,
)
from poptorch._impl.wrapper.executor import PoplarExecutor as PoplarExecutor
from poptorch._impl.wrapper.wrap import (
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

if _collects:
    _gc.enable()

__version__ = _versions.VERSION


def print(m: object) -> None:
    """Prints an object.

    Args:
        m: Any object. A module is printed as module_repr() shows it.
    """
    _builtins.print(module_repr(m) if isinstance(m, _torch.nn.Module) else m)


def createPoptorchError(msg: str) -> Error:
    """Returns a poptorch.Error, as PopTorch's Python layer raises it.

    Args:
        msg: The text of the error.

    Returns:
        The error. It is not raised.
    """
    return Error(msg)


def setLogLevel(level: str | int) -> None:
    """Sets the log level of the Python layer and of the core.

    Args:
        level: TRACE, DEBUG, INFO, WARN, ERR or OFF, or their numbers 0, 1, 2, 3, 4 and 6.

    Raises:
        ValueError: The level is not one of these.
    """
    _native.set_log_level(_logging.set_level(level))


_private_names.install(createPoptorchError=createPoptorchError, setLogLevel=setLogLevel)
_moved.install()
_environment.check()

# Public names are shown and pickled under the path by which users import them.
for _name, _value in list(vars().items()):
    if not _name.startswith("_") and str(getattr(_value, "__module__", "")).startswith("poptorch."):
        _value.__module__ = __name__

profiling.Channel("poptorch").instrument(
    PoplarExecutor,
    *("__call__", "compile", "setOptimizer", "copyWeightsToHost", "copyWeightsToDevice", "destroy"),
)

_torch_compile.install(PoplarExecutor, _PythonOp)
_lightning.install()
