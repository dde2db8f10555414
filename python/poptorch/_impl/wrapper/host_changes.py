"""Warnings, once each, about changes on the host that the device does not follow."""

import functools
import threading
import weakref
from typing import NamedTuple

import torch
from poptorch._impl.optimisers import description
from poptorch._impl.optimisers.device_state import Record
from poptorch._impl.weights.members import named_modules, named_parameters
from poptorch._impl.wrapper.state import Wrapper
from poptorch._logging import logger_of
from torch.nn.modules import module as torch_module

logger = logger_of(__name__)

# Attributes that torch's schedulers and a wrapper add to an optimiser object.
_OF_SCHEDULERS = ("_step_count", "_opt_called", "__getstate__")


class OptimiserWatch:
    """Detects changes of param_groups since setOptimizer, and new attributes.

    spec: the description of the optimiser that the device has.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, spec: dict, relaxed: bool) -> None:
        self._level = logger.debug if relaxed else logger.warning
        self._group_keys = [set(group) for group in optimizer.param_groups]
        self._attributes = _attributes(optimizer)
        self._defaults = set(optimizer.defaults)
        self._warned: set[str] = set()
        self.take(optimizer, spec)

    def take(self, optimizer: torch.optim.Optimizer, spec: dict) -> None:
        """Records that the device now has this optimiser's values."""
        self._optimizer = optimizer
        self._record = Record.of(optimizer)
        self.spec = spec
        self._values = [
            (group, [(k, v) for k, v in group.items() if k != "params"])
            for group in optimizer.param_groups
        ]

    def stepped_by(self, wrapper: Wrapper) -> None:
        """Records that the device of `wrapper` has the newest state."""
        self._record.newest = wrapper

    def look(self) -> None:
        """Warns when a value differs from the one on the device."""
        for group, values in self._values:
            for name, value in values:
                now = group.get(name)
                if now is not value and now != value:
                    self._values = []
                    self._once(
                        "changed",
                        f"{name} in the optimizer's param_groups changed from {value} to {now}, "
                        "but the device still uses the old value: call setOptimizer(optimizer) "
                        "after a scheduler's step()",
                        logger.warning,
                    )
                    return

    def look_for_new_names(self, optimizer: torch.optim.Optimizer) -> None:
        """Warns about attributes and group entries that appeared since the compilation."""
        kind = description.shown_kind(self.spec)
        for index, (group, known) in enumerate(
            zip(optimizer.param_groups, self._group_keys, strict=False)
        ):
            self._unexpected(f"group {index} attribute", kind, set(group) - known)
        self._unexpected("default group variable", kind, set(optimizer.defaults) - self._defaults)
        new = _attributes(optimizer) - self._attributes
        self._unexpected("optimizer attribute", kind, new)

    def _unexpected(self, what: str, kind: str, names: set[str]) -> None:
        if names:
            text = f"Ignoring unexpected {what} in {kind} optimizer: {sorted(names)}"
            self._once(text, text, self._level)

    def _once(self, key: str, text: str, log) -> None:
        if key not in self._warned:
            self._warned.add(key)
            log(text)


def _attributes(optimizer: torch.optim.Optimizer) -> set[str]:
    """Returns the attributes of the object, without those that torch and the wrapper set.

    A scheduler of torch replaces `step` by a function that counts calls.
    """
    return {
        name
        for name, value in vars(optimizer).items()
        if not name.startswith("_ipu")
        and name not in _OF_SCHEDULERS
        and not (name == "step" and hasattr(value, "_wrapped_by_lr_sched"))
    }


class _Watcher(NamedTuple):
    """A ModelWatch to notify when a module loses a member; all modules of a model share two.

    is_of_copy: the module belongs to the wrapper's copy of the model.
    """

    watch: "weakref.ref[ModelWatch]"
    is_of_copy: bool


# Module → its watchers. A model may have thousands of modules, so each has a tuple and no set.
_watched: weakref.WeakKeyDictionary[torch.nn.Module, tuple[_Watcher, ...]] = (
    weakref.WeakKeyDictionary()
)
_adding = threading.Lock()


