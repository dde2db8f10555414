"""AdamOptimizerStep: Adam for one variable, with support for half precision."""

from functools import partial
from typing import Any

import numpy as np
import popxl
from popxl import ops
from popxl.ops import var_updates
from popxl_addons.module import Module


class AdamOptimizerStep(Module):
    """One step of AdamW in place, with the state in named inputs: first_order, second_order, step.

    Numbers become part of the graph; tensors become inputs.
    """

    def _moment(
        self,
        name: str,
        var: popxl.Tensor,
        dtype: popxl.dtype,
        rg: "popxl.ReplicaGrouping | None",
    ) -> popxl.Tensor:
        """Adds a state of zeros with the shape and the shards of `var`."""
        zeros = partial(np.zeros, var.meta_shape or var.shape)
        more: dict[str, Any] = {"by_ref": True, "replica_grouping": rg}
        if not var.meta_shape:
            return self.add_variable_input(name, zeros, dtype, **more)
        shards = -(-int(np.prod(var.meta_shape)) // var.nelms)
        return self.add_replica_sharded_variable_input(
            name, zeros, dtype, **more, shard_over=shards
        )

    @popxl.in_sequence()
    def build(
        self,
        var: popxl.TensorByRef,
        grad: popxl.Tensor,
        replica_grouping: "popxl.ReplicaGrouping | None" = None,
        *,
        lr: "float | popxl.Tensor",
        beta1: "float | popxl.Tensor" = 0.9,
        beta2: "float | popxl.Tensor" = 0.999,
        eps: "float | popxl.Tensor" = 1e-5,
        weight_decay: "float | popxl.Tensor" = 1e-2,
        first_order_dtype: popxl.dtype = popxl.float16,
        bias_correction: bool = True,
        loss_scaling: "float | popxl.Tensor" = 1.0,
        global_norm: "popxl.Tensor | None" = None,
        global_norm_max: "float | None" = None,
    ) -> None:
        """Updates `var`, a weight or a shard of one, by its gradient.

        Args:
            var: The weight or shard.
            grad: Its gradient.
            replica_grouping: The grouping of the weight and its state; the moments of a shard are
                shards.
            lr: The learning rate; a tensor has var's dtype.
            beta1: The decay of the first moment.
            beta2: The decay of the second moment.
            eps: Added to the denominator.
            weight_decay: The factor of the weight.
            first_order_dtype: The dtype of the first moment.
            bias_correction: Whether to correct the bias of the moments.
            loss_scaling: The gradient is first divided by it.
            global_norm: The norm of all gradients after that division. Above global_norm_max,
                gradients are scaled down to that norm.
            global_norm_max: See global_norm.

        Raises:
            ValueError: `global_norm` is given without `global_norm_max`.
        """
        # The sequence ensures that no op writes var while the gradient is still needed.
        grad = grad if grad.dtype is popxl.float32 else ops.cast(grad, popxl.float32)
        if isinstance(loss_scaling, popxl.Tensor) or loss_scaling != 1.0:
            grad = grad / loss_scaling
        if global_norm is not None:
            if global_norm_max is None:
                raise ValueError("global_norm needs global_norm_max.")
            limit = popxl.constant(global_norm_max, popxl.float32)
            grad = grad * (limit / ops.maximum(global_norm, limit))
        first = self._moment("first_order", var, first_order_dtype, replica_grouping)
        var_updates.accumulate_moving_average_(first, grad, f=beta1)
        second = self._moment("second_order", var, popxl.float32, replica_grouping)
        var_updates.accumulate_moving_average_square_(second, grad, f=beta2)
        step = None
        if bias_correction:
            scalar = partial(np.zeros, ())
            step = self.add_variable_input(
                "step", scalar, popxl.float32, by_ref=True, replica_grouping=replica_grouping
            )
        decays = isinstance(weight_decay, popxl.Tensor) or bool(weight_decay)
        if not decays and var.dtype is popxl.float32 and first.dtype is not popxl.float32:
            # Without decay, the updater rounds its result to the first moment's dtype.
            first = ops.cast(first, popxl.float32)
        update = var_updates.adam_updater(
            first,
            second,
            weight=var,
            weight_decay=weight_decay,
            time_step=step,
            beta1=beta1,
            beta2=beta2,
            epsilon=eps,
        )
        ops.scaled_add_(var, update, b=-lr)
