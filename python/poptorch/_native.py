"""The functions of the native module that several packages call.

Importing it checks torch and oneDNN first, so that a wrong installation ends in one clear error.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from poptorch import _versions
from poptorch_core import DependencyError, Error

if TYPE_CHECKING:
    from poptorch_core._torch import Executable as Executable  # else below, once it is checked


def _check_torch() -> None:
    found = torch.__version__.partition("+")[0]
    if found != _versions.TORCH:
        raise DependencyError(
            f"[import] PopTorch {_versions.VERSION} is built for torch {_versions.TORCH} but found "
            f"torch {torch.__version__} ({torch.__file__}). "
            f"Run: pip install torch=={_versions.TORCH}"
        )


def _import_torch_module():
    try:
        from poptorch_core import _core as _core, _torch  # _core, the first, checks the processor
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
            f"[import] PopTorch's native module cannot be loaded: {text}. Install PopTorch anew "
            "in this environment: pip install --force-reinstall --no-deps poptorch"
        ) from error
    return _torch


_check_torch()
_torch = _import_torch_module()
if not TYPE_CHECKING:
    Executable = _torch.Executable

# Of poptorch.distributed: a group is its size and stride.
all_gather = _torch.all_gather
all_reduce = _torch.all_reduce
all_to_all = _torch.all_to_all
group_rank = _torch.group_rank
group_size = _torch.group_size
reduce_scatter = _torch.reduce_scatter


def is_tracing() -> bool:
    """True while the wrapped model is traced."""
    return _torch.is_tracing()


def is_traced(tensor: torch.Tensor) -> bool:
    """Whether it stands for a value of a trace: it has no data."""
    return _torch.is_traced(tensor)


def call_untraced(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function on tensors of the host, whatever is traced meanwhile."""
    return _torch.call_untraced(function, *arguments)


def freeze(tensors: list[torch.Tensor]) -> None:
    """Of the running trace: these are constants, though they are of the host."""
    _torch.freeze(tensors)


def run_custom_op(
    inputs: list[torch.Tensor], name: str, domain: str, version: int, attributes: str
) -> list[torch.Tensor]:
    """A custom op on tensors of the host."""
    return _torch.run_custom_op(inputs, name, domain, version, attributes)


def call_own(name: str, *arguments: Any) -> Any:
    """An op of torch.ops.poptorch. On the host, too, what it refuses is a poptorch.Error."""
    try:
        return getattr(torch.ops.poptorch, name)(*arguments)
    except RuntimeError as error:
        if is_tracing() or isinstance(error, Error):
            raise
        raise Error(str(error)) from None


def is_training() -> bool:
    """True while a model for training is traced."""
    return _torch.is_training()


def push_scope(name: str) -> None:
    """Of the running trace, if there is one: ops belong to module path `name` until pop_scope."""
    _torch.push_scope(name)


def pop_scope() -> None:
    """Ends the innermost scope."""
    _torch.pop_scope()


def set_labels(labels: str) -> str:
    """Of the running trace, if there is one: ops are labelled so; gives how they were before.

    labels: a JSON object of strings, or nothing.
    """
    return _torch.set_labels(labels)


def begin_multi_conv() -> None:
    """Of the running trace: convolutions that follow are one op, until end_multi_conv."""
    _torch.begin_multi_conv()


def end_multi_conv(serial: bool, values: list[tuple[str, list[str]]]) -> None:
    """values: advice for hardware, a text for each convolution or one for all."""
    _torch.end_multi_conv(serial, values)


def abandon_multi_conv() -> None:
    """Ends it as if it had not begun."""
    _torch.abandon_multi_conv()


def set_block(ipu: int, stage: int, phase: int, name: str, scoped: bool) -> None:
    """Of the running trace: ops that follow go there; -1 says nothing of them."""
    _torch.set_block(ipu, stage, phase, name, scoped)


def record(
    body: Callable[..., Any], inputs: list[torch.Tensor], check: Callable[[Any], list[torch.Tensor]]
) -> tuple[Any, list[torch.Tensor]]:
    """A loop's body or a branch, run on stand-ins of `inputs`: its recording and its results.

    check: makes a list of what the body returned.
    """
    stand_ins = _torch.begin_region(inputs)
    try:
        results = check(body(*stand_ins))
        return _torch.end_region(results), results
    except BaseException:
        _torch.abandon_region()
        raise


def repeat(body: Any, count: int, results: list[torch.Tensor]) -> list[torch.Tensor]:
    """The results of `count` rounds of a recorded body."""
    return _torch.repeat(body, count, results)


def branch(
    condition: torch.Tensor, then_body: Any, else_body: Any, results: list[torch.Tensor]
) -> list[torch.Tensor]:
    """The results of the recorded branch that a 0-d bool chooses."""
    return _torch.branch(condition, then_body, else_body, results)


def set_log_level(level: int) -> None:
    """The core's log level, by number."""
    _torch.set_log_level(level)


def set_compiler_log_level(level: int) -> None:
    """The level of what the compiler says of itself, by number."""
    _torch.set_compiler_log_level(level)
