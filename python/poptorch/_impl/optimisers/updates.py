"""The optimiser of a wrapper: described for the compiler, and its changes sent to the device."""

import torch
from poptorch._impl.optimisers import description, foreign_parameters, popart_log, torch_state
from poptorch._impl.optimisers.device_state import Record
from poptorch._impl.options.definitions import set_running_mean
from poptorch._impl.options.stored_values import state_of
from poptorch._impl.wrapper.compiled_model import Compiled
from poptorch._impl.wrapper.state import Wrapper, wrapper_state
from poptorch.enums import MeanReductionStrategy, ReductionType
from poptorch.options import Options


def described(optimizer: torch.optim.Optimizer, model: torch.nn.Module, options: Options) -> dict:
    """Describes an optimiser, with the options that affect gradients: see describe()."""
    spec = description.describe(optimizer, model)
    training = options.Training
    spec["automatic_loss_scaling"] = training.auto_loss_scaling
    is_mean = training.accumulation_and_replication_reduction_type == ReductionType.Mean
    asked = training.meanAccumulationAndReplicationReductionStrategy
    spec["running_mean"] = is_mean and (
        asked == MeanReductionStrategy.Running or description.needs_running_mean(optimizer)
    )
    return spec


def with_needs(options: Options, spec: dict) -> Options:
    """Returns the options; a frozen copy with a running mean if the optimiser needs one."""
    strategy = options.Training.meanAccumulationAndReplicationReductionStrategy
    if not spec["running_mean"] or strategy == MeanReductionStrategy.Running:
        return options
    options = options.clone()
    set_running_mean(options.Training)
    state_of(options).freeze()
    return options


def mark_as_stepped(optimizer: torch.optim.Optimizer) -> None:
    """Prevents the warning of torch's schedulers that no optimiser step preceded theirs."""
    vars(optimizer)["_opt_called"] = True


def exchange(wrapper: Wrapper, compiled: Compiled, optimizer: torch.optim.Optimizer) -> None:
    """Makes the device use the values and the state of `optimizer`.

    Raises poptorch.Error if a constant attribute, the structure or the state does not fit; the
    device then keeps the former optimiser.
    """
    state, watch = wrapper_state(wrapper), compiled.optimiser
    former = state.optimizer
    assert former is not None
    assert watch is not None
    model = state.wrapped.trained_model
    spec, former_spec = described(optimizer, model, compiled.options), watch.spec
    write_changes(compiled, former_spec, spec)
    foreign_parameters.warn(optimizer, model)
    popart_log.tell(optimizer, spec)
    if description.rescaled(former_spec, spec):
        Record.of(former).known_at = None
    mark_as_stepped(optimizer)
    watch.look_for_new_names(optimizer)
    if optimizer is former:
        watch.take(optimizer, spec)
        return
    torch_state.unbind(former, wrapper)
    try:
        watch.take(optimizer, spec)
        torch_state.bind(optimizer, wrapper)
    except BaseException:
        write_changes(compiled, spec, former_spec)
        watch.take(former, former_spec)
        torch_state.bind(former, wrapper)
        raise


def write_changes(compiled: Compiled, before: dict, after: dict) -> None:
    """Writes the values in which the description `after` differs from `before` to the device.

    Raises poptorch.Error if a constant or the structure differs.
    """
    executable = compiled.executable
    held = {name for name, _, _, _ in executable.states()}
    for slot, value in description.changes(before, after).items():
        if slot in held:  # a dampening without momentum has no slot
            executable.write_state(slot, torch.tensor(value, dtype=torch.float64))
    for slot, factor in description.rescaled(before, after).items():
        if slot in held:
            executable.write_state(slot, executable.read_state(slot) * factor)
