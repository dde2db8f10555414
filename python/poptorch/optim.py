"""The optimisers of torch.optim with PopTorch's extra attributes, and LAMB.

Arguments left at None have their default and are compiled as constants. Arguments that are passed
may change after compilation. `variable_attrs` shows and changes which attributes are constant.
"""

import inspect
from typing import TYPE_CHECKING, Any

import torch
from poptorch._impl.optimisers import host_steps
from poptorch._impl.optimisers.device_state import Record
from poptorch._impl.optimisers.variable_attributes import (
    VariableAttributes as VariableAttributes,
)
from poptorch._logging import logger_of
from torch.optim.optimizer import ParamsT

FLOATS = {torch.float16: "f16", torch.float32: "f32"}


def _plain(method: str) -> Any:
    """Unwraps torch's method, because its decorator's import of torch._dynamo takes a second."""
    return inspect.unwrap(getattr(torch.optim.Optimizer, method))


if TYPE_CHECKING:
    _Base = torch.optim.Optimizer
else:
    _Base = object  # subclasses derive from a class of torch after it

logger = logger_of(__name__)


class Optimizer(_Base):
    """The base class of PopTorch's optimisers, which distinguishes them from those of torch.optim.

    A subclass lists its extra attributes by name, with their defaults. GROUP_EXTRAS are stored in
    param_groups; GLOBAL_EXTRAS are attributes of the optimiser.
    """

    GROUP_EXTRAS: dict[str, float] = {}
    GLOBAL_EXTRAS: dict[str, object] = {"loss_scaling": 1.0, "max_grad_norm": float("inf")}
    variable_attrs: VariableAttributes
    loss_scaling: float

    def _set_up(self, arguments: dict) -> None:
        """Initialises from the locals of __init__. An argument that is None was not passed."""
        own = {**self.GROUP_EXTRAS, **self.GLOBAL_EXTRAS}
        passed = {k: v for k, v in arguments.items() if k not in ("self", "__class__")}
        params = passed.pop("params")
        passed = {k: v for k, v in passed.items() if v is not None}
        for name, value in passed.items():
            if name.endswith("accum_type"):
                if value not in FLOATS:
                    raise AssertionError(
                        "Accumulation types must be either torch.float32 or torch.float16, but "
                        f"{name} is {value}."
                    )
        if passed.get("amsgrad"):
            raise ValueError("[optim] AMSGrad is not supported. Leave amsgrad at False.")
        self._group_extras = {k: passed.get(k, v) for k, v in self.GROUP_EXTRAS.items()}
        self._initialise_torch(params, {k: v for k, v in passed.items() if k not in own})
        self.defaults.update(self._group_extras)
        for name, default in self.GLOBAL_EXTRAS.items():
            setattr(self, name, passed.get(name, default))
        allowed = [k for k in (*self.defaults, *self.GLOBAL_EXTRAS) if k not in _NEVER_VARIABLE]
        variable = {"lr", *(k for k in passed if k in allowed)}
        self.variable_attrs = VariableAttributes(sorted(variable), allowed)

    def _initialise_torch(self, params: Any, arguments: dict) -> None:
        type(self)._torch_class().__init__(self, params, **arguments)

    @classmethod
    def _torch_class(cls) -> Any:
        return next(base for base in cls.__mro__ if base.__module__.startswith("torch.optim"))

    def state_dict(self) -> dict:
        """Returns torch's dict, with "ipu_state" and "ipu_param" in addition.

        These are tensors by name, fetched from the device, or None before a wrapper with this
        optimiser was compiled.
        """
        Record.of(self).refresh()
        return self.get_state_dict()

    def load_state_dict(self, state: dict) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Restores `state`, which state_dict() returned.

        The device gets it immediately, or when a wrapper is compiled.

        Raises:
            RuntimeError: The state is from an optimiser that never was on an IPU.
        """
        Record.check_loadable(state)
        before = self.state, self.param_groups, self.loss_scaling
        try:
            _plain("load_state_dict")(self, {k: state[k] for k in ("state", "param_groups")})
            scaling = (state.get("ipu_param") or {}).get("lossScaling_FLOAT")
            if scaling is not None and not self.variable_attrs.isConstant("loss_scaling"):
                self.loss_scaling = float(scaling)
            self.set_state_dict(state)
        except BaseException:
            self.state, self.param_groups, self.loss_scaling = before
            raise

    def get_state_dict(self) -> dict:
        """Returns state_dict() as the host has it, without fetching it from the device."""
        record = Record.of(self)
        return {
            "ipu_state": record.state,
            "ipu_param": record.parameters,
            **_plain("state_dict")(self),
        }

    def set_state_dict(self, state: dict) -> None:
        """Restores "ipu_state" and "ipu_param" of `state`, a state_dict().

        The device gets them immediately, or when a wrapper is compiled. It uses the values of
        "ipu_param" until the next setOptimizer().

        Raises:
            RuntimeError: The state is from an optimiser that never was on an IPU.
            poptorch.Error: The device cannot have one of the values.
        """
        Record.check_loadable(state)
        Record.of(self).load_values(state.get("ipu_param"))
        Record.of(self).load(state)

    def has_state(self) -> bool:
        """Returns whether the optimiser has state of a device."""
        record = Record.of(self)
        return record.state is not None or record.is_behind

    @property
    def ipu_state_is_dirty(self) -> bool:
        """Whether the device has newer state than the host."""
        return Record.of(self).is_behind

    @property
    def host_state_is_dirty(self) -> bool:
        """Whether the host has newer state than the device."""
        return Record.of(self).loaded

    def __getstate__(self) -> dict:
        record = Record.of(self)
        record.refresh()
        own = ("variable_attrs", "_group_extras", *self.GLOBAL_EXTRAS)
        return {
            **super().__getstate__(),
            **{name: self.__dict__[name] for name in own},
            "_ipu_record": Record(
                record.state, record.parameters, record.state is not None, record.values
            ),
        }

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds `param_group` as torch does, with the defaults of PopTorch's extra attributes."""
        for name, value in self._group_extras.items():
            param_group.setdefault(name, value)
        _plain("add_param_group")(self, param_group)


