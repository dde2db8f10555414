"""A model's results: recorded while tracing, put together again after every run."""

import operator
import warnings
from collections.abc import Callable

import torch
from poptorch._impl.structures import Node, flatten, unflatten
from poptorch_core import Error


class Outputs:
    """The structure of what the model returned, and where each of its tensors comes from."""

    def __init__(self) -> None:
        self.node: Node | None = None
        self.sources: list[int | torch.Tensor] = []

    def record(self, result) -> list[torch.Tensor]:
        """Remembers the structure of a trace's result; gives its tensors."""
        leaves: list[torch.Tensor] = []
        self.node = flatten(result, leaves)
        _check_constants(self.node)
        return leaves

    def connect(self, sources: list[int | torch.Tensor]) -> None:
        """Takes, for each tensor, its number in a run's results, or the tensor itself."""
        self.sources = list(sources)
        for source in self.sources:
            if isinstance(source, torch.Tensor) and source.numel() > 0:
                warnings.warn(
                    f"Output expected to be on the IPU but is on {source.device.type}",
                    stacklevel=2,
                )

    def rebuilder(self) -> Callable[[list[torch.Tensor]], object]:
        """A function that puts the user's structure around a run's results."""
        node = self.node
        assert node is not None, "there was no trace"
        if all(type(s) is int and s == i for i, s in enumerate(self.sources)):
            if node.kind == "tensor":
                return operator.itemgetter(0)
            plain: tuple[type, ...] = (tuple, list)
            if node.type in plain and all(child.kind == "tensor" for child in node.children):
                return node.type

        def rebuild(results: list[torch.Tensor]) -> object:
            leaves = (s if isinstance(s, torch.Tensor) else results[s] for s in self.sources)
            return unflatten(node, leaves)

        return rebuild


def _check_constants(node: Node) -> None:
    """Raises poptorch.Error for an object whose tensors nobody can take out."""
    for child in node.children:
        _check_constants(child)
    if node.kind != "constant":
        return
    held = getattr(node.value, "__dict__", {})
    name = next((name for name, value in held.items() if isinstance(value, torch.Tensor)), None)
    if name is not None and held[name].device.type == "ipu":
        raise Error(
            f"[outputs] the model returns a {node.type.__name__} whose {name} is a tensor of the "
            "trace. Return tensors, tuples, dicts or dataclasses, or give the type a parser: "
            "registerCustomArgParser."
        )


def explain_backward() -> None:
    """Makes Tensor.backward say why an output of a training wrapper refuses it.

    Outputs carry no autograd graph, so torch raises anyway; only the text is ours.
    """
    original = torch.Tensor.backward
    if getattr(original, "explains_poptorch", False):
        return

    def backward(self, *args, **kwargs):
        if type(self) is torch.Tensor and not self.requires_grad:
            raise Error(
                "backward() cannot be called explicitly on outputs of a PopTorch model. The call "
                "of a poptorch.trainingModel has already run the backward pass and the weight "
                "update; remove backward(). (This tensor has no autograd graph.)"
            )
        return original(self, *args, **kwargs)

    backward.__doc__ = original.__doc__
    backward.__dict__["explains_poptorch"] = True
    torch.Tensor.backward = backward  # type: ignore[method-assign]
