"""Descriptions of torch.optim and poptorch.optim optimisers for the compiler, and later changes."""

import weakref
from typing import Any

import torch
from poptorch import optim
from poptorch._impl.optimisers import foreign_parameters
from poptorch._impl.optimisers.group_values import values_of
from poptorch._impl.weights import members
from poptorch._logging import logger_of
from poptorch_core import Error

logger = logger_of(__name__)

# Class → the compiler's kind.
_KINDS = {
    torch.optim.SGD: "sgd",
    torch.optim.AdamW: "adamw",
    torch.optim.Adam: "adam",
    torch.optim.RMSprop: "rmsprop",
    optim.LAMB: "lamb",
}
_TORCH_DEFAULTS: dict[str, dict[str, Any]] = {
    "sgd": {"momentum": 0, "dampening": 0, "weight_decay": 0},
    "adam": {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0},
    "adamw": {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 1e-2},
    "rmsprop": {"alpha": 0.99, "eps": 1e-8, "weight_decay": 0, "momentum": 0},
}
# Suffixes of PopART's names for kinds of optimisers: (value of a group, its number, suffix).
_SUFFIXES = (("bias_correction", 0.0, "_NO_BIAS"), ("centered", 1.0, "_CENTERED"))
# Attributes that are always compiled in.
_STRUCTURE = ("nesterov", "maximize", "amsgrad", "centered")


_warned_about: weakref.WeakSet = weakref.WeakSet()


def kind_of(optimiser: torch.optim.Optimizer) -> str:
    """Returns the compiler's kind; raises AssertionError for optimisers that are not supported."""
    kind = next((_KINDS[c] for c in type(optimiser).__mro__ if c in _KINDS), None)
    given = (
        f"class {optimiser.__name__}" if isinstance(optimiser, type) else type(optimiser).__name__
    )
    if kind is None:
        raise AssertionError(
            f"Unsupported optimizer type: {given}. Use an object of SGD, Adam, AdamW, RMSprop or "
            "LAMB of poptorch.optim, or of SGD, Adam, AdamW or RMSprop of torch.optim."
        )
    known = (*_KINDS, optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop)
    if type(optimiser) not in known and optimiser not in _warned_about:
        _warned_about.add(optimiser)
        logger.warning(
            f"Optimizer `{type(optimiser).__name__}` subclassed from classes in poptorch.optim or "
            "torch.optim are unlikely to behave as intended. Poptorch does not run Python "
            f"optimizer code directly; this one runs as {kind}, without the subclass's changes."
        )
    return kind


def shown_kind(spec: dict) -> str:
    """Returns PopART's name for the update of a description, for messages."""
    kind, values = spec["kind"], spec["groups"][0]["values"]
    if kind == "sgd":
        return "SGD1" if "velocity_scaling" in values else "SGD2"  # SGD2: separate accumulators
    for name, value, suffix in _SUFFIXES:
        if values.get(name) == value:
            return kind.upper() + suffix
    return kind.upper()


def _variable_names(optimiser, kind: str, group: dict) -> set[str]:
    """Returns torch's names of a group's attributes that may change after the compilation."""
    variable_attrs = getattr(optimiser, "variable_attrs", None)
    if variable_attrs is not None:
        return {name for name in group if name in variable_attrs.variable}
    defaults = _TORCH_DEFAULTS[kind]
    changed = {name for name, value in defaults.items() if group.get(name) != value}
    return {"lr"} | changed


def _global_value(optimiser, name: str) -> float:
    """Returns a number of the whole optimiser; param_groups take precedence and must agree."""
    own = getattr(optimiser, name, optim.Optimizer.GLOBAL_EXTRAS.get(name))
    in_groups = {group[name] for group in optimiser.param_groups if name in group}
    if len(in_groups) > 1:
        raise Error(
            f"[optimiser] {name} is one number for all parameter groups, but they have "
            f"{sorted(in_groups)}. Set {name} of the optimizer instead."
        )
    value = in_groups.pop() if in_groups else own
    if not isinstance(value, (int, float)) or not value > 0:
        raise Error(f"[optimiser] {name} must be a number above zero but is {value!r}.")
    return float(value)


def describe(optimiser: torch.optim.Optimizer, model: torch.nn.Module) -> dict:
    """Describes the optimiser for the compiler: see `compile` in poptorch_core/_torch.pyi."""
    kind = kind_of(optimiser)
    centered = {bool(group.get("centered")) for group in optimiser.param_groups}
    if len(centered) != 1:
        raise AssertionError(
            "All parameter groups must have the same value of centered, because it determines the "
            "update's structure. Use one value for all of them."
        )
    names = {id(tensor): name for name, tensor in members.named_parameters(model)}
    _check_parameters(optimiser, model, names)
    groups = []
    for index, group in enumerate(optimiser.param_groups):
        if group.get("amsgrad"):
            raise ValueError("[optimiser] AMSGrad is not supported. Leave amsgrad at False.")
        values = values_of(group, index)
        _add_globals(optimiser, values)
        variable = _variable_names(optimiser, kind, group)
        if "betas" in variable:
            variable |= {"beta1", "beta2"}
        groups.append(
            {
                "values": values,
                "variable": sorted(n for n in variable if n in values and n not in _STRUCTURE),
                "parameters": [names[id(p)] for p in group["params"] if id(p) in names],
            }
        )
    attrs = getattr(optimiser, "variable_attrs", None)
    second = "second_order_momentum_accum_type"
    first = "velocity_accum_type" if kind == "sgd" else "first_order_momentum_accum_type"
    return {
        "kind": kind,
        "groups": groups,
        "loss_scaling": _global_value(optimiser, "loss_scaling"),
        "loss_scaling_variable": attrs is not None and "loss_scaling" in attrs.variable,
        "max_grad_norm": _global_value(optimiser, "max_grad_norm"),
        "accumulator_type": _type_name(optimiser, "accum_type"),
        "first_moment_type": _type_name(optimiser, first),
        "second_moment_type": _type_name(optimiser, second),
    }


