"""Steps on the host of optimisers whose update differs from torch's."""

from collections.abc import Callable
from typing import Any

import torch

_Update = Callable[[torch.Tensor, torch.Tensor, dict, dict], None]


def torchs_step(kind: Any) -> Any:
    """Returns the `step` of a class of torch.optim, without the hooks that torch adds to classes.

    The class of the caller has these hooks, too, and they must run once.
    """
    step = kind.step
    return step.__wrapped__ if hasattr(step, "hooked") else step


def uncorrected_adamw_step(optimizer: torch.optim.Optimizer, closure: Any) -> Any:
    """Makes a step of AdamW without bias correction; returns the closure's loss, or None."""
    return _step(optimizer, closure, _adamw)


def lamb_step(optimizer: torch.optim.Optimizer, closure: Any, bias_correction: bool) -> Any:
    """Makes a step of LAMB; returns the closure's loss, or None."""
    return _step(optimizer, closure, _lamb if bias_correction else _uncorrected_lamb)


@torch.no_grad()
def _step(optimizer: torch.optim.Optimizer, closure: Any, update: _Update) -> Any:
    loss = None
    if closure is not None:
        with torch.enable_grad():
            loss = closure()
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            state = optimizer.state[parameter]
            if not state:
                state["step"] = torch.tensor(0.0)
                state["exp_avg"] = torch.zeros_like(parameter)
                state["exp_avg_sq"] = torch.zeros_like(parameter)
            state["step"] += 1
            sign = -1.0 if group.get("maximize") else 1.0
            update(parameter, sign * parameter.grad, state, group)
    return loss


def _moments(gradient: torch.Tensor, state: dict, group: dict) -> tuple[torch.Tensor, torch.Tensor]:
    """Updates and returns the first and the second moment."""
    beta1, beta2 = group["betas"]
    first, second = state["exp_avg"], state["exp_avg_sq"]
    first.mul_(beta1).add_(gradient, alpha=1 - beta1)
    second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    return first, second


def _adamw(parameter: torch.Tensor, gradient: torch.Tensor, state: dict, group: dict) -> None:
    parameter.mul_(1 - group["lr"] * group["weight_decay"])
    first, second = _moments(gradient, state, group)
    parameter.sub_(group["lr"] * first / (second.sqrt() + group["eps"]))


def _lamb(parameter: torch.Tensor, gradient: torch.Tensor, state: dict, group: dict) -> None:
    first, second = _moments(gradient, state, group)
    (beta1, beta2), steps = group["betas"], float(state["step"])
    _follow(parameter, first / (1 - beta1**steps), second / (1 - beta2**steps), group)


def _uncorrected_lamb(
    parameter: torch.Tensor, gradient: torch.Tensor, state: dict, group: dict
) -> None:
    _follow(parameter, *_moments(gradient, state, group), group)


def _follow(
    parameter: torch.Tensor, first: torch.Tensor, second: torch.Tensor, group: dict
) -> None:
    """Moves a parameter by lr and the trust ratio of LAMB."""
    update = first / (second.sqrt() + group["eps"]) + group["weight_decay"] * parameter
    weight_norm = parameter.norm().clamp(max=group["max_weight_norm"])
    update_norm = update.norm()
    trust = torch.where((weight_norm > 0) & (update_norm > 0), weight_norm / update_norm, 1.0)
    parameter.sub_(group["lr"] * trust * update)
