"""Forward-mode derivatives in a trace: torch.autograd.forward_ad, and so torch.func.linearize.

A dual is a leaf and its tangent. The tangent of a result is the derivative of a pull-back by its
seed, along the tangents of all duals of the level.
"""

from collections.abc import Callable
from typing import Any

import torch
from poptorch._impl.trace.patches.gradients import leaf, of_transform
from torch._functorch import eager_transforms
from torch.autograd import forward_ad
from torch.fx.experimental import const_fold
from torch.utils import _pytree as trees

_duals: list[tuple[torch.Tensor, torch.Tensor]] = []
_followed_before: list[bool] = []  # whether gradients were enabled outside of the level


def _enter_level() -> int:
    if _followed_before:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _followed_before.append(torch.is_grad_enabled())
    torch.set_grad_enabled(True)
    return 0


def _exit_level(*, level: int | None = None) -> None:
    del level
    _duals.clear()
    torch.set_grad_enabled(_followed_before.pop())


def _make_dual(tensor: torch.Tensor, tangent: torch.Tensor, *, level: int | None = None) -> Any:
    del level
    dual = leaf(tensor)
    _duals.append((dual, tangent))
    return dual


def _unpack_dual(tensor: torch.Tensor, *, level: int | None = None) -> Any:
    del level
    if not _duals or not tensor.is_floating_point():
        return forward_ad.UnpackedDualTensor(tensor, None)
    primals, tangents = zip(*_duals, strict=True)
    seed = leaf(torch.zeros_like(tensor))
    (tangent,) = of_transform(of_transform([tensor], primals, [seed]), [seed], tangents)
    return forward_ad.UnpackedDualTensor(tensor, tangent)


def _run_again(function: Callable) -> Callable:
    """Replaces make_fx in linearize: the trace records the function, so no graph is needed."""
    return lambda _: lambda *tangents: trees.tree_leaves(function(tangents))


# (holder, name, replacement)
REPLACEMENTS: list[tuple[Any, str, Callable]] = [
    (forward_ad, "enter_dual_level", _enter_level),
    (forward_ad, "exit_dual_level", _exit_level),
    (forward_ad, "make_dual", _make_dual),
    (forward_ad, "unpack_dual", _unpack_dual),
    (eager_transforms, "lazy_dynamo_disallow", lambda function: function),
    (eager_transforms, "make_fx", _run_again),
    (const_fold, "split_const_subgraphs", lambda graph: graph),
]
