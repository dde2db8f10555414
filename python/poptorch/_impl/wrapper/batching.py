"""How a call's batch is made of micro-batches: device iterations, accumulation, replicas.

With D device iterations, A accumulation steps, R replicas and input groups of g replicas, the first
dimension of an input is b * D * A * (R / g), where b is what the model sees. The compiler's
Execution says what the factor is.
"""

from dataclasses import dataclass

import torch
from poptorch._impl.options import core_table
from poptorch.enums import OutputMode
from poptorch.options import Options
from poptorch_core._core import Execution


@dataclass(frozen=True)
class Batching:
    """The factors of one wrapper."""

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
        """What the model sees of an input, in shape and dtype."""
        factor = self.execution.input_factor
        return tensor if factor == 1 else tensor[: tensor.shape[0] // factor]


def resolve_output_mode(options: Options, training: bool) -> None:
    """Default becomes Final in training and All in inference, of the model and of its anchors."""
    if options.defaultOutputMode():
        options.output_mode = int(OutputMode.Final if training else OutputMode.All)
    options.anchored_tensors = {
        name: [tensor, is_models, options.output_mode if is_models else mode, period]
        for name, (tensor, is_models, mode, period) in options.anchored_tensors.items()
    }
