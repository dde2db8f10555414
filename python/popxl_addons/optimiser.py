"""AdamOptimizerStep: Adam for one variable, with what training in half precision needs."""

from functools import partial

import numpy as np
import popxl
from popxl import ops
from popxl.ops import var_updates
from popxl_addons.module import Module


class AdamOptimizerStep(Module):
    """One step of AdamW in place, its state as named inputs: first_order, second_order, step.

    What is given as a number is part of the graph; tensors are inputs.
    """

    @popxl.in_sequence()
    def build(
        self,
        weight: popxl.TensorByRef,
        grad: popxl.Tensor,
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
        """Updates `weight` by its gradient.

        loss_scaling: what the gradient is divided by first. global_norm: the norm of all
        gradients, so divided; where it is above global_norm_max, gradients shrink to that. lr: a
        tensor has weight's dtype.
        """
        # Nothing may write weight while the gradient is still needed, hence the sequence.
        grad = grad if grad.dtype is popxl.float32 else ops.cast(grad, popxl.float32)
        if isinstance(loss_scaling, popxl.Tensor) or loss_scaling != 1.0:
            grad = grad / loss_scaling
        if global_norm is not None:
            if global_norm_max is None:
                raise ValueError("global_norm needs global_norm_max.")
            limit = popxl.constant(global_norm_max, popxl.float32)
            grad = grad * (limit / ops.maximum(global_norm, limit))
        zeros = partial(np.zeros, weight.shape)
        first = self.add_variable_input("first_order", zeros, first_order_dtype, by_ref=True)
        var_updates.accumulate_moving_average_(first, grad, f=beta1)
        second = self.add_variable_input("second_order", zeros, popxl.float32, by_ref=True)
        var_updates.accumulate_moving_average_square_(second, grad, f=beta2)
        step = None
        if bias_correction:
            scalar = partial(np.zeros, ())
            step = self.add_variable_input("step", scalar, popxl.float32, by_ref=True)
        update = var_updates.adam_updater(
            first,
            second,
            weight=weight,
            weight_decay=weight_decay,
            time_step=step,
            beta1=beta1,
            beta2=beta2,
            epsilon=eps,
        )
        ops.scaled_add_(weight, update, b=-lr)
