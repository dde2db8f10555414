"""Loops and branches as functions. In a wrapped model their bodies run once, to be recorded: the
device then repeats one body, and runs one of two branches.

Bodies get copies of their inputs and give copies of their results, so that what is written of those
in place stays where it was written. What bodies write of other tensors is written, as in Python.
"""

from collections.abc import Callable
from typing import Any

import torch
from poptorch import _native
from poptorch_core import Error


def for_loop(count: int, body: Callable, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors after `count` rounds of `inputs = body(*inputs)`; in inference only.

    body: gives as many tensors as it takes, of the same shapes and dtypes. It may use tensors from
    around it; those that it writes in place keep what the rounds made of them. On the host it runs
    `count` times. In a wrapped model it runs once, to be recorded, and the device repeats it: the
    program does not grow with `count`, and random numbers differ between rounds.
    Raises ValueError for inputs that are no list of tensors, poptorch.Error for other results.
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
    """The results of `then_body(*then_inps)` where condition holds, else those of the other body.

    condition: one boolean; a number holds unless it is zero. One of the bodies runs: on the host by
    `if`, in a wrapped model (of inference only) on the device, after both have been recorded.
    Bodies may use and write tensors from around them, as in Python.
    Raises ValueError for inputs that are no lists of tensors, poptorch.Error for bodies whose
    results differ in number, shape or dtype, and for a condition of several elements.
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
            "[cond] both bodies must give the same shapes and dtypes, but then_body gave "
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
                f"[{function}] a body gave {type(result).__name__}, which is no tensor. Return "
                "one tensor, or a list or tuple of tensors."
            )
    return results


def _round(inputs: list[torch.Tensor], made: Any) -> list[torch.Tensor]:
    results = _results("for_loop", made)
    if _types(results) != _types(inputs):
        raise Error(
            f"[for_loop] the body must give tensors like those it takes, {_types(inputs)}, but "
            f"gave {_types(results)}. Return one of the same shape and dtype for each."
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
            f"poptorch.{function}() is only supported in inference. In a model for training write "
            "it in Python (a loop unrolls), or with torch.where."
        )
