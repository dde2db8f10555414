"""Log lines, in PopART's wording, about optimisers that are sent to the device."""

import torch
from poptorch._impl.optimisers import description
from poptorch._impl.optimisers.group_values import values_of
from poptorch._logging import logger_of

logger = logger_of(__name__)

_NAMES = {
    "lr": "learningRate",
    "weight_decay": "weightDecay",
    "momentum": "momentum",
    "dampening": "dampening",
    "velocity_scaling": "velocityScaling",
    "nesterov": "nesterov",
    "beta1": "beta1",
    "beta2": "beta2",
    "eps": "eps",
    "max_weight_norm": "maxWeightNorm",
    "alpha": "alpha",
}
_NEVER_DEFAULT = ("nesterov",)
_TYPES = {
    "accumulator_type": "accumType",
    "first_moment_type": "firstOrderMomentumAccumType",
    "second_moment_type": "secondOrderMomentumAccumType",
}
_TYPE_NAMES = {"f16": "float16", "f32": "float32"}


def tell(optimizer: torch.optim.Optimizer, spec: dict) -> None:
    """Logs the optimiser's values on the device. spec: the result of describe()."""
    kind = description.shown_kind(spec).split("_")[0]
    tail = _tail(kind, spec)
    defaults = {**spec["groups"][0]["values"], **values_of(optimizer.defaults, 0)}
    shown = _shown(kind, defaults, spec["groups"][0], spec)
    named = {_default_name(name): text for name, text in shown.items()}
    scaling = _number(spec["loss_scaling"], spec["loss_scaling_variable"])
    logger.debug(
        f"Updating graph optimizer with {kind}, {_joined({**named, 'lossScaling': scaling})}{tail}"
    )
    for index, group in enumerate(spec["groups"]):
        values = _joined(_shown(kind, group["values"], group, spec))
        logger.debug(
            f"Updating group {index} optimizer with {kind}, {values}{tail} for (tensors affected "
            f"{', '.join(group['parameters'])})"
        )


def _shown(kind: str, values: dict, group: dict, spec: dict) -> dict[str, str]:
    found = {
        _NAMES[name]: _number(value, name in group["variable"])
        for name, value in values.items()
        if name in _NAMES
    }
    if kind == "SGD2":  # scales its velocity by the loss scaling
        found["velocityScaling"] = _number(spec["loss_scaling"], spec["loss_scaling_variable"])
    return found


def _default_name(name: str) -> str:
    return name if name in _NEVER_DEFAULT else f"default{name[0].upper()}{name[1:]}"


def _number(value: float, is_variable: bool) -> str:
    return f"{value:g}" + ("" if is_variable else " (const)")


def _joined(named: dict[str, str]) -> str:
    return ", ".join(f"{name}={text}" for name, text in sorted(named.items()))


def _tail(kind: str, spec: dict) -> str:
    types = "" if kind == "SGD1" else "".join(
        f", {shown}={_TYPE_NAMES[spec[name]]}" for name, shown in _TYPES.items()
    )  # fmt: skip
    variant = int(spec["groups"][0]["values"].get("use_tf_variant", 0))
    return f"{types}, useTfVariant={variant}, maxGradNorm={spec['max_grad_norm']:g}"
