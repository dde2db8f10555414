"""A model's results: their structure is recorded in the trace and rebuilt after every run."""

import operator
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from poptorch._impl.pytree import objects
from poptorch._impl.pytree.structures import (
    Node,
    Visits,
    flatten,
    hiding_values,
    unflatten,
    walk,
)
from poptorch._impl.trace.forward_effects import ForwardEffects
from poptorch_core import Error


class Outputs:
    """The structure of the model's return value, and the source of each of its tensors."""

    def __init__(self) -> None:
        self.node: Node | None = None
        self.sources: list[int | torch.Tensor] = []
        self._count = 0  # of the tensors of the result
        self._effects: ForwardEffects | None = None
        self.stored: list[int | torch.Tensor] = []  # sources of what runs store
        self.weights: list[Any] = []  # results in parameters: see returned_weights.py

    def record(self, result) -> list[torch.Tensor]:
        """Records the structure of a trace's result; returns its tensors."""
        leaves: list[torch.Tensor] = []
        self.node = flatten(result, leaves, visits=Visits(every=True))
        for node in walk([self.node]):
            _check_constant(node)
        self._count = len(leaves)
        return leaves

    def keep(self, effects: ForwardEffects) -> None:
        """Stores what forward writes after every run."""
        self._effects = effects if effects.keeps else None

    def names_of_stored(self) -> list[str]:
        """Returns what runs store, as the user's program names it."""
        return [] if self._effects is None else self._effects.names()

    def connect(self, sources: list[int | torch.Tensor]) -> None:
        """Sets the source of each tensor: its index in a run's results, or the tensor itself."""
        self.sources, self.stored = list(sources[: self._count]), list(sources[self._count :])
        for source in self.sources:
            if isinstance(source, torch.Tensor) and source.numel() > 0:
                warnings.warn(
                    f"Output expected to be on the IPU but is on {source.device.type}",
                    stacklevel=2,
                )

    def rebuilder(self) -> Callable[[list[torch.Tensor]], object]:
        """Returns a function that rebuilds the user's structure from a run's results."""
        node = self.node
        if node is None:
            raise AssertionError("The structure of the outputs is known only after a trace.")
        if self._effects is not None:
            return self._storing(node)
        is_plain = all(type(s) is int and s == i for i, s in enumerate(self.sources))
        if is_plain and not self.stored:
            if node.kind == "tensor":
                return operator.itemgetter(0)
            plain: tuple[type, ...] = (tuple, list)
            if node.type in plain and all(child.kind == "tensor" for child in node.children):
                return node.type

        def rebuild(results: list[torch.Tensor]) -> object:
            return unflatten(node, iter(_leaves(self.sources, results)))

        return rebuild

    def _storing(self, node: Node) -> Callable[[list[torch.Tensor]], object]:
        effects = self._effects
        assert effects is not None

        def rebuild(results: list[torch.Tensor]) -> object:
            effects.store(_leaves(self.stored, results))
            return unflatten(node, iter(_leaves(self.sources, results)))

        return rebuild


def _leaves(sources: list[int | torch.Tensor], results: list[torch.Tensor]) -> list[torch.Tensor]:
    return [s if isinstance(s, torch.Tensor) else results[s] for s in sources]


def _check_constant(node: Node) -> None:
    """Raises poptorch.Error for an object that hides tensors of the trace."""
    if node.kind == "constant" and isinstance(node.value, Iterator):
        raise Error(
            f"[outputs] the model returns a {node.type.__name__}, whose elements are computed "
            "lazily. Return a list of them: list(...)."
        )
    is_code = node.kind == "constant" and objects.is_code(node.value)
    for value in [node.value] if is_code else hiding_values(node):
        is_hidden, part = objects.holds_tensor(value, _is_traced)
        if is_hidden:
            held = f"whose {part} is" if part else "that holds"
            raise Error(
                f"[outputs] the model returns a {node.type.__name__} {held} a tensor of the "
                "trace. Return tensors, tuples, lists, dicts or objects with attributes, or give "
                "the type a parser: registerCustomArgParser."
            )


def _is_traced(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "ipu"


def explain_backward() -> None:
    """Makes Tensor.backward explain why it fails on an output of a wrapper.

    Outputs have no autograd graph, so torch raises in any case; this replaces only the message.
    """
    original = torch.Tensor.backward
    if getattr(original, "explains_poptorch", False):
        return

    def backward(self, *args, **kwargs):
        if type(self) is torch.Tensor and not self.requires_grad:
            raise Error(
                "backward() cannot be called explicitly on outputs of a PopTorch model. If you're "
                "using a trainingModel, the backwards pass is performed automatically when "
                "invoking the model. If you're using an inferenceModel, you should use a "
                "trainingModel instead."
            )
        return original(self, *args, **kwargs)

    backward.__doc__ = original.__doc__
    backward.__dict__["explains_poptorch"] = True
    torch.Tensor.backward = backward  # type: ignore[method-assign]
