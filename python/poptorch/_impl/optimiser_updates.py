"""The optimiser of a wrapper: described for the compiler, and its changes sent to the device."""

import torch
from poptorch._impl import optimisers
from poptorch._impl.compiled import Compiled
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
    options.Training._set_running_mean()
    options._freeze()
    return options


def send(compiled: Compiled, optimizer: torch.optim.Optimizer, model: torch.nn.Module) -> None:
    """Writes the optimiser's values to the device.

    Raises poptorch.Error where a constant attribute or the structure changed.
    """
    executable, watch = compiled.executable, compiled.optimiser
    spec = described(optimizer, model, compiled.options)
    held = {name for name, _, _, _ in executable.states()}
    for slot, value in optimisers.changes(watch.spec, spec).items():
        if slot in held:  # a dampening without momentum has no slot
            executable.write_state(slot, torch.tensor(value, dtype=torch.float64))
    for slot, factor in optimisers.rescaled(watch.spec, spec).items():
        if slot in held:
            executable.write_state(slot, executable.read_state(slot) * factor)
    optimizer._opt_called = True
    watch.look_for_new_names(optimizer)
    watch.take(optimizer, spec)