class ModelWatch:
    """Detects changes of a wrapped model that its wrapper ignores.

    The wrapper has a copy of the model's structure, and a program compiled for it.
    """

    def __init__(self, model: torch.nn.Module, traced: torch.nn.Module) -> None:
        self.flags_touched = False  # a requires_grad was written since the compilation
        self._compiled_flags: dict[str, bool] = {}
        self._flags_warned = False
        self._warned: set[str] = set()
        # While the wrapper is destroyed: warnings to log if it compiles again. Else None.
        self._postponed: list[tuple[str, str, str]] | None = None
        _install_hooks()
        self._has_program = False
        copies = {id(module) for _, module in named_modules(traced)}
        itself = weakref.ref(self)
        of_copy = _Watcher(itself, is_of_copy=True)
        of_model = _Watcher(itself, is_of_copy=False)
        with _adding:
            for _, module in named_modules(traced):
                _watched[module] = (*_living(module), of_copy)
            for _, module in named_modules(model):
                if id(module) not in copies:
                    _watched[module] = (*_living(module), of_model)

    def compiled(self, model: torch.nn.Module) -> None:
        """Records that a program was compiled for the model's current state."""
        self._compiled_flags = _flags(model)
        self.flags_touched = self._flags_warned = False
        self._has_program = True
        postponed, self._postponed = self._postponed or (), None
        for loss in postponed:
            self._warn_of_loss(*loss)

    def destroyed(self) -> None:
        """Records that there is no program any more; postpones warnings until the next one."""
        self._postponed = []
        self._has_program = False

    def look_at_flags(self, model: torch.nn.Module) -> None:
        """Warns when parameters have been frozen or released since the compilation."""
        self.flags_touched = False
        changed = [
            name
            for name, flag in _flags(model).items()
            if self._compiled_flags.get(name, flag) != flag
        ]
        if changed and not self._flags_warned:
            self._flags_warned = True
            now = "no gradients" if self._compiled_flags[changed[0]] else "gradients"
            logger.warning(
                f"{', '.join(changed)} should get {now} from here on (requires_grad), but the "
                "model is compiled: the device continues as before. Call destroy() on the "
                "wrapper; its next call compiles again"
            )

    def member_lost(
        self, module: torch.nn.Module, name: str, how: str, *, is_of_copy: bool
    ) -> None:
        """Notes that a module, parameter or buffer will be lost; `how`: "replaced", "deleted".

        is_of_copy: changes of the wrapper's copy take effect with the next compilation.
        """
        if is_of_copy and not self._has_program:
            return
        loss = type(module).__name__.removeprefix("Poptorch"), name, how
        if self._postponed is None:
            self._warn_of_loss(*loss)
        else:
            self._postponed.append(loss)

    def _warn_of_loss(self, kind: str, name: str, how: str) -> None:
        if name not in self._warned:
            self._warned.add(name)
            logger.warning(
                f"{name} of a {kind} was {how} after the model was wrapped: the wrapper still "
                "uses the old one. Call destroy() on the wrapper, and wrap the model again"
            )


def _living(module: torch.nn.Module) -> tuple[_Watcher, ...]:
    """Returns the watchers of a module whose wrappers exist."""
    watchers = _watched.get(module, ())
    if all(watcher.watch() is not None for watcher in watchers):
        return watchers
    return tuple(watcher for watcher in watchers if watcher.watch() is not None)


def _flags(model: torch.nn.Module) -> dict[str, bool]:
    """Returns which parameters get gradients, without fetching weights."""
    with torch._C.DisableTorchFunctionSubclass():
        return {name: parameter.requires_grad for name, parameter in named_parameters(model)}


def _install_hooks() -> None:
    """Installs, once, hooks that torch calls when a module gets or loses a member."""
    if _report_replaced in torch_module._global_module_registration_hooks.values():
        return
    torch_module.register_module_module_registration_hook(_report_replaced)
    torch_module.register_module_parameter_registration_hook(_report_replaced)
    torch_module.register_module_buffer_registration_hook(_report_replaced)
    # Torch has no hook for deletions.
    torch.nn.Module.__delattr__ = _reporting(  # type: ignore[method-assign]
        torch.nn.Module.__delattr__
    )


def _reporting(delete):
    @functools.wraps(delete)
    def reporting_delete(module: torch.nn.Module, name: str) -> None:
        if module in _watched:
            _report_lost(module, name, None, "deleted")
        delete(module, name)

    return reporting_delete


def _report_replaced(module: torch.nn.Module, name: str, value) -> None:
    _report_lost(module, name, value, "replaced")


def _report_lost(module: torch.nn.Module, name: str, successor, how: str) -> None:
    watchers = _living(module)
    if not watchers:
        return
    for members in (module._modules, module._parameters, module._buffers):
        if members.get(name) is not None and members[name] is not successor:
            for watcher in watchers:
                if (watch := watcher.watch()) is not None:
                    watch.member_lost(module, name, how, is_of_copy=watcher.is_of_copy)
