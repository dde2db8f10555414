"""Anchored tensors, which a wrapper returns besides the model's results: names and values."""

import difflib

import torch
from poptorch._impl.optimisers import state_names
from poptorch._impl.options import core_table
from poptorch._impl.wrapper.compiled_model import Compiled
from poptorch.enums import OutputMode
from poptorch.options import Options
from poptorch_core import Error

LOSS_SCALE = "finalLossScale"


def requests(options: Options, input_names: list[str]) -> list[tuple[str, int, int]]:
    """Returns (name, output mode, period) of every anchor, for the compiler."""
    inputs = {name: f"input{i}" for i, name in enumerate(input_names)}
    inputs.setdefault("input", "input0")
    mode = options.output_mode, options.output_return_period
    asked = []
    for name, is_models, own_mode, period in options.anchored_tensors.values():
        chosen = mode if is_models else (own_mode, period)
        if not is_models and _is_never(options, own_mode, period):
            chosen = OutputMode.Final, 1  # for the tensor's shape
        asked.append((inputs.get(name, name), *chosen))
    return asked


def _is_never(options: Options, mode: int, period: int) -> bool:
    """Returns whether EveryN selects nothing because a run has fewer micro-batches than N."""
    micro_batches = core_table.execution_of(options).micro_batches
    return mode == OutputMode.EveryN and period > micro_batches


def check(compiled: Compiled) -> None:
    """Raises poptorch.Error for an anchor whose name matches no tensor."""
    found = {index for index, _ in compiled.executable.anchored()}
    for index, (name, *_) in enumerate(compiled.options.anchored_tensors.values()):
        if index not in found and not _states_asked(compiled, name):
            known = names(compiled)
            close = difflib.get_close_matches(name, known, 3, 0.3) or known[:3]
            raise Error(
                f"[anchorTensor] the model has no tensor {name}. The closest are "
                f"{', '.join(close)}; getTensorNames() lists all."
            )


def names(compiled: Compiled) -> list[str]:
    """Returns the names of all tensors that can be anchored."""
    values = compiled.executable.anchor_names()
    return [*dict.fromkeys([*_state_names(compiled), *values])]


def _slots(compiled: Compiled) -> dict[str, str]:
    kind = compiled.spec["kind"] if compiled.spec else None
    return state_names.states_by_name(compiled.executable, kind)


def _state_names(compiled: Compiled) -> list[str]:
    found = list(_slots(compiled))
    if compiled.spec is None:
        return found
    rates = state_names.RATES if compiled.spec["kind"] == "sgd" else ()
    return [*found, LOSS_SCALE, *rates]


def _states_asked(compiled: Compiled, pattern: str) -> list[str]:
    """Returns the names of the states and optimiser values that match an anchor's name."""
    if compiled.spec is not None and _rate(compiled, pattern) is not None:
        return [pattern]
    return state_names.matching(pattern, _state_names(compiled))


def _rate(compiled: Compiled, name: str) -> torch.Tensor | None:
    return state_names.rate(name, compiled.trained_spec, loss_scale(compiled))


def loss_scale(compiled: Compiled) -> torch.Tensor:
    """Returns the current loss scale."""
    scale = torch.tensor(compiled.trained_spec["loss_scaling"])
    if compiled.trained_spec["automatic_loss_scaling"]:
        scale = scale * compiled.executable.read_state("optimiser.loss_scale_factor").float()
    return scale


def value(compiled: Compiled, short_name: str) -> torch.Tensor | dict[str, torch.Tensor]:
    """Returns the last run's value; a dict by name if the anchor's name matches several tensors.

    If EveryN selects nothing, the first dimension is 0.
    """
    executable, device = compiled.executable, compiled.device
    anchors = compiled.options.anchored_tensors
    index = list(anchors).index(short_name)
    found = {
        name: tensor
        for (asked, name), tensor in zip(executable.anchored(), device.anchored, strict=True)
        if asked == index
    }
    slots = _slots(compiled)
    for name in _states_asked(compiled, anchors[short_name][0]):
        if name in slots:
            found[name] = executable.fetch_state(slots[name])
        else:
            number = device.loss_scale if name == LOSS_SCALE else _rate(compiled, name)
            assert number is not None
            found[name] = number
    _, is_models, mode, period = anchors[short_name]
    if not is_models and _is_never(compiled.options, mode, period):
        found = {name: tensor[:0] if tensor.dim() else tensor[None][:0]
                 for name, tensor in found.items()}  # fmt: skip
    return next(iter(found.values())) if len(found) == 1 else found


def take(compiled: Compiled, results: list[torch.Tensor]) -> list[torch.Tensor]:
    """Stores a run's anchored tensors; returns the model's results."""
    kept = len(results) - len(compiled.executable.anchored())
    compiled.device.anchored = results[kept:]
    return results[:kept]
