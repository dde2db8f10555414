"""Loops and branches as functions. A trace has neither: loops unroll, branches both run.

Bodies get copies of their inputs, so that what they write in place stays theirs.
"""

from collections.abc import Callable

import torch
from poptorch import _native
from poptorch_core import Error


def for_loop(count: int, body: Callable, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors after `count` rounds of `inputs = body(*inputs)`; in inference only.

    body: gives as many tensors as it takes, of the same shapes and dtypes.
    Raises ValueError for inputs that are no list of tensors, poptorch.Error for other results.
    """
    _check_tensors("for_loop", inputs)
    _refuse_training("for_loop")
    state = [tensor.clone() for tensor in inputs]
    for _ in range(count):
        made = _as_list(body(*state))
        expected, got = ([(tuple(t.shape), t.dtype) for t in side] for side in (inputs, made))
        if got != expected:
            raise Error(
                f"[for_loop] the body must give tensors like those it takes, {expected}, but gave "
                f"{got}. Return one of the same shape and dtype for each."
            )
        state = made
    return state


def cond(
    condition: torch.Tensor,
    then_body: Callable,
    then_inps: list[torch.Tensor],
    else_body: Callable,
    else_inps: list[torch.Tensor],
) -> list[torch.Tensor]:
    """The results of `then_body(*then_inps)` where condition holds, else those of the other body.

    condition: one boolean. In a wrapped model (of inference only) both bodies run, and the
    condition selects; on the host one of them runs.
    Raises ValueError for inputs that are no lists of tensors, poptorch.Error for bodies whose
    results differ in number, shape or dtype.
    """
    _check_tensors("cond", then_inps)
    _check_tensors("cond", else_inps)
    _refuse_training("cond")
    if not _native.is_tracing():
        body, inputs = (then_body, then_inps) if condition else (else_body, else_inps)
        return _as_list(body(*(tensor.clone() for tensor in inputs)))
    results = _as_list(then_body(*(tensor.clone() for tensor in then_inps)))
    others = _as_list(else_body(*(tensor.clone() for tensor in else_inps)))
    left, right = ([(tuple(t.shape), t.dtype) for t in side] for side in (results, others))
    if left != right:
        raise Error(
            f"[cond] both bodies must give the same shapes and dtypes, but then_body gave {left} "
            f"and else_body {right}."
        )
    chosen = condition.reshape(()).bool()
    return [torch.where(chosen, a, b) for a, b in zip(results, others, strict=True)]


def _as_list(result) -> list[torch.Tensor]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


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
