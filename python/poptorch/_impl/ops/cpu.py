"""poptorch.CPU: runs a function or module on the host in the middle of an inference model."""

import threading
from collections.abc import Callable
from typing import Any

import torch
from poptorch import _native
from poptorch._impl.ops.python_ops import PythonOp
from poptorch_core import Error

_inside = threading.local()


class CPU:
    """Runs a function or module on the host each time that an inference model runs.

    Compiling the model calls it once, on zeros. Outside of a model, it is a plain call.

    Attributes:
        inputs: The input tensors of the last call.
        outputs: The output tensors of the last call.
        in_shapes: The shapes of `inputs`.
        out_shapes: The shapes of `outputs`.
    """

    def __init__(self, layer_to_call: Callable[..., Any], ID: str) -> None:
        """Prepares the function or module.

        Args:
            layer_to_call: A function or module of tensors, which returns one tensor, or a list or
                tuple of tensors. Gradients of a module's parameters are disabled, and the module
                stays on the host.
            ID: Its name.

        Raises:
            ValueError: `layer_to_call` is not callable.
        """
        if not callable(layer_to_call):
            raise ValueError(f"[CPU] expected a callable but got {layer_to_call!r}.")
        if isinstance(layer_to_call, torch.nn.Module):
            layer_to_call.requires_grad_(False)
        # In a list, because a module that is an attribute would become part of the model.
        self._layers = [layer_to_call]
        self.ID = ID
        self.inputs: list[torch.Tensor] = []
        self.outputs: list[torch.Tensor] = []
        self.in_shapes: list[torch.Size] = []
        self.out_shapes: list[torch.Size] = []
        self._op = PythonOp(self._run, name=f"CPU.{ID}")

    def __call__(self, *tensors: torch.Tensor) -> Any:
        """Runs the layer.

        Args:
            *tensors: Its inputs.

        Returns:
            One tensor, or a list of tensors.

        Raises:
            poptorch.Error: The model is for training, or another CPU is running.
        """
        if getattr(_inside, "busy", False):
            raise Error("Trying to enter CPU from another CPU op! CPU ops must not overlap.")
        if not _native.is_tracing():
            return self._layers[0](*tensors)
        if _native.is_training():
            raise Error(
                f"[CPU] '{self.ID}' is in a model for training: no gradient passes through it. Use "
                "poptorch.op, which accepts a gradient function."
            )
        made = self._op(*tensors)
        return list(made) if isinstance(made, tuple) else made

    def registerPersistentData(self) -> None:
        """Sets `inputs` and `outputs` to zeros with the shapes of the last call."""
        self.inputs = [torch.zeros(shape) for shape in self.in_shapes]
        self.outputs = [torch.zeros(shape) for shape in self.out_shapes]

    def execute(self) -> None:
        """Calls the layer on `inputs` and stores its results in `outputs`."""
        self._run(*self.inputs)

    def _run(self, *tensors: torch.Tensor) -> Any:
        _inside.busy = True
        try:
            made = self._layers[0](*tensors)
        finally:
            _inside.busy = False
        outputs = list(made) if isinstance(made, (list, tuple)) else [made]
        self.inputs, self.outputs = list(tensors), outputs
        self.in_shapes = [tensor.shape for tensor in tensors]
        self.out_shapes = [tensor.shape for tensor in outputs]
        return made
