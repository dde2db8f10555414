"""Loops and branches as functions.

In a wrapped model, each body runs once to be recorded. The device then repeats the body of a loop,
or runs one of two branches.

Bodies get copies of their inputs and return copies of their results, so writing these in place has
no effect outside. Bodies may write other tensors in place, as in Python.
"""

from collections.abc import Callable
from numbers import Number
from typing import Any

import torch
from poptorch import _native
from poptorch._impl.inspection.source_lines import user_location
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
        then_inps: The arguments of `then_body`: tensors and numbers. Numbers are constants.
        else_body: The function that runs otherwise.
        else_inps: The arguments of `else_body`.

    Returns:
        The results of the body that ran.

    Raises:
        ValueError: `then_inps` or `else_inps` is not a list of tensors and numbers.
        poptorch.Error: The results of the bodies differ in number, shape or dtype, the condition
            has several elements, or the model is for training.
    """
    _check_tensors("cond", then_inps, numbers=True)
    _check_tensors("cond", else_inps, numbers=True)
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
    recorded, results = _recorded_branch(then_body, then_inps)
    other, others = _recorded_branch(else_body, else_inps)
    if _types(results) != _types(others):
        raise Error(
            "[cond] both bodies must return the same shapes and dtypes, but then_body returned "
            f"{_types(results)} and else_body {_types(others)}."
        )
    return _native.branch(holds, recorded, other, results)


def _recorded_branch(body: Callable, inputs: list) -> tuple[Any, list[torch.Tensor]]:
    """Records a branch. Its numbers are the same in every run."""
    places = [i for i, given in enumerate(inputs) if isinstance(given, torch.Tensor)]

    def run(*tensors: torch.Tensor) -> Any:
        arguments = list(inputs)
        for place, tensor in zip(places, tensors, strict=True):
            arguments[place] = tensor
        return body(*arguments)

    tensors = [inputs[place] for place in places]
    return _native.record(run, tensors, lambda made: _results("cond", made))


def _copies(values: list) -> list:
    """Returns clones of the tensors among the values, which may also be numbers."""
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in values]


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


def _check_tensors(function: str, inputs, numbers: bool = False) -> None:
    what = f"[{function}] expected a list of tensors."
    if not isinstance(inputs, list):
        raise ValueError(f"{what} (Object is not list)")
    for index, item in enumerate(inputs):
        if not isinstance(item, torch.Tensor) and not (numbers and isinstance(item, Number)):
            raise ValueError(
                f"{what} (Object contained in list at index {index} is not torch.tensor)"
            )


def _refuse_training(function: str) -> None:
    if _native.is_training():
        raise Error(
            f"poptorch.{function}() is only supported in inference. In a model for training, use "
            "Python's control flow (loops are unrolled) or torch.where "
            f"(called at {user_location()})."
        )