def _check_parameters(optimiser, model: torch.nn.Module, names: dict[int, str]) -> None:
    """Raises poptorch.Error if no parameter belongs to the model, or one is there twice."""
    held = [id(p) for group in optimiser.param_groups for p in group["params"]]
    if len(set(held)) < len(held):
        twice = next(key for key in held if held.count(key) > 1)
        groups = [
            index
            for index, group in enumerate(optimiser.param_groups)
            for parameter in group["params"]
            if id(parameter) == twice
        ]
        raise Error(
            f"[optimiser] {names.get(twice, 'a parameter')} is {len(groups)} times in the "
            f"optimizer's parameter groups (numbers {', '.join(map(str, groups))}), but a step "
            "updates it once. Pass each parameter once."
        )
    foreign_parameters.check(optimiser, model)


def _add_globals(optimiser, values: dict[str, float]) -> None:
    """Adds the settings of the whole optimiser that differ from their defaults."""
    if getattr(optimiser, "bias_correction", True) is False:
        values["bias_correction"] = 0.0
    if getattr(optimiser, "use_tf_variant", False):
        values["use_tf_variant"] = 1.0
    if not getattr(optimiser, "use_combined_accum", False):
        values.pop("velocity_scaling", None)


def _type_name(optimiser, name: str) -> str:
    return optim.FLOATS[getattr(optimiser, name, torch.float32)]


def needs_running_mean(optimiser: torch.optim.Optimizer) -> bool:
    """Returns whether gradients need a running mean because a float16 sum could overflow.

    SGD with use_combined_accum does not have a separate accumulator.
    """
    if getattr(optimiser, "use_combined_accum", False):
        return False
    return getattr(optimiser, "accum_type", torch.float32) == torch.float16


def changes(compiled: dict, new: dict) -> dict[str, float]:
    """Returns the state to write so that a compiled optimiser uses the values of `new`.

    Raises poptorch.Error if a constant or the structure differs, ValueError if the mean of
    gradients would need another strategy.
    """
    if compiled["kind"] != new["kind"] or len(compiled["groups"]) != len(new["groups"]):
        raise Error(
            f"[optimiser] the model is compiled for {compiled['kind']} with "
            f"{len(compiled['groups'])} group(s), but setOptimizer got {new['kind']} with "
            f"{len(new['groups'])}. Call destroy() first, or wrap the model again."
        )
    if compiled["running_mean"] != new["running_mean"]:
        is_running, needs_running = (
            "Running" if spec["running_mean"] else "Post" for spec in (compiled, new)
        )
        raise ValueError(
            f"[setOptimizer] the accum_type of the new optimizer needs MeanReductionStrategy."
            f"{needs_running}, but the model, with MeanReductionStrategy.{is_running}, is already "
            "compiled. Call destroy() first, or keep the accum_type."
        )
    for name in ("accumulator_type", "first_moment_type", "second_moment_type"):
        if compiled[name] != new[name]:
            raise _constant_changed(name, "", compiled[name], new[name])
    slots = {}
    for index, (old, group) in enumerate(zip(compiled["groups"], new["groups"], strict=True)):
        for name in sorted(old["values"].keys() | group["values"].keys()):
            before, after = old["values"].get(name), group["values"].get(name)
            if name in old["variable"]:
                slots[f"optimiser.{name}.{index}"] = after
            elif before != after:
                raise _constant_changed(name, f" of group {index}", before, after)
    if compiled["loss_scaling_variable"]:
        slots["optimiser.loss_scaling"] = new["loss_scaling"]
    elif compiled["loss_scaling"] != new["loss_scaling"]:
        raise _constant_changed("loss_scaling", "", compiled["loss_scaling"], new["loss_scaling"])
    if compiled["max_grad_norm"] != new["max_grad_norm"]:
        norms = compiled["max_grad_norm"], new["max_grad_norm"]
        raise _constant_changed("max_grad_norm", "", *norms)
    return slots


def rescaled(before: dict, after: dict) -> dict[str, float]:
    """Returns factors for velocities whose velocity_scaling changes, by state."""
    return {
        f"optimiser.momentum_buffer.{name}": group["values"][key] / old["values"][key]
        for old, group in zip(before["groups"], after["groups"], strict=True)
        for key in ("velocity_scaling",)
        if group["values"].get(key, 1.0) != old["values"].get(key, 1.0)
        for name in old["parameters"]
    }


def _constant_changed(name: str, where: str, before, after) -> Error:
    attribute = "betas" if name in ("beta1", "beta2") else name
    return Error(
        f"[optimiser] {name}{where} is compiled in as the constant {before} but is now {after}. "
        f"Call variable_attrs.markAsVariable('{attribute}') on a poptorch.optim optimiser before "
        "compiling, or call destroy() first."
    )
