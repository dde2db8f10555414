"""State of torch.optim optimisers: in torch's own `optimizer.state` whenever it is on the host.

The device's state comes into state_dict() and, when the wrapper lets the optimiser go, into
`optimizer.state`; what is there when a wrapper compiles, or is loaded later, goes to the device.
"""

import torch
from poptorch._impl.optimiser_state import PREFIXES, STEP, Record, slots_of

_HOOKED = "_ipu_hooks"


def bind(optimizer: torch.optim.Optimizer, executor) -> None:
    """The optimiser runs on the device of `executor` from here on."""
    record = Record.of(optimizer)
    if _is_torchs(optimizer):
        _take_from_host(optimizer, record, executor)
        if _HOOKED not in optimizer.__dict__:
            optimizer.__dict__[_HOOKED] = (
                optimizer.register_state_dict_pre_hook(_before_state_dict),
                optimizer.register_load_state_dict_post_hook(_after_load_state_dict),
            )
    record.bind(executor)


def unbind(optimizer: torch.optim.Optimizer, executor) -> None:
    """The device is about to go, or to another optimiser: its state comes to the host."""
    record = Record.of(optimizer)
    record.unbind(executor)
    if _is_torchs(optimizer):
        _bring_to_host(optimizer, record, executor)


def _is_torchs(optimizer: torch.optim.Optimizer) -> bool:
    return not hasattr(optimizer, "variable_attrs")


def _before_state_dict(optimizer: torch.optim.Optimizer) -> None:
    record = Record.of(optimizer)
    record.refresh()
    if record.executor is not None:
        _bring_to_host(optimizer, record, record.executor)


def _after_load_state_dict(optimizer: torch.optim.Optimizer) -> None:
    record = Record.of(optimizer)
    executor = record.executor
    if executor is not None and executor.isCompiled():
        record.refresh()
        _take_from_host(optimizer, record, executor)
        if record.loaded:
            record.upload()
        executor.setOptimizer(optimizer)


def _device_steps(executor) -> int:
    """Updates since the compilation."""
    return executor._runs * executor.options.device_iterations


def _parameters(optimizer: torch.optim.Optimizer, executor) -> list[tuple[str, torch.Tensor]]:
    """Name and tensor of the model's parameters that the optimiser updates."""
    held = {id(tensor) for group in optimizer.param_groups for tensor in group["params"]}
    return [item for item in executor._model.named_parameters() if id(item[1]) in held]


def _bring_to_host(optimizer: torch.optim.Optimizer, record: Record, executor) -> None:
    state, kind = record.state or {}, executor._optimiser_spec["kind"]
    steps = state.get(STEP, record.steps_before + _device_steps(executor))
    if steps == 0:  # torch makes state in the first step
        return
    for name, parameter in _parameters(optimizer, executor):
        entry = {
            what: state[prefix + name]
            for what, prefix in PREFIXES[kind].items()
            if prefix + name in state
        }
        if entry:
            if kind != "sgd":
                entry["step"] = torch.tensor(float(steps))
            optimizer.state[parameter] = entry


def _take_from_host(optimizer: torch.optim.Optimizer, record: Record, executor) -> None:
    kind = executor._optimiser_spec["kind"]
    found = {}
    for name, parameter in _parameters(optimizer, executor):
        entry = optimizer.state.get(parameter, {})
        for what, prefix in PREFIXES[kind].items():
            if entry.get(what) is not None:
                found[prefix + name] = entry[what].detach().clone()
                # One count for all; SGD only asks whether there was a step.
                steps = torch.as_tensor(entry.get("step", 1))
    if found:
        if STEP in slots_of(executor._executable, executor._optimiser_spec):
            found[STEP] = steps
        record.steps_before = int(steps) - _device_steps(executor)
        record.state = {**(record.state or {}), **found}
        record.loaded = True
