"""The numbers of an optimiser's parameter group that determine its update."""

import torch
from poptorch_core import Error

# Entries of param_groups that determine the update. Others, such as those that schedulers add, do
# not change results.
_NUMBERS = (
    *("lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize", "amsgrad", "centered"),
    *("eps", "alpha", "velocity_scaling", "max_weight_norm"),
)


def _number(name: str, value, group: int) -> float:
    if isinstance(value, torch.Tensor):
        value = value.item()
    if not isinstance(value, (bool, int, float)):
        raise Error(
            f"[optimiser] group {group}: {name} is {value!r}, but the device needs a number."
        )
    return float(value)


def values_of(group: dict, index: int) -> dict[str, float]:
    """Returns the numbers of a parameter group, with betas as beta1 and beta2."""
    values = {}
    for name, value in group.items():
        if name == "betas":
            values["beta1"], values["beta2"] = (_number(name, beta, index) for beta in value)
        elif name in _NUMBERS and value is not None:
            values[name] = _number(name, value, index)
    return values
