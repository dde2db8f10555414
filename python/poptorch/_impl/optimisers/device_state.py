"""Transfer of optimiser state between device and host, for `state_dict()` of optimisers.

Every optimiser that a wrapper uses has a `Record`, so that its state outlives the wrapper.
"""

import weakref
from collections.abc import Callable

import torch
from poptorch._impl.devices import faults, ipu_pool
from poptorch._impl.inspection import progress
from poptorch._impl.optimisers.group_values import values_of
from poptorch._impl.optimisers.loaded_values import LoadedValues
from poptorch._impl.optimisers.names import Names, all_renamed, named_parameters, parts
from poptorch._impl.optimisers.state_names import (
    ONE_STEP,
    STEP,
    parameters_of,
    slots_of,
    steps_among,
)
from poptorch._impl.optimisers.step_counts import step_counts
from poptorch._impl.wrapper.state import Wrapper, wrapper_state
from poptorch._logging import logger_of

logger = logger_of(__name__)


class Record:
    """The device's part of one optimiser.

    Several wrappers may use the optimiser, also of models that have only some parameters in common.
    The device of one of them has the newest state; another takes it over before its next step.

    state, parameters: the last known `ipu_state` and `ipu_param` of all wrappers, or None.
    loaded: `state` comes from the host and is not on the device yet.
    values: the values of a loaded `ipu_param`, until the next setOptimizer(); or None.
    is_loading: load_state_dict() is calling setOptimizer().
    sent: the description with the values that a device was given last, or None.
    newest: the wrapper, while its device may have made updates that the host does not know.
    steps_before: updates before those on the device, for optimisers that the device does not count.
    """

    def __init__(
        self, state=None, parameters=None, loaded: bool = False, values: LoadedValues | None = None
    ) -> None:
        self.state = state
        self._parameters: dict | Callable[[], dict] | None = parameters
        self.loaded = loaded
        self.values = values
        self.is_loading = False
        self.sent: dict | None = None
        self.newest: Wrapper | None = None
        self.steps_before = 0
        self.names = Names()
        self.known_at: int | None = None  # DeviceState.begun when `state` equalled the device's
        self._optimizer: weakref.ref | None = None
        self._as_loaded = False  # `state` and `parameters` are exactly those of load()
        self._steps_seen = 0  # the device's updates that `state` includes
        self._wrapper: weakref.ref | None = None

    @classmethod
    def of(cls, optimizer) -> "Record":
        """Returns the optimiser's record; creates it at the first call."""
        record = optimizer.__dict__.get("_ipu_record")
        if record is None:
            record = optimizer.__dict__.setdefault("_ipu_record", cls())
        record.belong_to(optimizer)
        return record

    def belong_to(self, optimizer: torch.optim.Optimizer) -> None:
        """Stores the optimiser of a new or copied record."""
        if self._optimizer is None:
            self._optimizer = weakref.ref(optimizer)

    def __getstate__(self) -> tuple:
        values = self.values and self.values.without_former()
        return self.state, self.parameters, self.loaded, values

    def __setstate__(self, state: tuple) -> None:
        Record.__init__(self, *state)

    def _owner(self) -> torch.optim.Optimizer:
        optimizer = None if self._optimizer is None else self._optimizer()
        assert optimizer is not None
        return optimizer

    def join(self, wrapper: Wrapper) -> None:
        """Records that a wrapper uses the optimiser."""
        names = self.names.join(wrapper)
        if names and self.state is not None:
            self.state = all_renamed(self.state, names)
        if names and self.parameters is not None:
            self.parameters = all_renamed(self.parameters, names)

    @property
    def parameters(self) -> dict | None:
        """The last known `ipu_param`, whose many tensors are made when they are first read."""
        held = self._parameters
        if not callable(held):
            return held
        made = held()
        if self._parameters is held:  # another thread may have fetched newer ones
            self._parameters = made
        return made

    @parameters.setter
    def parameters(self, parameters: dict | Callable[[], dict] | None) -> None:
        self._parameters = parameters

    @property
    def wrapper(self) -> Wrapper | None:
        """The wrapper whose device runs the optimiser, or None."""
        return None if self._wrapper is None else self._wrapper()

    @property
    def compiled(self):
        """The compiled model of that wrapper, or None."""
        return None if self.wrapper is None else wrapper_state(self.wrapper).compiled

    @property
    def is_behind(self) -> bool:
        """Whether the device has made updates since its state was read."""
        compiled = self.compiled
        if compiled is None or self.loaded or faults.is_lost(compiled):
            return False
        return self.state is None or device_steps(compiled) != self._steps_seen

    def bind(self, wrapper: Wrapper) -> None:
        """Binds the optimiser to the device of `wrapper`; uploads loaded state.

        Raises poptorch.Error if the state does not fit the compiled model.
        """
        self.join(wrapper)
        compiled = existing_on(wrapper)
        self._wrapper = weakref.ref(wrapper)
        self.known_at = None
        self.steps_before -= device_steps(compiled)
        if self.loaded:
            self.upload()
        elif not faults.is_lost(compiled):
            self._see_at_first(compiled)
        self.sent = compiled.spec
        compiled.device.has_optimiser = True

    def unbind(self, wrapper: Wrapper) -> None:
        """Saves the state before the device is released or used by another optimiser."""
        if self.wrapper is wrapper:
            compiled = existing_on(wrapper)
            if self._as_loaded:  # `state` lacks what the loaded dict did not have
                self.known_at = None
            self.refresh()
            self.steps_before += device_steps(compiled)
            self.loaded, self._as_loaded = self.state is not None, False
            self._wrapper = self.newest = None
            compiled.device.has_optimiser = False

    def refresh(self) -> None:
        """Fetches the state if a device has a newer one. Offline there is no device."""
        compiled = self.compiled
        if compiled is None or self.loaded:
            return
        if not ipu_pool.is_online(compiled.options):
            return
        if faults.is_lost(compiled):
            self.loaded = self.state is not None
            self.steps_before -= device_steps(compiled) - self._steps_seen
            self._steps_seen = device_steps(compiled)  # the others are lost
            self.newest = None
            return
        if self.known_at == compiled.device.begun:
            logger.debug("Using cached optimiser state dict")
            if not self._as_loaded:
                self._parameters = self._parameters_on(compiled)
            return
        logger.info("Writing optimiser state tensors from IPU to host.")
        self._fetch(compiled)

    def _fetch(self, compiled) -> None:
        if not ipu_pool.is_online(compiled.options):
            return
        with _bar("Optimiser state to the host", compiled):
            found = self._read(compiled)
        self.state = {**self._of_others(self.state), **found}
        self._parameters = self._parameters_on(compiled)
        self._steps_seen = device_steps(compiled)
        self.known_at, self._as_loaded = compiled.device.begun, False
        self.newest = None

    def _parameters_on(self, compiled) -> Callable[[], dict[str, torch.Tensor]]:
        """Returns a function that makes the `ipu_param` of the device as it is now."""
        assert self.wrapper is not None
        spec, names, values = compiled.spec, self.names.of(self.wrapper), self.values
        others = {} if self._elsewhere() is None else self._of_others(self.parameters)

        def made() -> dict[str, torch.Tensor]:
            found = all_renamed(parameters_of(spec), names)
            return {**others, **(found if values is None else values.shown(found))}

        return made

    def _of_others(self, held: dict | None) -> dict:
        """Returns the entries that belong to parameters which the wrapper's model does not have."""
        if not held or self.wrapper is None or not (elsewhere := self._elsewhere()):
            return {}
        return {key: value for key, value in held.items() if elsewhere(parts(key)[1])}

    def _elsewhere(self) -> Callable[[str], bool] | None:
        """Returns whether a name belongs to a parameter that the wrapper's model does not have.

        None: the model has all parameters of the optimiser.
        """
        wrapper, optimizer = self.wrapper, self._owner()
        assert wrapper is not None
        own = {id(tensor) for _, tensor in named_parameters(wrapper)}
        if all(id(t) in own for group in optimizer.param_groups for t in group["params"]):
            return None
        names = set(self.names.of(wrapper).values())
        return lambda name: bool(name) and name not in names

    def _see(self, compiled) -> None:
        """Fetches the state, or leaves that to refresh() if other processes have parts of it."""
        if any(compiled.executable.owners(slot) for slot in slots_of(compiled).values()):
            self.state = self.known_at = None
        else:
            self._fetch(compiled)

    def _see_at_first(self, compiled) -> None:
        """Fetches the state of the device that the optimiser is bound to.

        A device that has made no update has the initial state: refresh() fetches that if it is
        asked for, because the copy takes as much memory as the device's own. A state that belongs
        to several wrappers is fetched at once, because it is joined with the others'.
        """
        if device_steps(compiled) == 0 and self._elsewhere() is None:
            self.state, self.known_at, self._steps_seen = None, None, 0
        else:
            self._see(compiled)

    def _read(self, compiled) -> dict[str, torch.Tensor]:
        """Reads the state of the device.

        For a parameter with a value per group of replicas, the first dimension of its count of
        updates is the number of groups, too.
        """
        assert self.wrapper is not None
        wrapped = wrapper_state(self.wrapper).wrapped
        groups, replicas = wrapped.groupings.of(wrapped.model), wrapped.groupings.replicas
        found, values = {}, {}
        for name, slot in slots_of(compiled).items():
            if slot not in values:
                values[slot] = compiled.executable.fetch_state(slot)
            found[name] = values[slot].clone() if name.startswith(STEP) else values[slot]
            group = groups.get(name.removeprefix(STEP)) if name.startswith(STEP) else None
            if group is not None and group.values(replicas) > 1:
                found[name] = values[slot].repeat(group.values(replicas))
        names = self.names.of(self.wrapper)
        return all_renamed(found, names)

    def load_values(self, parameters: dict | None) -> None:
        """Makes the device use the values of `ipu_param`, at once or after a compilation.

        Raises poptorch.Error if it cannot have one of the values; nothing is changed then.
        """
        wrapper, before = self.wrapper, self.values
        optimizer = self._owner()
        if parameters is not None:
            self.values = LoadedValues(
                dict(parameters),
                None if wrapper is None else self.sent,
                [values_of(group, index) for index, group in enumerate(optimizer.param_groups)],
                getattr(optimizer, "loss_scaling", 1.0),
            )
        if wrapper is None:
            return
        self.is_loading = True
        try:
            wrapper.setOptimizer(optimizer)
        except BaseException:
            self.values = before
            raise
        finally:
            self.is_loading = False

    def load(self, state: dict) -> None:
        """Loads `ipu_state` and `ipu_param` of a state_dict; the state also onto a bound device.

        Raises RuntimeError for dicts that are not the state of an IPU optimiser.
        """
        self.check_loadable(state)
        self.state, self.parameters = state["ipu_state"], state.get("ipu_param")
        self.loaded = self._as_loaded = self.state is not None
        if self.loaded and self.compiled is not None:
            self.upload()

    @staticmethod
    def check_loadable(state: dict) -> None:
        """Raises RuntimeError for dicts that are not the state of an IPU optimiser."""
        if not state:
            raise RuntimeError("Cannot load optimizer state dictionary because it is empty.")
        if "ipu_state" not in state:
            raise RuntimeError(
                "Only IPU optimizer states can be loaded onto the IPU. Use the state_dict of an "
                "optimizer of poptorch.optim."
            )

    def upload_loaded(self) -> None:
        """Uploads loaded state, if there is any and the optimiser is bound to a device."""
        if self.loaded and self.compiled is not None:
            self.upload()

    def add(self, state: dict) -> None:
        """Adds state that a state_dict does not include, and uploads it if there is a device."""
        self.state = {**(self.state or {}), **state}
        self.loaded = True
        if self.compiled is not None:
            self.upload()

    def upload(self) -> None:
        """Writes loaded state to the device. Values that are not in it stay unchanged.

        After a device fault, the state is written when the device is attached again.
        """
        compiled = self.compiled
        if faults.is_lost(compiled):
            return
        assert self.wrapper is not None
        names = self.names.of(self.wrapper)
        executable = compiled.executable
        slots = all_renamed(slots_of(compiled), names)
        given = {**dict.fromkeys(steps_among(slots), self.state.get(ONE_STEP)), **self.state}
        given = {name: value for name, value in given.items() if value is not None}
        given.pop(ONE_STEP, None)
        if not self._as_loaded:
            given |= step_counts(given, slots, compiled)
        else:
            others = self._of_others(given)
            own = {name: value for name, value in given.items() if name not in others}
            self._warn_of_missing(own, slots, self._parameters_on(compiled)())
        logger.info("Writing optimiser state tensors from host to IPU memory.")
        with _bar("Optimiser state to the device", compiled):
            for name, slot in slots.items():
                if name in given:
                    # Torch counts in float32, and keeps moments in the weight's dtype.
                    held = executable.read_state(slot)
                    value = given[name].flatten()[0] if name.startswith(STEP) else given[name]
                    executable.write_state(slot, value.to(held.dtype))
        self.loaded = False
        if self._as_loaded:
            self.known_at = compiled.device.begun
            self._steps_seen = device_steps(compiled)
        else:
            self._see(compiled)

    def _warn_of_missing(self, given: dict, slots: dict, parameters: dict) -> None:
        start = "writeOptimizerState: ignoring missing"
        for name in sorted(given.keys() - slots.keys()):
            logger.warning(f"{start} state {name}: this model has no place for it")
        for name in sorted(slots.keys() - given.keys()):
            logger.warning(f"{start} state {name}: the device keeps what it has")
        if self.parameters is not None:
            others = self._of_others(parameters)
            for name in sorted(parameters.keys() - self.parameters.keys() - others.keys()):
                logger.warning(f"{start} parameter {name}: the optimiser keeps what it has")


def existing_on(wrapper: Wrapper):
    """Returns the compiled model of a wrapper that has one."""
    compiled = wrapper_state(wrapper).compiled
    assert compiled is not None
    return compiled


def device_steps(compiled) -> int:
    """Returns the number of updates since the compilation."""
    return compiled.device.runs * compiled.options.device_iterations


def _bar(title: str, compiled):
    """Returns the progress bar of a transfer of all optimiser state."""

    def size() -> int:
        return compiled.state_bytes({"optimiser_state"})

    return progress.of_bytes(title, size, compiled.options)
