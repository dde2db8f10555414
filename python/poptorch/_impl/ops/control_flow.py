"""Loops and branches as functions.

In a wrapped model, each body runs once to be recorded. The device then repeats the body of a loop,
or runs one of two branches.

Bodies get copies of their inputs and return copies of their results, so writing these in place has
no effect outside. Bodies may write other tensors in place, as in Python.
"""

from collections.abc import Callable
from typing import Any

import torch
from poptorch import _native
from poptorch_core import Error


def for_loop(count: int, body: Callable, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Runs `inputs = body(*inputs)` several times. In a wrapped model only for inference.

    On the host the body runs `count` times. In a wrapped model it runs once to be recorded, and the
    device repeats it: the program does not grow with `count`, and random numbers differ between
    iterations.

    Args:
        count: The number of iterations.
        body: A function that returns tensors of the same number, shapes and dtypes as `inputs`. It
            may use other tensors; in-place writes to these persist.
        inputs: The tensors of the first iteration.

    Returns:
        The tensors after the last iteration.

    Raises:
        ValueError: `inputs` is not a list of tensors.
        poptorch.Error: The results of `body` do not match, or the model is for training.

    Example:
        >>> [x] = poptorch.for_loop(10, lambda x: [x * 2], [x])
    """
    _check_tensors("for_loop", inputs)
    _refuse_training("for_loop")
    rounds = range(count)
    if rounds and _native.is_tracing():
        recorded, made = _native.record(body, inputs, lambda made: _round(inputs, made))
        return _native.repeat(recorded, len(rounds), made)
    state = _copies(inputs)
    for _ in rounds:
        state = _copies(_round(inputs, body(*state)))
    return state


def cond(
    condition: torch.Tensor,
    then_body: Callable,
    then_inps: list[torch.Tensor],
    else_body: Callable,
    else_inps: list[torch.Tensor],
) -> list[torch.Tensor]:
    """Runs one of two functions. In a wrapped model only for inference.

    On the host, `if` chooses the body. In a wrapped model both bodies are recorded, and the device
    runs one of them. Bodies may use other tensors and write them in place, as in Python.

    Args:
        condition: A tensor with one element; non-zero numbers are true.
        then_body: The function that runs if the condition is true.
        then_inps: The arguments of `then_body`.
        else_body: The function that runs otherwise.
        else_inps: The arguments of `else_body`.

    Returns:
        The results of the body that ran.

    Raises:
        ValueError: `then_inps` or `else_inps` is not a list of tensors.
        poptorch.Error: The results of the bodies differ in number, shape or dtype, the condition
            has several elements, or the model is for training.
    """
    _check_tensors("cond", then_inps)
    _check_tensors("cond", else_inps)
    _refuse_training("cond")
    if isinstance(condition, torch.Tensor) and condition.numel() != 1:
        raise Error(
            f"[cond] the condition must be one boolean but has shape {tuple(condition.shape)}. "
            "Reduce it with all() or any(), or choose each element with torch.where."
        )
    if not isinstance(condition, torch.Tensor) or not _native.is_tracing():
        body, inputs = (then_body, then_inps) if condition else (else_body, else_inps)
        return _copies(_results("cond", body(*_copies(inputs))))
    holds = condition.reshape(()).bool()
    recorded, results = _native.record(then_body, then_inps, lambda made: _results("cond", made))
    other, others = _native.record(else_body, else_inps, lambda made: _results("cond", made))
    if _types(results) != _types(others):
        raise Error(
            "[cond] both bodies must return the same shapes and dtypes, but then_body returned "
            f"{_types(results)} and else_body {_types(others)}."
        )
    return _native.branch(holds, recorded, other, results)


def _copies(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.clone() for tensor in tensors]


def _types(tensors: list[torch.Tensor]) -> list:
    return [(tuple(tensor.shape), tensor.dtype) for tensor in tensors]


def _results(function: str, made: Any) -> list[torch.Tensor]:
    results = list(made) if isinstance(made, (tuple, list)) else [made]
    for result in results:
        if not isinstance(result, torch.Tensor):
            raise Error(
                f"[{function}] a body returned {type(result).__name__}, which is not a tensor. "
                "Return one tensor, or a list or tuple of tensors."
            )
    return results


def _round(inputs: list[torch.Tensor], made: Any) -> list[torch.Tensor]:
    results = _results("for_loop", made)
    if _types(results) != _types(inputs):
        raise Error(
            f"[for_loop] the body must return tensors like its inputs, {_types(inputs)}, but "
            f"returned {_types(results)}. Return one of the same shape and dtype for each."
        )
    return results


def _check_tensors(function: str, inputs) -> None:
    what = f"[{function}] expected a list of tensors."
    if not isinstance(inputs, list):
        raise ValueError(f"{what} (Object is not list)")
    for index, item in enumerate(inputs):
        if not isinstance(item, torch.Tensor):
            raise ValueError(
                f"{what} (Object contained in list at index {index} is not torch.tensor)"
            )


def _refuse_training(function: str) -> None:
    if _native.is_training():
        raise Error(
            f"poptorch.{function}() is only supported in inference. In a model for training, use "
            "Python's control flow (loops are unrolled) or torch.where."
        )
