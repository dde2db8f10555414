"""State of torch.optim optimisers, which is in torch's `optimizer.state` while it is on the host.

state_dict() includes the device's state. When a wrapper releases the optimiser, the state moves to
`optimizer.state`. State that exists at the compilation, or is loaded later, is uploaded.

Torch rounds loaded state to the weight's dtype, except for entries that belong to no weight. With
half weights, a state_dict() has the device's moments in such an entry, too, so that no bit is lost.
"""

import weakref
from functools import partial
from typing import Any

import torch
from poptorch._impl.optimisers.device_state import Record, device_steps
from poptorch._impl.optimisers.names import named_parameters, renamed
from poptorch._impl.optimisers.state_names import ONE_STEP, PREFIXES, STEP, slots_of, steps_in
from poptorch._impl.wrapper.compiled_model import Compiled, existing
from poptorch._impl.wrapper.state import Wrapper, wrapper_state

_MOMENTS = {name for names in PREFIXES.values() for name in names}
_HOOKED = "_ipu_hooks"
_UNROUNDED = "ipu_moments"  # among the entries of `state`: {index of the weight: {name: moment}}


def bind(optimizer: torch.optim.Optimizer, wrapper: Wrapper) -> None:
    """Binds the optimiser to the device of `wrapper`.

    Raises an error and leaves the optimiser unchanged if its state does not fit the model.
    """
    record = Record.of(optimizer)
    before = dict(vars(record))
    try:
        if _is_torchs(optimizer):
            _take_from_host(optimizer, record, wrapper)
            if _HOOKED not in optimizer.__dict__:
                optimizer.__dict__[_HOOKED] = (
                    optimizer.register_state_dict_pre_hook(_before_state_dict),
                    optimizer.register_state_dict_post_hook(_after_state_dict),
                    optimizer.register_load_state_dict_post_hook(_after_load_state_dict),
                )
                optimizer.__dict__["__getstate__"] = partial(_pickled, weakref.ref(optimizer))
        record.bind(wrapper)
    except BaseException:
        vars(record).update(before)
        raise


def unbind(optimizer: torch.optim.Optimizer, wrapper: Wrapper) -> None:
    """Copies the state to the host before the device is released or used by another optimiser.

    Does nothing if the device of `wrapper` does not have the newest state.
    """
    record = Record.of(optimizer)
    if record.wrapper is not wrapper:
        return
    record.refresh()
    if _is_torchs(optimizer):
        _bring_to_host(optimizer, record, wrapper)
    record.unbind(wrapper)


def unbind_from_others(optimizer: torch.optim.Optimizer, wrapper: Wrapper) -> Wrapper | None:
    """Copies the state to the host if another wrapper's device has the newest; returns that one."""
    other = Record.of(optimizer).wrapper
    if other is None or other is wrapper:
        return None
    unbind(optimizer, other)
    return other


def counts(optimizer: torch.optim.Optimizer, wrapper: Wrapper) -> set[int]:
    """Returns the numbers of updates of the parameters that the wrapper updates.

    The host must have the newest state.
    """
    with torch._C.DisableTorchFunctionSubclass():
        updated = [item for item in _parameters(optimizer, wrapper) if item[1].requires_grad]
    if _is_torchs(optimizer):
        entries = optimizer.state
        if not entries:
            return {0} if updated else set()
        return {_steps_of(entries.get(parameter, {})) for _, parameter in updated}
    record = Record.of(optimizer)
    state, names = record.state or {}, record.names.of(wrapper)
    common = steps_in({key: state[key] for key in state if key == ONE_STEP}, 0)
    keys = [STEP + names[name] for name, _ in updated]
    return {steps_in({key: state[key]} if key in state else {}, common) for key in keys}


def _steps_of(entry: dict) -> int:
    """Returns the number of updates in torch's entry; for SGD 1 if there was an update."""
    if not entry:
        return 0
    has_moment = any(entry.get(name) is not None for name in _MOMENTS)
    return int(torch.as_tensor(entry.get("step", 1))) if has_moment else 0


def _is_torchs(optimizer: torch.optim.Optimizer) -> bool:
    return not hasattr(optimizer, "variable_attrs")


def _before_state_dict(optimizer: torch.optim.Optimizer) -> None:
    record = Record.of(optimizer)
    record.refresh()
    if record.wrapper is not None:
        _bring_to_host(optimizer, record, record.wrapper)


def _pickled(reference: weakref.ref) -> dict:
    """Returns the content of pickles and copies of the optimiser; torch has no hook for these."""
    optimizer = reference()
    assert optimizer is not None
    _before_state_dict(optimizer)
    kind: Any = type(optimizer)
    return kind.__getstate__(optimizer)


