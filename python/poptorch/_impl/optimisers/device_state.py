"""Transfer of optimiser state between device and host, for `state_dict()` of optimisers.

Every optimiser that a wrapper uses has a `Record`, so that its state outlives the wrapper.
"""

import fnmatch
import re
import weakref
from collections.abc import Iterable, Mapping
from typing import cast

import torch
from poptorch._impl.devices import faults, ipu_pool
from poptorch._impl.inspection import progress
from poptorch._impl.wrapper.state import Wrapper, wrapper_state
from poptorch._logging import logger_of

logger = logger_of(__name__)

STEP, SCALE_FACTOR = "Step___", "lossScaleUpdateFactor"
_ONE_STEP = "Step"  # the common count of all parameters in older state dictionaries
# Kind of optimiser → prefixes in a state_dict of the state `optimiser.<what>.<parameter>`.
_MOMENTS = {"exp_avg": "Accl1___", "exp_avg_sq": "Accl2___"}
PREFIXES = {
    "sgd": {"momentum_buffer": "Accl___"},
    "adam": _MOMENTS,
    "adamw": _MOMENTS,
    "lamb": _MOMENTS,
    "rmsprop": {"square_avg": "Accl1___", "momentum_buffer": "Accl2___", "grad_avg": "Accl3___"},
}
# Names of hyper-parameters in `ipu_param`.
_PARAMETER_NAMES = {
    "lr": "learningRate",
    "weight_decay": "weightDecay",
    "velocity_scaling": "velocityScaling",
    "max_weight_norm": "maxWeightNorm",
}
_SGD_RATES = ("scaledLearningRate0", "weightDecayScaleFactor0")
# Flags, which `ipu_param` leaves out.
_STRUCTURE = (
    *("nesterov", "maximize", "amsgrad", "centered", "bias_correction", "use_tf_variant"),
)


class Record:
    """The device's part of one optimiser.

    state, parameters: the last known `ipu_state` and `ipu_param`, or None.
    loaded: `state` comes from the host and is not on the device yet.
    steps_before: updates before those on the device, for optimisers that the device does not count.
    """

    def __init__(self, state=None, parameters=None, loaded: bool = False) -> None:
        self.state = state
        self.parameters = parameters
        self.loaded = loaded
        self.steps_before = 0
        self.known_at: int | None = None  # DeviceState.begun when `state` equalled the device's
        self._as_loaded = False  # `state` and `parameters` are exactly those of load()
        self._steps_seen = 0  # the device's updates that `state` includes
        self._wrapper: weakref.ref | None = None

    @classmethod
    def of(cls, optimizer) -> "Record":
        """Returns the optimiser's record; creates it at the first call."""
        return optimizer.__dict__.setdefault("_ipu_record", cls())

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
        """Binds the optimiser to the device of `wrapper`; uploads loaded state."""
        self._wrapper = weakref.ref(wrapper)
        self.known_at = None
        if self.loaded:
            self.upload()
        elif not faults.is_lost(compiled := wrapper_state(wrapper).compiled):
            self._see(compiled)

    def unbind(self, wrapper: Wrapper) -> None:
        """Saves the state before the device is released or used by another optimiser."""
        if self.wrapper is wrapper:
            self.refresh()
            self.loaded, self._as_loaded = self.state is not None, False
            self._wrapper = None

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
            return
        if self.known_at == compiled.device.begun:
            logger.debug("Using cached optimiser state dict")
            if not self._as_loaded:
                self.parameters = _parameters(compiled.spec)
            return
        logger.info("Writing optimiser state tensors from IPU to host.")
        self._fetch(compiled)

    def _fetch(self, compiled) -> None:
        if not ipu_pool.is_online(compiled.options):
            return
        with _bar("Optimiser state to the host", compiled):
            self.state = self._read(compiled)
        self.parameters = _parameters(compiled.spec)
        self._steps_seen = device_steps(compiled)
        self.known_at, self._as_loaded = compiled.device.begun, False

    def _see(self, compiled) -> None:
        """Fetches the state, or leaves that to refresh() if other processes have parts of it."""
        if any(compiled.executable.owners(slot) for slot in slots_of(compiled).values()):
            self.state = self.known_at = None
        else:
            self._fetch(compiled)

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
        return found

    def load(self, state: dict) -> None:
        """Loads `ipu_state` and `ipu_param` of a state_dict, also onto the device if there is one.

        Raises RuntimeError for dicts that are not the state of an IPU optimiser.
        """
        if not state:
            raise RuntimeError("Cannot load optimizer state dictionary because it is empty.")
        if "ipu_state" not in state:
            raise RuntimeError(
                "Only IPU optimizer states can be loaded onto the IPU. Use the state_dict of an "
                "optimizer of poptorch.optim."
            )
        self.state, self.parameters = state["ipu_state"], state.get("ipu_param")
        self.loaded = self._as_loaded = self.state is not None
        if self.loaded and self.compiled is not None:
            self.upload()

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
        executable, slots = compiled.executable, slots_of(compiled)
        given = {**dict.fromkeys(_steps(slots), self.state.get(_ONE_STEP)), **self.state}
        given = {name: value for name, value in given.items() if value is not None}
        given.pop(_ONE_STEP, None)
        if self._as_loaded:
            self._warn_of_missing(given, slots, _parameters(compiled.spec))
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
            for name in sorted(parameters.keys() - self.parameters.keys()):
                logger.warning(f"{start} parameter {name}: the optimiser keeps what it has")


