"""What a Module collects: the modules below it, factories of variables, and named inputs."""

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING

from popxl_addons.named_tensors import NamedTensors
from popxl_addons.variable_factory import NamedVariableFactories

if TYPE_CHECKING:
    from popxl_addons.module import Module


class ModuleState:
    """What one module has collected, together with what those below it have."""

    def __init__(self) -> None:
        self.children: dict[str, Module] = {}
        self.reset()

    def reset(self) -> None:
        """Forgets what building collected, here and below."""
        self.factories, self.inputs = NamedVariableFactories(), NamedTensors()
        for name, child in self.children.items():
            state_of(child).reset()
            self._link(name, child)

    def add(self, name: str, child: "Module") -> None:
        """Takes in a module, under this name."""
        self.children[name] = child
        child.set_name_scope(name)
        self._link(name, child)

    def _link(self, name: str, child: "Module") -> None:
        self.factories.insert(name, state_of(child).factories, overwrite=True)
        self.inputs.insert(name, state_of(child).inputs, overwrite=True)


state_of: "Callable[[Module], ModuleState]" = attrgetter("_state")