def _after_state_dict(optimizer: torch.optim.Optimizer, state_dict: dict) -> None:
    unrounded = {}
    for index, parameter in enumerate(_weights(optimizer)):
        entry = optimizer.state.get(parameter, {})
        wider = {n: entry[n] for n in _MOMENTS & entry.keys() if _is_wider(entry[n], parameter)}
        if wider:
            unrounded[index] = wider
    if unrounded:
        state_dict["state"][_UNROUNDED] = unrounded


def _restore_unrounded(optimizer: torch.optim.Optimizer) -> None:
    """Restores unrounded moments after load_state_dict(), unless they have changed since."""
    state: dict = optimizer.state  # by parameter, and the additional entry
    unrounded = state.pop(_UNROUNDED, {})
    if not unrounded:
        return
    for index, parameter in enumerate(_weights(optimizer)):
        entry = optimizer.state.get(parameter, {})
        for name, moment in unrounded.get(index, {}).items():
            if name in entry and torch.equal(moment.to(entry[name].dtype), entry[name]):
                entry[name] = moment.clone()


def _weights(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Returns all parameters in the order of the indices of a state_dict."""
    return [tensor for group in optimizer.param_groups for tensor in group["params"]]


def _is_wider(moment: torch.Tensor | None, parameter: torch.Tensor) -> bool:
    return moment is not None and moment.element_size() > parameter.element_size()


def _after_load_state_dict(optimizer: torch.optim.Optimizer) -> None:
    _restore_unrounded(optimizer)
    record = Record.of(optimizer)
    wrapper = record.wrapper
    if wrapper is not None and record.compiled is not None:
        record.refresh()
        _take_from_host(optimizer, record, wrapper, resets=True)
        if record.loaded:
            record.steps_before -= device_steps(record.compiled)
            record.upload()
        wrapper.setOptimizer(optimizer)


def steps(optimizer: torch.optim.Optimizer, compiled: Compiled) -> int:
    """Returns the number of updates so far."""
    record = Record.of(optimizer)
    record.refresh()
    return steps_in(record.state or {}, record.steps_before + device_steps(compiled))


def start_at(optimizer: torch.optim.Optimizer, steps: int) -> None:
    """Sets the number of updates before those that the device will run."""
    Record.of(optimizer).steps_before = steps


def _parameters(
    optimizer: torch.optim.Optimizer, wrapper: Wrapper
) -> list[tuple[str, torch.Tensor]]:
    """Returns name and tensor of the model's parameters that the optimiser updates."""
    held = {id(tensor) for tensor in _weights(optimizer)}
    return [item for item in named_parameters(wrapper) if id(item[1]) in held]


def _bring_to_host(optimizer: torch.optim.Optimizer, record: Record, wrapper: Wrapper) -> None:
    compiled = wrapper_state(wrapper).compiled
    if compiled is None:  # another thread's destroy() has copied it
        return
    state, kind = record.state or {}, compiled.trained_spec["kind"]
    common = steps_in(state, record.steps_before + device_steps(compiled))
    names = record.names.of(wrapper)
    for name, parameter in _parameters(optimizer, wrapper):
        name = names[name]
        steps = int(state.get(STEP + name, torch.tensor(common)).flatten()[0])
        entry = {
            what: state[prefix + name]
            for what, prefix in PREFIXES[kind].items()
            if prefix + name in state
        }
        if entry and steps > 0:  # torch creates state in the first step
            if kind != "sgd":
                entry["step"] = torch.tensor(float(steps))
            optimizer.state[parameter] = entry


def _take_from_host(
    optimizer: torch.optim.Optimizer, record: Record, wrapper: Wrapper, resets: bool = False
) -> None:
    """Makes the optimiser's state on the host the state to upload.

    Args:
        resets: moments that the host does not have become zero, as in torch's next step.
    """
    _restore_unrounded(optimizer)
    compiled = existing(wrapper_state(wrapper).compiled)
    kind, held = compiled.trained_spec["kind"], record.state or {}
    if not optimizer.state and not held and not resets:
        return
    found, steps, names = {}, {}, record.names.of(wrapper)
    reset = {renamed(key, names) for key in slots_of(compiled)} if resets else held
    for name, parameter in _parameters(optimizer, wrapper):
        entry, known = optimizer.state.get(parameter, {}), names[name]
        steps[name] = _steps_of(entry)
        for what, prefix in PREFIXES[kind].items():
            if entry.get(what) is not None:
                found[prefix + known] = entry[what].detach().clone()
            elif prefix + known in reset:
                found[prefix + known] = torch.zeros_like(held.get(prefix + known, parameter))
    if found:
        for key in slots_of(compiled):
            name = key.removeprefix(STEP)
            if key.startswith(STEP):
                found[STEP + names[name]] = torch.tensor(float(steps.get(name, 0)))
        record.steps_before = max(steps.values())
        record.state = {**held, **found}
        record.loaded = True
