"""The optimiser of a wrapper: described for the compiler, and its changes sent to the device."""

import torch
from poptorch._impl import optimiser_log, optimisers, torch_state
from poptorch._impl.compiled import Compiled
from poptorch._impl.optimiser_state import Record
from poptorch._impl.option_groups import set_running_mean
from poptorch._impl.option_state import state_of
from poptorch.enums import MeanReductionStrategy, ReductionType
from poptorch.options import Options


def described(optimizer: torch.optim.Optimizer, model: torch.nn.Module, options: Options) -> dict:
    """See optimisers.describe; with what the options say of gradients."""
    spec = optimisers.describe(optimizer, model)
    training = options.Training
    spec["automatic_loss_scaling"] = training.auto_loss_scaling
    is_mean = training.accumulation_and_replication_reduction_type == ReductionType.Mean
    asked = training.meanAccumulationAndReplicationReductionStrategy
    spec["running_mean"] = is_mean and (
        asked == MeanReductionStrategy.Running or optimisers.needs_running_mean(optimizer)
    )
    return spec


def with_needs(options: Options, spec: dict) -> Options:
    """The options, frozen; where the optimiser needs a running mean, a copy that says so."""
    strategy = options.Training.meanAccumulationAndReplicationReductionStrategy
    if not spec["running_mean"] or strategy == MeanReductionStrategy.Running:
        return options
    options = options.clone()
    set_running_mean(options.Training)
    state_of(options).freeze()
    return options


def exchange(executor, compiled: Compiled, optimizer: torch.optim.Optimizer) -> None:
    """The device goes on with the values, and the state, of `optimizer`.

    Raises poptorch.Error where a constant attribute, the structure or the state does not fit; then
    it goes on as before.
    """
    former, watch = executor._optimizer, compiled.optimiser
    spec, former_spec = described(optimizer, executor._wrapped.model, compiled.options), watch.spec
    write_changes(compiled, former_spec, spec)
    optimiser_log.tell(optimizer, spec)
    if optimisers.rescaled(former_spec, spec):
        Record.of(former).known_at = None
    optimizer._opt_called = True
    watch.look_for_new_names(optimizer)
    if optimizer is former:
        watch.take(optimizer, spec)
        return
    torch_state.unbind(former, executor)
    try:
        watch.take(optimizer, spec)
        torch_state.bind(optimizer, executor)
    except BaseException:
        write_changes(compiled, spec, former_spec)
        watch.take(former, former_spec)
        torch_state.bind(former, executor)
        raise


def write_changes(compiled: Compiled, before: dict, after: dict) -> None:
    """The device, which has the values of the description `before`, gets those of `after`.

    Raises poptorch.Error where a constant or the structure differs.
    """
    executable = compiled.executable
    held = {name for name, _, _, _ in executable.states()}
    for slot, value in optimisers.changes(before, after).items():
        if slot in held:  # a dampening without momentum has no slot
            executable.write_state(slot, torch.tensor(value, dtype=torch.float64))
    for slot, factor in optimisers.rescaled(before, after).items():
        if slot in held:
            executable.write_state(slot, executable.read_state(slot) * factor)
