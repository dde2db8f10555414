"""poptorch.CPU: a function or module that runs on the host in the middle of an inference model."""

import threading
from collections.abc import Callable
from typing import Any

import torch
from poptorch import _native
from poptorch._impl.ops.python_ops import PythonOp
from poptorch_core import Error

_inside = threading.local()


class CPU:
    """Runs `layer_to_call` on the host, each time that the model runs.

    layer_to_call: a function or module of tensors, which gives one, or a list or tuple. A module
    takes no gradients from then on, and stays on the host. Compiling the model calls it once, on
    zeros. ID: its name. In a model for training a poptorch.Error; outside of a model, just a call.

    inputs, outputs: the tensors of the last call. in_shapes, out_shapes: their shapes.
    """

    def __init__(self, layer_to_call: Callable[..., Any], ID: str) -> None:
        if not callable(layer_to_call):
            raise ValueError(f"[CPU] expected something to call but got {layer_to_call!r}.")
        if isinstance(layer_to_call, torch.nn.Module):
            layer_to_call.requires_grad_(False)
        # In a list: a model's attributes that are modules are part of the model.
        self._layers = [layer_to_call]
        self.ID = ID
        self.inputs: list[torch.Tensor] = []
        self.outputs: list[torch.Tensor] = []
        self.in_shapes: list[torch.Size] = []
        self.out_shapes: list[torch.Size] = []
        self._op = PythonOp(self._run, name=f"CPU.{ID}")

    def __call__(self, *tensors: torch.Tensor) -> Any:
        """What the layer gives: one tensor, or a list of them."""
        if getattr(_inside, "busy", False):
            raise Error("Trying to enter CPU from another CPU op! CPU ops must not overlap.")
        if not _native.is_tracing():
            return self._layers[0](*tensors)
        if _native.is_training():
            raise Error(
                f"[CPU] '{self.ID}' is in a model for training: no gradient passes through it. Use "
                "poptorch.op, which takes one."
            )
        made = self._op(*tensors)
        return list(made) if isinstance(made, tuple) else made

    def registerPersistentData(self) -> None:
        """Makes `inputs` and `outputs`, of the shapes of the last call, zeros."""
        self.inputs = [torch.zeros(shape) for shape in self.in_shapes]
        self.outputs = [torch.zeros(shape) for shape in self.out_shapes]

    def execute(self) -> None:
        """Calls the layer on `inputs` and keeps what it gives in `outputs`."""
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
