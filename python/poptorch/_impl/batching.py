"""How a call's batch is made of micro-batches: device iterations, accumulation, replicas.

With D device iterations, A accumulation steps, R replicas and input groups of g replicas, the first
dimension of an input is b * D * A * (R / g), where b is what the model sees.
"""

from dataclasses import dataclass

import torch
from poptorch.enums import OutputMode
from poptorch.options import Options


@dataclass(frozen=True)
class Batching:
    """The factors of one wrapper."""

    device_iterations: int
    gradient_accumulation: int
    replicas: int
    group_size: int

    @classmethod
    def of(cls, options: Options, training: bool) -> "Batching":
        return cls(
            options.device_iterations,
            options.Training.gradient_accumulation if training else 1,
            options.replication_factor,
            options.input_group_size,
        )

    @property
    def factor(self) -> int:
        """Micro-batches in an input."""
        return (
            self.device_iterations * self.gradient_accumulation * (self.replicas // self.group_size)
        )

    def check(self, name: str, tensor: torch.Tensor) -> None:
        """Raises AssertionError unless the tensor can be split."""
        size = tensor.shape[0] if tensor.dim() else 1
        assert size % self.factor == 0, (
            f"Invalid batch dimension: In the input {name}, the batch dimension ({size}) must be "
            f"a multiple of Options.deviceIterations({self.device_iterations}) * "
            f"(Options.replicationFactor({self.replicas}) / "
            f"Options.inputReplicaGrouping({self.group_size})) * "
            f"Options.Training.gradientAccumulation({self.gradient_accumulation}) = {self.factor}. "
            "Change the batch size or these options."
        )

    def micro_batch(self, tensor: torch.Tensor) -> torch.Tensor:
        """What the model sees of an input, in shape and dtype."""
        if self.factor == 1:
            return tensor
        return tensor[: tensor.shape[0] // self.factor]


def resolve_output_mode(options: Options, training: bool) -> None:
    """Default becomes Final in training and All in inference, of the model and of its anchors."""
    if options.defaultOutputMode():
        options.output_mode = int(OutputMode.Final if training else OutputMode.All)
    options.anchored_tensors = {
        name: [tensor, is_models, options.output_mode if is_models else mode, period]
        for name, (tensor, is_models, mode, period) in options.anchored_tensors.items()
    }
