"""The division of a call's batch into micro-batches: device iterations, accumulation, replicas.

The first dimension of an input is b * D * A * (R / g): b is the batch size that the model sees, D
the number of device iterations, A of accumulation steps, R of replicas, and g the size of input
groups. The compiler's Execution computes the factor.
"""

from dataclasses import dataclass

import torch
from poptorch._impl.options import core_table
from poptorch.enums import OutputMode
from poptorch.options import Options
from poptorch_core._core import Execution


@dataclass(frozen=True)
class Batching:
    """The batching factors of one wrapper."""

    execution: Execution

    @classmethod
    def of(cls, options: Options) -> "Batching":
        return cls(core_table.execution_of(options))

    def check(self, name: str, tensor: torch.Tensor) -> None:
        """Raises AssertionError unless the tensor can be split."""
        defect = self.execution.batch_defect(name, tensor.shape[0] if tensor.dim() else 1)
        if defect:
            raise AssertionError(defect)

    def micro_batch(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns a tensor with the shape and dtype of the input that the model sees."""
        factor = self.execution.input_factor
        return tensor if factor == 1 else tensor[: tensor.shape[0] // factor]


def resolve_output_mode(options: Options, training: bool) -> None:
    """Replaces the default output mode, also in anchors: by Final in training, All in inference."""
    if options.defaultOutputMode():
        options.output_mode = int(OutputMode.Final if training else OutputMode.All)
    options.anchored_tensors = {
        name: [tensor, is_models, options.output_mode if is_models else mode, period]
        for name, (tensor, is_models, mode, period) in options.anchored_tensors.items()
    }
