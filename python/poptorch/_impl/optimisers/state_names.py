"""Names of an optimiser's state and values: in its state_dict, on the device and as anchors."""

import fnmatch
import re
import weakref
from collections.abc import Iterable, Mapping
from typing import cast

import torch

STEP, SCALE_FACTOR = "Step___", "lossScaleUpdateFactor"
ONE_STEP = "Step"  # the common count of all parameters in older state dictionaries
# Kind of optimiser → prefixes in a state_dict of the state `optimiser.<what>.<parameter>`.
_MOMENTS = {"exp_avg": "Accl1___", "exp_avg_sq": "Accl2___"}
PREFIXES = {
    "sgd": {"momentum_buffer": "Accl___"},
    "adam": _MOMENTS,
    "adamw": _MOMENTS,
    "lamb": _MOMENTS,
    "rmsprop": {"square_avg": "Accl1___", "momentum_buffer": "Accl2___", "grad_avg": "Accl3___"},
}
# Names of hyper-parameters in `ipu_param`.
_PARAMETER_NAMES = {
    "lr": "learningRate",
    "weight_decay": "weightDecay",
    "velocity_scaling": "velocityScaling",
    "max_weight_norm": "maxWeightNorm",
}
SGD_RATES = ("scaledLearningRate0", "weightDecayScaleFactor0")
_ALWAYS_LISTED = ("lr", "weight_decay")


def slots_of(compiled) -> dict[str, str]:
    """Returns the device's states by their names in a state_dict. The caller must not change it."""
    known = _slots_of.get(compiled)
    if known is None:
        known = _slots_of[compiled] = _slots(compiled.executable, compiled.spec["kind"])
    return known


_slots_of: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def _slots(executable, kind: str) -> dict[str, str]:
    """Returns the device's states by their names in a state_dict and as anchors.

    The common count of updates has a name for each parameter.
    """
    held = [
        slot.split(".", 2)[1:]
        for slot, what, _, _ in executable.states()
        if what == "optimiser_state"
    ]
    parameters = dict.fromkeys(rest[0] for _, *rest in held if rest)
    found: dict[str, str] = {}
    for what, *parameter in held:
        if what == "step" and parameter:
            found[STEP + parameter[0]] = f"optimiser.step.{parameter[0]}"
        elif what == "step":
            found |= {STEP + name: "optimiser.step" for name in parameters}
        elif what == "loss_scale_factor":
            found[SCALE_FACTOR] = f"optimiser.{what}"
        else:
            found[PREFIXES[kind][what] + parameter[0]] = f"optimiser.{what}.{parameter[0]}"
    return found


def steps_among(names: Iterable[str]) -> list[str]:
    """Returns the names that are counts of updates."""
    return [name for name in names if name.startswith(STEP)]


def steps_in(state: Mapping[str, torch.Tensor], otherwise: int) -> int:
    """Returns the number of updates in a state_dict, or `otherwise` if it has no count."""
    names = [name for name in (*steps_among(state), ONE_STEP) if name in state]
    return max((int(state[name].flatten()[0]) for name in names), default=otherwise)


def parameters_of(spec: dict) -> dict[str, torch.Tensor]:
    """Returns the `ipu_param` of a described optimiser."""
    found = {"lossScaling_FLOAT": torch.tensor(spec["loss_scaling"])}
    scale = found["lossScaling_FLOAT"]
    for group in spec["groups"]:
        if spec["kind"] == "sgd":
            for what in SGD_RATES:
                value = cast(torch.Tensor, _rate_of(group["values"], what[:-1], what[-1], scale))
                names = (f"{what}___specific___{p}" for p in group["parameters"])
                found |= {name: value.clone() for name in names}
            continue
        for name, value in group["values"].items():
            for shown in filter(None, (listed(name, group),)):
                for parameter in group["parameters"]:
                    found[f"{shown}___specific___{parameter}"] = torch.tensor(value)
    return found


def listed(name: str, group: dict) -> str | None:
    """Returns the name of a group's value in `ipu_param`, or None if it is not there.

    Like PopART's, the dict leaves out constants, except for those in `_ALWAYS_LISTED`.
    """
    if name in _ALWAYS_LISTED or name in group["variable"]:
        return _PARAMETER_NAMES.get(name, name)
    return None


def states_by_name(executable, kind: str | None) -> dict[str, str]:
    """Returns the device's states by all names that refer to them."""
    found = {}
    for slot, what, _, _ in executable.states():
        if what in ("parameter", "buffer"):
            found[slot] = slot
        if what == "parameter" and kind is not None:
            found[f"UpdatedVar___{slot}"] = slot
    return found if kind is None else found | _slots(executable, kind)


def matching(pattern: str, names) -> list[str]:
    """Returns the names that a pattern with * and ? matches."""
    return [name for name in names if fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))]


RATES = tuple(f"{name}___default___FLOAT" for name in SGD_RATES)
_RATE = re.compile(
    r"(?P<what>scaledLearningRate|weightDecayScaleFactor)(?P<variant>[012]?)"
    r"(___specific___(?P<parameter>.+)|___default___.*)?"
)


def rate(name: str, spec: dict, loss_scale: torch.Tensor) -> torch.Tensor | None:
    """Returns the 0-d float32 value of an anchor of PopART's SGD, or None for other names.

    scaledLearningRate0 = lr * (1 - dampening) / loss scaling. The variants with momentum are
    scaledLearningRate1 (combined accumulator) = lr / velocity scaling and scaledLearningRate2
    (separate one) = lr. weightDecayScaleFactor0 = 1 - lr * (1 - dampening) * weight decay.
    PopART's SGDs scale gradients, velocities and weights by these factors. With
    `___specific___<parameter>` they belong to that parameter's group, else to the first group.
    """
    asked = _RATE.fullmatch(name)
    if asked is None or spec["kind"] != "sgd":
        return None
    parameter = asked["parameter"]
    held = [g for g in spec["groups"] if parameter is None or parameter in g["parameters"]]
    if not held:
        return None
    return _rate_of(held[0]["values"], asked["what"], asked["variant"] or "0", loss_scale)


def _rate_of(
    values: Mapping[str, float], what: str, variant: str, loss_scale: torch.Tensor
) -> torch.Tensor | None:
    """Returns a rate of a group with these values: see rate()."""
    undamped = values["lr"] * (1 - values.get("dampening", 0.0))
    if what == "weightDecayScaleFactor":
        factor = 1 - undamped * values.get("weight_decay", 0.0)
        return torch.tensor(factor) if variant == "0" else None
    if variant == "0":
        return torch.tensor(undamped) / loss_scale
    scaling = values.get("velocity_scaling", 1.0) if variant == "1" else 1.0
    return torch.tensor(values["lr"] / scaling)
