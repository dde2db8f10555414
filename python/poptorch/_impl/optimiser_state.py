"""Optimiser state between device and host: what `state_dict()` of an optimiser holds and restores.

Every optimiser that a wrapper uses carries a `Record`, so that its state outlives the wrapper.
"""

import fnmatch
import re
import weakref

import torch
from poptorch._logging import logger

STEP, SCALE_FACTOR = "Step", "lossScaleUpdateFactor"
# By kind of optimiser: what a slot `optimiser.<what>.<parameter>` is called in a state_dict.
_MOMENTS = {"exp_avg": "Accl1___", "exp_avg_sq": "Accl2___"}
PREFIXES = {
    "sgd": {"momentum_buffer": "Accl___"},
    "adam": _MOMENTS,
    "adamw": _MOMENTS,
    "lamb": _MOMENTS,
    "rmsprop": {"square_avg": "Accl1___", "momentum_buffer": "Accl2___", "grad_avg": "Accl3___"},
}
# What hyper-parameters are called in `ipu_param`.
_PARAMETER_NAMES = {
    "lr": "learningRate",
    "weight_decay": "weightDecay",
    "velocity_scaling": "velocityScaling",
    "max_weight_norm": "maxWeightNorm",
}
# Flags, not numbers.
_STRUCTURE = (
    *("nesterov", "maximize", "amsgrad", "centered", "bias_correction", "use_tf_variant"),
)


class Record:
    """The device's side of one optimiser.

    state, parameters: the last known `ipu_state` and `ipu_param`, or None.
    loaded: `state` comes from the host and the device has not got it yet.
    steps_before: updates on the host before those on the device, where the device counts none.
    """

    def __init__(self, state=None, parameters=None, loaded: bool = False) -> None:
        self.state = state
        self.parameters = parameters
        self.loaded = loaded
        self.steps_before = 0
        self._executor: weakref.ref | None = None

    @classmethod
    def of(cls, optimizer) -> "Record":
        """The optimiser's record, made at the first request."""
        return optimizer.__dict__.setdefault("_ipu_record", cls())

    @property
    def executor(self):
        """The wrapper whose device runs the optimiser, or None."""
        return None if self._executor is None else self._executor()

    @property
    def compiled(self):
        """What that wrapper has compiled, or None."""
        return None if self.executor is None else self.executor._compiled

    def bind(self, executor) -> None:
        """The optimiser runs on the device of `executor` from here on; loaded state goes there."""
        self._executor = weakref.ref(executor)
        if self.loaded:
            self.upload()
        else:
            self.refresh()

    def unbind(self, executor) -> None:
        """The device is about to go, or to another optimiser: keeps what it holds."""
        if self.executor is executor:
            self.refresh()
            self.loaded = self.state is not None
            self._executor = None

    def refresh(self) -> None:
        """Fetches from the device, if there is one with anything newer."""
        compiled = self.compiled
        if compiled is None or self.loaded:
            return
        read = compiled.executable.read_state
        self.state = {name: read(slot) for name, slot in slots_of(compiled).items()}
        self.parameters = _parameters(compiled.spec)

    def load(self, state: dict) -> None:
        """Takes `ipu_state` and `ipu_param` of a state_dict; the device gets them if there is one.

        Raises RuntimeError for dicts that are no state of an IPU optimiser.
        """
        if not state:
            raise RuntimeError("Cannot load optimizer state dictionary because it is empty.")
        if "ipu_state" not in state:
            raise RuntimeError(
                "Only IPU optimizer states can be loaded onto the IPU. Make the state_dict with an "
                "optimizer of poptorch.optim."
            )
        self.state, self.parameters = state["ipu_state"], state.get("ipu_param")
        self.loaded = self.state is not None
        if self.loaded and self.compiled is not None:
            self.upload()

    def upload(self) -> None:
        """Writes loaded state to the device. Slots that it lacks keep what they have."""
        compiled = self.compiled
        executable, slots = compiled.executable, slots_of(compiled)
        extra = sorted(self.state.keys() - slots.keys())
        if extra:
            logger.warning(f"Ignoring optimizer state that this model has no place for: {extra}")
        for name, slot in slots.items():
            if name in self.state:
                # Torch counts in float32, and its own steps keep moments in the weight's dtype.
                dtype = executable.read_state(slot).dtype
                executable.write_state(slot, self.state[name].to(dtype))
        self.loaded = False
        self.refresh()


def slots_of(compiled) -> dict[str, str]:
    """Name in a state_dict → slot."""
    return {
        state_name(slot, compiled.spec["kind"]): slot
        for slot, kind, _, _ in compiled.executable.states()
        if kind == "optimiser_state"
    }


def state_name(slot: str, kind: str) -> str:
    """What a slot of the optimiser is called in a state_dict and as an anchor."""
    _, what, *parameter = slot.split(".", 2)
    if what == "step":
        return STEP
    if what == "loss_scale_factor":
        return SCALE_FACTOR
    return PREFIXES[kind][what] + parameter[0]


def _parameters(spec: dict) -> dict[str, torch.Tensor]:
    found = {"lossScaling_FLOAT": torch.tensor(spec["loss_scaling"])}
    for group in spec["groups"]:
        for name, value in group["values"].items():
            if name in _STRUCTURE:
                continue
            shown = _PARAMETER_NAMES.get(name, name)
            for parameter in group["parameters"]:
                found[f"{shown}___specific___{parameter}"] = torch.tensor(value)
    return found


def states_by_name(executable, kind: str | None) -> dict[str, str]:
    """Every name that a slot of state goes by → slot."""
    found = {}
    for slot, what, _, _ in executable.states():
        if what in ("parameter", "buffer"):
            found[slot] = slot
        if what == "parameter" and kind is not None:
            found[f"UpdatedVar___{slot}"] = slot
        if what == "optimiser_state" and kind is not None:
            found[state_name(slot, kind)] = slot
    return found


def matching(pattern: str, names) -> list[str]:
    """The names that a pattern with * and ? matches."""
    return [name for name in names if fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))]


RATES = ("scaledLearningRate0___default___FLOAT", "weightDecayScaleFactor0___default___FLOAT")
_RATE = re.compile(
    r"(?P<what>scaledLearningRate|weightDecayScaleFactor)(?P<variant>[012]?)"
    r"(___specific___(?P<parameter>.+)|___default___.*)?"
)


def rate(name: str, spec: dict, loss_scale: torch.Tensor) -> torch.Tensor | None:
    """The 0-d float32 value of an anchor of PopART's SGD, or None when `name` is none of them.

    scaledLearningRate0 = lr * (1 - dampening) / loss scaling, and of the variants with momentum
    scaledLearningRate1 (combined accumulator) = lr / velocity scaling and scaledLearningRate2
    (separate one) = lr; weightDecayScaleFactor0 = 1 - lr * (1 - dampening) * weight decay. These
    are the factors by which PopART's SGDs scale gradients, velocities and weights. With
    `___specific___<parameter>` they are of that parameter's group, otherwise of the first group.
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
