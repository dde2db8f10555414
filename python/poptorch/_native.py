"""The functions of the native module that several packages call.

Importing this module first checks torch and oneDNN. A wrong installation ends in one clear error.
"""

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from poptorch import _versions
from poptorch_core import DependencyError, Error

if TYPE_CHECKING:
    from poptorch_core._torch import Executable as Executable  # at run time below, after the checks


def _check_torch(needed: str) -> None:
    if torch.__version__.partition("+")[0] != needed:
        raise DependencyError(
            f"[import] PopTorch {_versions.VERSION} is built for torch {needed} but found "
            f"torch {torch.__version__} ({torch.__file__}). Run: pip install torch=={needed}"
        )


def _import_module(name: str) -> Any:
    try:
        return importlib.import_module(f"poptorch_core.{name}")
    except ImportError as error:
        text = str(error)
        if text.startswith("[kernels]"):
            raise DependencyError(text) from error
        if "libdnnl" in text:
            raise DependencyError(
                f"[import] oneDNN {_versions.ONEDNN}, which computes for the emulator, was not "
                f"found: {text}. Run: pip install onednn-cpu-gomp=={_versions.ONEDNN}"
            ) from error
        raise DependencyError(
            f"[import] PopTorch's native module cannot be loaded: {text}. Reinstall PopTorch "
            "in this environment: pip install --force-reinstall --no-deps poptorch"
        ) from error


_check_torch(_import_module("_core").torch_version())  # importing _core checks the processor
_torch = _import_module("_torch")
if not TYPE_CHECKING:
    Executable = _torch.Executable

# poptorch.distributed calls these functions; they take a group as its size and stride.
all_gather = _torch.all_gather
all_reduce = _torch.all_reduce
all_to_all = _torch.all_to_all
group_rank = _torch.group_rank
group_size = _torch.group_size
reduce_scatter = _torch.reduce_scatter


def is_tracing() -> bool:
    """Returns True while the wrapped model is traced."""
    return _torch.is_tracing()


def is_traced(tensor: torch.Tensor) -> bool:
    """Returns whether the tensor is a proxy for a value of the trace, without data."""
    return _torch.is_traced(tensor)


def call_untraced(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function on host tensors, outside of any running trace."""
    return _torch.call_untraced(function, *arguments)


def freeze(tensors: list[torch.Tensor]) -> None:
    """Makes host tensors constants of the running trace."""
    _torch.freeze(tensors)


def run_custom_op(
    inputs: list[torch.Tensor], name: str, domain: str, version: int, attributes: str
) -> list[torch.Tensor]:
    """Runs a custom op on host tensors."""
    return _torch.run_custom_op(inputs, name, domain, version, attributes)


def call_own(name: str, *arguments: Any) -> Any:
    """Calls an op of torch.ops.poptorch. Its errors are poptorch.Error, also on the host."""
    try:
        return getattr(torch.ops.poptorch, name)(*arguments)
    except RuntimeError as error:
        if is_tracing() or isinstance(error, Error):
            raise
        raise Error(str(error)) from None


def is_training() -> bool:
    """Returns True while a model for training is traced."""
    return _torch.is_training()


def push_scope(name: str) -> None:
    """Puts the ops of the running trace, if any, under the module path `name` until pop_scope."""
    _torch.push_scope(name)


def pop_scope() -> None:
    """Ends the innermost scope."""
    _torch.pop_scope()


def set_labels(labels: str) -> str:
    """Labels the following ops of the running trace, if there is one.

    Args:
        labels: A JSON object of strings, or an empty string.

    Returns:
        The previous labels.
    """
    return _torch.set_labels(labels)


def begin_multi_conv() -> None:
    """Joins the following convolutions of the running trace into one op until end_multi_conv."""
    _torch.begin_multi_conv()


def end_multi_conv(serial: bool, values: list[tuple[str, list[str]]]) -> None:
    """Ends the MultiConv.

    Args:
        serial: Whether the convolutions run one after another.
        values: Hints for hardware by name: a text for each convolution, or one text for all.
    """
    _torch.end_multi_conv(serial, values)


def abandon_multi_conv() -> None:
    """Discards the MultiConv that was begun; its convolutions stay separate ops."""
    _torch.abandon_multi_conv()


def set_block(ipu: int, stage: int, phase: int, name: str, scoped: bool) -> None:
    """Places the following ops of the running trace; -1 leaves a number unspecified."""
    _torch.set_block(ipu, stage, phase, name, scoped)


def record(
    body: Callable[..., Any], inputs: list[torch.Tensor], check: Callable[[Any], list[torch.Tensor]]
) -> tuple[Any, list[torch.Tensor]]:
    """Records the body of a loop or a branch, which runs on proxies of `inputs`.

    Args:
        body: The function to record.
        inputs: The tensors whose proxies it gets.
        check: Checks the value that the body returned, and makes a list of tensors of it.

    Returns:
        The recording, and the list of results.
    """
    stand_ins = _torch.begin_region(inputs)
    try:
        results = check(body(*stand_ins))
        return _torch.end_region(results), results
    except BaseException:
        _torch.abandon_region()
        raise


def repeat(body: Any, count: int, results: list[torch.Tensor]) -> list[torch.Tensor]:
    """Returns the results of `count` iterations of a recorded body."""
    return _torch.repeat(body, count, results)


def branch(
    condition: torch.Tensor, then_body: Any, else_body: Any, results: list[torch.Tensor]
) -> list[torch.Tensor]:
    """Returns the results of the recorded branch that the 0-d bool `condition` selects."""
    return _torch.branch(condition, then_body, else_body, results)


def set_log_level(level: int) -> None:
    """Sets the log level of the core, by number."""
    _torch.set_log_level(level)


def set_compiler_log_level(level: int) -> None:
    """Sets the level of the compiler's own log, by number."""
    _torch.set_compiler_log_level(level)
