"""The values of a loaded `ipu_param`, which the device uses until the next setOptimizer()."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from poptorch._impl.optimisers.state_names import SGD_RATES, listed
from poptorch_core import Error

_SCALING = "lossScaling_FLOAT"
_Tensors = dict[str, torch.Tensor]


class LoadedValues(NamedTuple):
    """A loaded `ipu_param`.

    parameters: the entries by name.
    former: the description of the values that the device had before, if it had an optimiser.
    groups, loss_scaling: the values of the optimiser when it was loaded. If the program changes
        one of them afterwards, the new value counts.
    """

    parameters: _Tensors
    former: dict | None
    groups: list[dict[str, float]]
    loss_scaling: float

    def without_former(self) -> "LoadedValues":
        """Returns the values for a copy of the optimiser."""
        return self._replace(former=None)

    def applied(self, spec: dict, names: list[list[str]]) -> dict:
        """Returns a description of an optimiser with the loaded values.

        names: the names of the parameters of each group, as in a state_dict.
        Raises poptorch.Error if the device cannot have these values.
        """
        former = self.former if self.former and _fit(self.former, spec) else spec
        scaling = _chosen(
            self.parameters.get(_SCALING), (spec["loss_scaling"], former["loss_scaling"])
        )
        if spec["loss_scaling"] != self.loss_scaling:
            scaling = spec["loss_scaling"]
        groups = []
        for index, group in enumerate(spec["groups"]):
            known = group["values"], former["groups"][index]["values"]
            asked = self._asked(spec["kind"], group, names[index], index)
            if spec["kind"] == "sgd":
                values = _sgd_values(asked, known, scaling)
            else:
                values = {
                    name: _chosen(asked.get(shown), [v.get(name, value) for v in known])
                    for name, value in group["values"].items()
                    for shown in filter(None, (listed(name, group),))
                }
            before = self.groups[index] if index < len(self.groups) else group["values"]
            changed = {n: v for n, v in group["values"].items() if v != before.get(n, v)}
            groups.append({**group, "values": {**group["values"], **values, **changed}})
        return {**spec, "loss_scaling": scaling, "groups": groups}

    def _asked(self, kind: str, group: dict, names: Iterable[str], index: int) -> _Tensors:
        """Returns the loaded values of a group; raises poptorch.Error if there are several."""
        shown = SGD_RATES if kind == "sgd" else [listed(n, group) for n in group["values"]]
        found: _Tensors = {}
        for what in filter(None, shown):
            for name in names:
                key = f"{what}___specific___{name}"
                value = self.parameters.get(key)
                if value is None:
                    continue
                known = found.setdefault(what, value)
                if float(known) != float(value):
                    raise Error(
                        f"[optimiser] the loaded ipu_param has {float(value)} for {key} and "
                        f"{float(known)} for another parameter of group {index}, but a group has "
                        "one value. Put the parameters into separate groups."
                    )
        return found

    def shown(self, parameters: _Tensors) -> _Tensors:
        """Returns `ipu_param` with the loaded entries as they were loaded."""
        exact = {
            key: value
            for key, value in self.parameters.items()
            if key in parameters and torch.allclose(value, parameters[key], rtol=1e-5, atol=0.0)
        }
        return {**parameters, **exact}


def _fit(former: dict, spec: dict) -> bool:
    return former["kind"] == spec["kind"] and len(former["groups"]) == len(spec["groups"])


def _chosen(asked: torch.Tensor | None, known: Iterable[float]) -> float:
    """Returns the known number that is equal to the loaded one in float32, else the loaded one.

    Returns the last known number if none was loaded.
    """
    known = list(known)
    if asked is None:
        return known[-1]
    return next((value for value in known if torch.tensor(value) == asked), float(asked))


def _sgd_values(asked: _Tensors, known: tuple[dict, dict], scaling: float) -> dict[str, float]:
    """Returns the values of a group whose factors in PopART's SGD are the loaded ones."""
    now, former = known
    kept = 1 - now.get("dampening", 0.0)
    values = {"lr": former["lr"], "weight_decay": former.get("weight_decay", 0.0)}
    rate_asked, decay_asked = (asked.get(name) for name in SGD_RATES)

    def undamped(lr: float) -> torch.Tensor:
        return torch.tensor(lr * kept) / torch.tensor(scaling)

    if rate_asked is not None:
        computed = float(rate_asked) * scaling / kept if kept else now["lr"]
        values["lr"] = _first(now["lr"], former["lr"], computed, rate_asked, undamped)
    step = values["lr"] * kept
    if decay_asked is not None:
        computed = (1 - float(decay_asked)) / step if step else now.get("weight_decay", 0.0)
        decays = now.get("weight_decay", 0.0), former.get("weight_decay", 0.0)
        values["weight_decay"] = _first(
            *decays, computed, decay_asked, lambda decay: torch.tensor(1 - step * decay)
        )
    return values


def _first(
    now: float,
    former: float,
    computed: float,
    asked: torch.Tensor,
    shown: Callable[[float], torch.Tensor],
) -> float:
    return next((value for value in (now, former) if shown(value) == asked), computed)