# These determine the structure of the update, so they are always compiled as constants.
_NEVER_VARIABLE = frozenset(
    (
        *("nesterov", "maximize", "foreach", "differentiable", "capturable", "fused", "amsgrad"),
        *("centered", "decoupled_weight_decay", "bias_correction", "use_combined_accum"),
        *("use_tf_variant", "max_grad_norm"),
        *("accum_type", "velocity_accum_type"),
        *("first_order_momentum_accum_type", "second_order_momentum_accum_type"),
    )
)


class SGD(Optimizer, torch.optim.SGD):  # pyright: ignore[reportIncompatibleMethodOverride]
    """Stochastic gradient descent, with a combined or a separate gradient accumulator.

    With use_combined_accum, one buffer holds velocity and accumulated gradients, multiplied by
    velocity_scaling. max_grad_norm bounds the norm of all gradients.

    Args:
        params, lr, momentum, dampening, weight_decay, nesterov, maximize: As in torch.
        foreach, differentiable: As in torch, without effect on the device.
        loss_scaling: The factor of the loss; updates undo it.
        velocity_scaling: The factor of the velocity in a combined accumulator.
        use_combined_accum: Whether one buffer holds velocity and accumulated gradients.
        accum_type, velocity_accum_type: The dtypes of accumulated gradients and of the velocity.
        max_grad_norm: The bound of the norm of all gradients; None: no bound.
    """

    GROUP_EXTRAS = {"velocity_scaling": 1.0}
    GLOBAL_EXTRAS = {
        **Optimizer.GLOBAL_EXTRAS,
        "use_combined_accum": False,
        "accum_type": torch.float32,
        "velocity_accum_type": torch.float32,
    }

    def __init__(
        self,
        params: ParamsT,
        lr: float | None = None,
        momentum: float | None = None,
        dampening: float | None = None,
        weight_decay: float | None = None,
        nesterov: bool | None = None,
        maximize: bool | None = None,
        foreach: bool | None = None,
        differentiable: bool | None = None,
        loss_scaling: float | None = None,
        velocity_scaling: float | None = None,
        use_combined_accum: bool = False,
        accum_type: torch.dtype = torch.float32,
        velocity_accum_type: torch.dtype = torch.float32,
        max_grad_norm: float | None = None,
    ) -> None:
        if velocity_scaling is not None and not use_combined_accum:
            logger.warning(
                "velocity_scaling is ignored: SGD with separate accumulators scales its velocity "
                "like the loss. Pass use_combined_accum=True"
            )
        self._set_up(locals())


_MOMENT_TYPES = {
    "accum_type": torch.float32,
    "first_order_momentum_accum_type": torch.float32,
    "second_order_momentum_accum_type": torch.float32,
}


class Adam(Optimizer, torch.optim.Adam):  # pyright: ignore[reportIncompatibleMethodOverride]
    """Adam with L2 decay. The accum_type arguments set the types of gradients and moments.

    Args:
        params, lr, betas, eps, weight_decay, amsgrad, maximize: As in torch; amsgrad is refused.
        foreach, capturable, differentiable, fused: As in torch, without effect on the device.
        loss_scaling: The factor of the loss; updates undo it.
        accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type: The dtypes of
            accumulated gradients and of the moments: float32 or float16.
        max_grad_norm: The bound of the norm of all gradients; None: no bound.
    """

    GLOBAL_EXTRAS = {**Optimizer.GLOBAL_EXTRAS, **_MOMENT_TYPES}

    def __init__(
        self,
        params: ParamsT,
        lr: float | None = None,
        betas: tuple[float, float] | None = None,
        eps: float | None = None,
        weight_decay: float | None = None,
        amsgrad: bool | None = None,
        foreach: bool | None = None,
        maximize: bool | None = None,
        capturable: bool | None = None,
        differentiable: bool | None = None,
        fused: bool | None = None,
        loss_scaling: float | None = None,
        accum_type: torch.dtype = torch.float32,
        first_order_momentum_accum_type: torch.dtype = torch.float32,
        second_order_momentum_accum_type: torch.dtype = torch.float32,
        max_grad_norm: float | None = None,
    ) -> None:
        self._set_up(locals())


