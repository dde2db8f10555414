"""PyTorch models on (emulated) IPUs."""

import builtins as _builtins
import faulthandler as _faulthandler
import os as _os

_os.environ.setdefault("RDMAV_FORK_SAFE", "1")
if not _faulthandler.is_enabled():
    _faulthandler.enable()

# First, so that a wrong installation ends in one clear error.
from poptorch import _logging, _native

_logging.set_up()

import poptorch_core
import torch as _torch
from poptorch import _impl, _utils, enums, ops, optim, options, profiling
from poptorch._impl import blocks as _blocks
from poptorch._impl import environment as _environment
from poptorch._impl.device_pool import ipuHardwareIsAvailable, ipuHardwareVersion
from poptorch._impl.executor import PoplarExecutor
from poptorch._impl.hooks import registerPostCompileHook, registerPreCompileHook
from poptorch._impl.planning import Plan, plan
from poptorch._impl.structures import ICustomArgParser, registerCustomArgParser
from poptorch._impl.wrapping import inferenceModel, trainingModel
from poptorch._versions import VERSION as __version__
from poptorch.async_accessor import AsynchronousDataAccessor
from poptorch.data_loader import DataLoader
from poptorch.enums import *
from poptorch.ops import *
from poptorch.options import (
    ConfigFileError,
    Options,
    ParallelPhasedExecution,
    Phase,
    PipelinedExecution,
    SerialPhasedExecution,
    ShardedExecution,
    Stage,
    TensorLocationSettings,
)
from poptorch_core import Error, RecoverableError, UnrecoverableError


def print(module: _torch.nn.Module) -> None:
    """Prints a module's tree, with the blocks that begin at its layers."""
    _builtins.print(_blocks.text_with_blocks(module))


def setLogLevel(level: str | int) -> None:
    """Sets the level of both layers: TRACE, DEBUG, INFO, WARN, ERR, OFF, or 0, 1, 2, 3, 4, 6.

    Raises ValueError for others.
    """
    _native.set_log_level(_logging.set_level(level))


_environment.check()

profiling.Channel("poptorch").instrument(
    PoplarExecutor,
    *("__call__", "compile", "setOptimizer", "copyWeightsToHost", "copyWeightsToDevice", "destroy"),
)