def device_steps(compiled) -> int:
    """Returns the number of updates since the compilation."""
    return compiled.device.runs * compiled.options.device_iterations


def slots_of(compiled) -> dict[str, str]:
    """Returns the device's states by their names in a state_dict."""
    return _slots(compiled.executable, compiled.spec["kind"])


def _slots(executable, kind: str) -> dict[str, str]:
    """Returns the device's states by their names in a state_dict and as anchors.

    The common count of updates has a name for each parameter.
    """
    held = [
        slot.split(".", 2)[1:]
        for slot, what, _, _ in executable.states()
        if what == "optimiser_state"
    ]
    parameters = dict.fromkeys(rest[0] for _, *rest in held if rest)
    found: dict[str, str] = {}
    for what, *parameter in held:
        if what == "step":
            found |= {STEP + name: "optimiser.step" for name in parameters}
        elif what == "loss_scale_factor":
            found[SCALE_FACTOR] = f"optimiser.{what}"
        else:
            found[PREFIXES[kind][what] + parameter[0]] = f"optimiser.{what}.{parameter[0]}"
    return found


def _steps(names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(STEP)]


def steps_in(state: Mapping[str, torch.Tensor], otherwise: int) -> int:
    """Returns the number of updates in a state_dict, or `otherwise` if it has no count."""
    name = next(iter(_steps(state)), _ONE_STEP)
    return int(state[name].flatten()[0]) if name in state else otherwise


def with_steps(state: dict[str, torch.Tensor], compiled, steps: torch.Tensor) -> None:
    """Adds a count of updates to a state_dict, if the device has one."""
    state |= dict.fromkeys(_steps(slots_of(compiled)), steps)


def _parameters(spec: dict) -> dict[str, torch.Tensor]:
    found = {"lossScaling_FLOAT": torch.tensor(spec["loss_scaling"])}
    scale = found["lossScaling_FLOAT"]
    for group in spec["groups"]:
        if spec["kind"] == "sgd":
            for name in (f"{w}___specific___{p}" for w in _SGD_RATES for p in group["parameters"]):
                found[name] = cast(torch.Tensor, rate(name, spec, scale))
            continue
        for name, value in group["values"].items():
            if name in _STRUCTURE:
                continue
            shown = _PARAMETER_NAMES.get(name, name)
            for parameter in group["parameters"]:
                found[f"{shown}___specific___{parameter}"] = torch.tensor(value)
    return found


def states_by_name(executable, kind: str | None) -> dict[str, str]:
    """Returns the device's states by all names that refer to them."""
    found = {}
    for slot, what, _, _ in executable.states():
        if what in ("parameter", "buffer"):
            found[slot] = slot
        if what == "parameter" and kind is not None:
            found[f"UpdatedVar___{slot}"] = slot
    return found if kind is None else found | _slots(executable, kind)


def _bar(title: str, compiled):
    """Returns the progress bar of a transfer of all optimiser state."""

    def size() -> int:
        return compiled.state_bytes({"optimiser_state"})

    return progress.of_bytes(title, size, compiled.options)


def matching(pattern: str, names) -> list[str]:
    """Returns the names that a pattern with * and ? matches."""
    return [name for name in names if fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))]


RATES = tuple(f"{name}___default___FLOAT" for name in _SGD_RATES)
_RATE = re.compile(
    r"(?P<what>scaledLearningRate|weightDecayScaleFactor)(?P<variant>[012]?)"
    r"(___specific___(?P<parameter>.+)|___default___.*)?"
)


def rate(name: str, spec: dict, loss_scale: torch.Tensor) -> torch.Tensor | None:
    """Returns the 0-d float32 value of an anchor of PopART's SGD, or None for other names.

    scaledLearningRate0 = lr * (1 - dampening) / loss scaling. The variants with momentum are
    scaledLearningRate1 (combined accumulator) = lr / velocity scaling and scaledLearningRate2
    (separate one) = lr. weightDecayScaleFactor0 = 1 - lr * (1 - dampening) * weight decay.
    PopART's SGDs scale gradients, velocities and weights by these factors. With
    `___specific___<parameter>` they belong to that parameter's group, else to the first group.
    """
    asked = _RATE.fullmatch(name)
    if asked is None or spec["kind"] != "sgd":
        return None
    parameter = asked["parameter"]
    held = [g for g in spec["groups"] if parameter is None or parameter in g["parameters"]]
    if not held:
        return None
    values, variant = held[0]["values"], asked["variant"] or "0"
    undamped = values["lr"] * (1 - values.get("dampening", 0.0))
    if asked["what"] == "weightDecayScaleFactor":
        factor = 1 - undamped * values.get("weight_decay", 0.0)
        return torch.tensor(factor) if variant == "0" else None
    if variant == "0":
        return torch.tensor(undamped) / loss_scale
    scaling = values.get("velocity_scaling", 1.0) if variant == "1" else 1.0
    return torch.tensor(values["lr"] / scaling)
