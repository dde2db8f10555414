"""The optimiser of a wrapper: described for the compiler, and its changes sent to the device."""

from dataclasses import dataclass

import torch
from poptorch._impl.optimisers import description, foreign_parameters, popart_log, torch_state
from poptorch._impl.optimisers.device_state import Record
from poptorch._impl.optimisers.names import named_parameters
from poptorch._impl.options.definitions import set_running_mean
from poptorch._impl.options.stored_values import state_of
from poptorch._impl.wrapper.compiled_model import Compiled
from poptorch._impl.wrapper.host_changes import OptimiserWatch
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
    record = Record.of(optimizer)
    if record.values is not None:
        spec = record.values.applied(spec, record.names.in_groups(optimizer))
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


def use(wrapper: Wrapper, optimizer: torch.optim.Optimizer) -> None:
    """Makes `optimizer` the wrapper's optimiser: see exchange()."""
    state = wrapper_state(wrapper)
    former = state.optimizer
    if state.compiled is not None:
        exchange(wrapper, state.compiled, optimizer)
    else:
        description.kind_of(optimizer)
        Record.of(optimizer).join(wrapper)
    if former is not None and former is not optimizer:
        Record.of(former).names.leave(wrapper)
    state.optimizer = optimizer


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
    record = Record.of(optimizer)
    values = record.values
    if not record.is_loading:
        record.values = None
    try:
        spec, former_spec = described(optimizer, model, compiled.options), watch.spec
        _Exchange(wrapper, compiled, watch, former, former_spec, optimizer, spec).run()
    except BaseException:
        record.values = values
        raise


def take_over(wrapper: Wrapper, compiled: Compiled) -> None:
    """Takes the optimiser's newest state, and the values that another wrapper was given last.

    Raises poptorch.Error if they do not fit the compiled model.
    """
    state, watch = wrapper_state(wrapper), compiled.optimiser
    optimizer = state.optimizer
    assert optimizer is not None
    assert watch is not None
    sent, former_spec = Record.of(optimizer).sent, watch.spec
    spec = former_spec if sent is None else _with_values(former_spec, sent)
    write_changes(compiled, former_spec, spec)
    _Exchange(wrapper, compiled, watch, optimizer, former_spec, optimizer, spec).replace()


@dataclass(frozen=True)
class _Exchange:
    """The change of a wrapper's optimiser from the former one to another, with descriptions."""

    wrapper: Wrapper
    compiled: Compiled
    watch: OptimiserWatch
    former: torch.optim.Optimizer
    former_spec: dict
    optimizer: torch.optim.Optimizer
    spec: dict

    def run(self) -> None:
        """Gives the device the values of the optimiser, and its state if that is another one's."""
        write_changes(self.compiled, self.former_spec, self.spec)
        foreign_parameters.warn(self.optimizer, wrapper_state(self.wrapper).wrapped.trained_model)
        popart_log.tell(self.optimizer, self.spec)
        if description.rescaled(self.former_spec, self.spec):
            Record.of(self.former).known_at = None
        mark_as_stepped(self.optimizer)
        self.watch.look_for_new_names(self.optimizer)
        if self.optimizer is self.former and self.compiled.device.has_optimiser:
            self.watch.take(self.optimizer, self.spec)
            Record.of(self.optimizer).sent = self.spec
        else:
            self.replace()

    def replace(self) -> None:
        """Binds the device, which has the values of `spec`, to the optimiser.

        An error restores the former values and bindings.
        """
        had_optimiser = self.compiled.device.has_optimiser
        torch_state.unbind(self.former, self.wrapper)
        other = torch_state.unbind_from_others(self.optimizer, self.wrapper)
        try:
            self.watch.take(self.optimizer, self.spec)
            torch_state.bind(self.optimizer, self.wrapper)
        except BaseException:
            write_changes(self.compiled, self.spec, self.former_spec)
            self.watch.take(self.former, self.former_spec)
            if had_optimiser:
                torch_state.bind(self.former, self.wrapper)
            if other is not None:
                torch_state.bind(self.optimizer, other)
            raise


def _with_values(spec: dict, sent: dict) -> dict:
    """Returns a description with the values of another wrapper's; parameters stay the same."""
    own: list[list[str]] = [group["parameters"] for group in spec["groups"]]
    own += [[]] * (len(sent["groups"]) - len(own))
    groups = [
        {**group, "parameters": parameters}
        for group, parameters in zip(sent["groups"], own, strict=False)
    ]
    kept = {name: spec[name] for name in ("running_mean", "automatic_loss_scaling")}
    return {**sent, **kept, "groups": groups}


def needs_separate_steps(optimizer: torch.optim.Optimizer, wrapper: Wrapper) -> bool:
    """Returns whether parameters of the wrapper may have different numbers of updates.

    The host must have the newest state.
    """
    if len(torch_state.counts(optimizer, wrapper)) > 1:
        return True
    record = Record.of(optimizer)
    others = [other for other in record.names.wrappers() if other is not wrapper]
    updated = _updated(optimizer, wrapper) if others else set()
    return any(_updated(optimizer, other) != updated for other in others)


def _updated(optimizer: torch.optim.Optimizer, wrapper: Wrapper) -> set[int]:
    """Returns the ids of the parameters that the wrapper updates."""
    held = {id(tensor) for group in optimizer.param_groups for tensor in group["params"]}
    with torch._C.DisableTorchFunctionSubclass():
        return {
            id(tensor)
            for _, tensor in named_parameters(wrapper)
            if tensor.requires_grad and id(tensor) in held
        }


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
