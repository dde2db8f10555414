"""Numbers of updates to write to a device that counts them for several parameters together."""

from collections.abc import Mapping

import torch
from poptorch._impl.optimisers.state_names import STEP, steps_among
from poptorch_core import Error


def step_counts(given: Mapping, slots: Mapping[str, str], compiled) -> dict[str, torch.Tensor]:
    """Returns the number of updates of every parameter in `slots`, for its slot.

    given: state by name; a parameter without a number has had no update.
    Raises poptorch.Error if parameters that share a slot have different numbers, and these matter.
    """
    by_slot: dict[str, dict[str, int]] = {}
    for name in steps_among(slots):
        count = int(given[name].flatten()[0]) if name in given else 0
        by_slot.setdefault(slots[name], {})[name] = count
    found: dict[str, torch.Tensor] = {}
    for counts in by_slot.values():
        most, least = max(counts, key=counts.__getitem__), min(counts, key=counts.__getitem__)
        if counts[most] != counts[least] and _counts_matter(compiled.spec):
            raise Error(
                f"[optimiser] {compiled.name} was compiled with one number of updates for all "
                f"parameters, but {most.removeprefix(STEP)} has had {counts[most]} updates and "
                f"{least.removeprefix(STEP)} {counts[least]}, because other wrappers with this "
                "optimizer update other parameters. Call destroy() on the wrapper: its next call "
                "compiles it with a number for each parameter."
            )
        found |= dict.fromkeys(counts, torch.tensor(counts[most], dtype=torch.float64))
    return found


def _counts_matter(spec: dict) -> bool:
    """Returns whether an update depends on the number of earlier ones."""
    if spec["kind"] == "sgd":  # torch does not dampen the first velocity
        return any(
            "dampening" in group["variable"] or group["values"].get("dampening")
            for group in spec["groups"]
        )
    return any(group["values"].get("bias_correction", 1.0) for group in spec["groups"])
