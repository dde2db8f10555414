"""Changes on the host that the device has not been told of: each is warned about once."""

import torch
from poptorch._logging import logger

# What torch's schedulers add to an optimiser object.
_OF_SCHEDULERS = ("step", "_step_count", "_opt_called")


class OptimiserWatch:
    """Looks whether param_groups changed since setOptimizer, and which attributes are new."""

    def __init__(self, optimizer: torch.optim.Optimizer, relaxed: bool) -> None:
        self._level = logger.debug if relaxed else logger.warning
        self._group_keys = [set(group) for group in optimizer.param_groups]
        self._attributes = set(vars(optimizer))
        self._defaults = set(optimizer.defaults)
        self._warned: set[str] = set()
        self.take(optimizer)

    def take(self, optimizer: torch.optim.Optimizer) -> None:
        """The device has this optimiser's values."""
        self._optimizer = optimizer
        self._values = [
            (group, [(k, v) for k, v in group.items() if k != "params"])
            for group in optimizer.param_groups
        ]

    def look(self) -> None:
        """Warns when a value differs from what the device was told."""
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
        kind = type(optimizer).__name__
        for index, (group, known) in enumerate(
            zip(optimizer.param_groups, self._group_keys, strict=False)
        ):
            self._unexpected(f"group {index} attribute", kind, set(group) - known)
        self._unexpected("default group variable", kind, set(optimizer.defaults) - self._defaults)
        new = {
            name
            for name in set(vars(optimizer)) - self._attributes
            if not name.startswith("_ipu") and name not in _OF_SCHEDULERS
        }
        self._unexpected("optimizer attribute", kind, new)

    def _unexpected(self, what: str, kind: str, names: set[str]) -> None:
        if names:
            text = f"Ignoring unexpected {what} in {kind} optimizer: {sorted(names)}"
            self._once(text, text, self._level)

    def _once(self, key: str, text: str, log) -> None:
        if key not in self._warned:
            self._warned.add(key)
            log(text)