class AdamW(Optimizer, torch.optim.AdamW):  # pyright: ignore[reportIncompatibleMethodOverride]
    """Adam with decoupled weight decay. bias_correction=False uses the moments uncorrected.

    The other arguments are those of `Adam`.
    """

    GLOBAL_EXTRAS = {**Optimizer.GLOBAL_EXTRAS, **_MOMENT_TYPES, "bias_correction": True}
    bias_correction: bool

    def __init__(
        self,
        params: ParamsT,
        lr: float | None = None,
        betas: tuple[float, float] | None = None,
        eps: float | None = None,
        weight_decay: float | None = None,
        amsgrad: bool | None = None,
        maximize: bool | None = None,
        foreach: bool | None = None,
        capturable: bool | None = None,
        differentiable: bool | None = None,
        fused: bool | None = None,
        loss_scaling: float | None = None,
        bias_correction: bool = True,
        accum_type: torch.dtype = torch.float32,
        first_order_momentum_accum_type: torch.dtype = torch.float32,
        second_order_momentum_accum_type: torch.dtype = torch.float32,
        max_grad_norm: float | None = None,
    ) -> None:
        self._set_up(locals())

    def step(self, closure: Any = None) -> Any:
        """Updates the parameters on the host as the device does.

        Args:
            closure: As in torch: reevaluates the model and returns the loss.

        Returns:
            The closure's loss, or None.
        """
        if self.bias_correction:
            return host_steps.torchs_step(torch.optim.AdamW)(self, closure)
        return host_steps.uncorrected_adamw_step(self, closure)


class RMSprop(Optimizer, torch.optim.RMSprop):  # pyright: ignore[reportIncompatibleMethodOverride]
    """RMSprop. use_tf_variant starts the mean square at ones, and adds eps inside the root.

    Args:
        params, lr, alpha, eps, weight_decay, momentum, centered, maximize: As in torch.
        foreach, differentiable: As in torch, without effect on the device.
        loss_scaling: The factor of the loss; updates undo it.
        accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type: The dtypes of
            accumulated gradients and of the moments: float32 or float16.
        use_tf_variant: Whether to compute like TensorFlow.
    """

    GLOBAL_EXTRAS = {
        "loss_scaling": 1.0,
        **_MOMENT_TYPES,
        "use_tf_variant": False,
    }

    def __init__(
        self,
        params: ParamsT,
        lr: float | None = None,
        alpha: float | None = None,
        eps: float | None = None,
        weight_decay: float | None = None,
        momentum: float | None = None,
        centered: bool | None = None,
        foreach: bool | None = None,
        maximize: bool | None = None,
        differentiable: bool | None = None,
        loss_scaling: float | None = None,
        accum_type: torch.dtype = torch.float32,
        first_order_momentum_accum_type: torch.dtype = torch.float32,
        second_order_momentum_accum_type: torch.dtype = torch.float32,
        use_tf_variant: bool = False,
    ) -> None:
        self._set_up(locals())


class LAMB(Optimizer, torch.optim.Optimizer):  # pyright: ignore[reportIncompatibleMethodOverride]
    """Layer-wise adaptive moments.

    The update is u = m̂ / (sqrt(v̂) + eps) + weight_decay·p, scaled by min(|p|, max_weight_norm) /
    |u|, or by 1 if either norm is 0.

    Args:
        params, lr, betas, eps, weight_decay, bias_correction: As for AdamW.
        loss_scaling: The factor of the loss; updates undo it.
        max_weight_norm: The bound of a weight's norm in the trust ratio.
        accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type: The dtypes of
            accumulated gradients and of the moments: float32 or float16.
    """

    GROUP_EXTRAS = {"max_weight_norm": 65500.0}
    GLOBAL_EXTRAS = {"loss_scaling": 1.0, **_MOMENT_TYPES, "bias_correction": True}
    bias_correction: bool

    def __init__(
        self,
        params: ParamsT,
        lr: float | None = None,
        betas: tuple[float, float] | None = None,
        eps: float | None = None,
        weight_decay: float | None = None,
        bias_correction: bool = True,
        loss_scaling: float | None = None,
        max_weight_norm: float | None = None,
        accum_type: torch.dtype = torch.float32,
        first_order_momentum_accum_type: torch.dtype = torch.float32,
        second_order_momentum_accum_type: torch.dtype = torch.float32,
    ) -> None:
        self._set_up(locals())

    def _initialise_torch(self, params: Any, arguments: dict) -> None:
        defaults = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 1e-2}
        torch.optim.Optimizer.__init__(self, params, {**defaults, **arguments})

    def step(self, closure: Any = None) -> Any:
        """Updates the parameters on the host, for models that run there.

        Args:
            closure: As in torch: reevaluates the model and returns the loss.

        Returns:
            The closure's loss, or None.
        """
        return host_steps.lamb_step(self, closure, self.bias_correction)
