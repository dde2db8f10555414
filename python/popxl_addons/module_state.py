"""The state of a Module: its child modules, factories of variables, and named inputs."""

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING

import popxl
from popxl.transforms import GradGraphInfo
from popxl_addons.module_gradient import Aux, VarGrad
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.variable_factory import NamedVariableFactories

if TYPE_CHECKING:
    from popxl_addons.module import Module


class ModuleState:
    """The state of a module and its children.

    Attributes:
        grad_infos: Gradient graphs of graphs that it calls.
        aux: See `Module`.
        var_grad: See `Module`.
    """

    def __init__(self) -> None:
        self.children: dict[str, Module] = {}
        self.factories, self.inputs = NamedVariableFactories(), NamedTensors()
        self.grad_infos: dict[popxl.Graph, GradGraphInfo] = {}
        self.aux, self.var_grad = Aux(), VarGrad()

    def reset(self) -> None:
        """Removes the entries that building collected, also in children."""
        self.grad_infos.clear()
        for key in self.factories.keys():
            self.factories.pop(key)
            self.inputs.pop(key)
        for name, child in self.children.items():
            state_of(child).reset()
            self._link(name, child)

    def add(self, name: str, child: "Module") -> None:
        """Adds a child module under this name. Raises ValueError if the name exists."""
        self._link(name, child)
        self.children[name] = child
        child.set_name_scope(name)

    def _link(self, name: str, child: "Module") -> None:
        self.factories.insert(name, state_of(child).factories)
        self.inputs.insert(name, state_of(child).inputs)

    def all_grad_infos(self) -> dict[popxl.Graph, GradGraphInfo]:
        """Returns gradient graphs of called graphs, including those of children."""
        out: dict[popxl.Graph, GradGraphInfo] = {}
        for child in self.children.values():
            out |= state_of(child).all_grad_infos()
        return out | self.grad_infos


state_of: "Callable[[Module], ModuleState]" = attrgetter("_state")
