"""Adam for one variable, written in PopXL, with its state passed by reference."""

from functools import partial

import numpy as np
import popxl
import popxl_addons as addons
from popxl import ops


class Adam(addons.Module):
    """One step of Adam. Numbers become part of the graph; tensors become its inputs."""

    # The ops write in place, so they must run in the order in which they are written.
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
        weight_decay: "float | popxl.Tensor" = 0.0,
        first_order_dtype: popxl.dtype = popxl.float16,
        bias_correction: bool = True,
    ):
        zeros = partial(np.zeros, weight.shape)
        first_order = self.add_variable_input("first_order", zeros, first_order_dtype, by_ref=True)
        ops.var_updates.accumulate_moving_average_(first_order, grad, f=beta1)
        second_order = self.add_variable_input("second_order", zeros, popxl.float32, by_ref=True)
        ops.var_updates.accumulate_moving_average_square_(second_order, grad, f=beta2)
        step = None
        if bias_correction:
            scalar = partial(np.zeros, ())
            step = self.add_variable_input("step", scalar, popxl.float32, by_ref=True)
        dw = ops.var_updates.adam_updater(
            first_order,
            second_order,
            weight=weight,
            weight_decay=weight_decay,
            time_step=step,
            beta1=beta1,
            beta2=beta2,
            epsilon=eps,
        )
        ops.scaled_add_(weight, dw, b=-lr)


def show(session, var, state):
    """Prints the variable and Adam's state."""
    print("Variable:\n", var)
    print("Adam state:")
    for tensor, data in session.get_tensors_data(state.tensors).items():
        print(tensor, "\n", data)


def main():
    ir = popxl.Ir(replication=1)
    with ir.main_graph:
        var = popxl.variable(np.ones((2, 2)), popxl.float32)
        grad = popxl.variable(np.full((2, 2), 0.1), popxl.float32)
        adam_facts, adam = Adam(cache=True).create_graph(var, var.spec, lr=1e-3)
        adam_facts_lr, adam_lr = Adam().create_graph(
            var, var.spec, lr=popxl.TensorSpec((), popxl.float32)
        )
        print("Adam with float learning rate\n")
        print(adam.print_schedule())
        print("\n Adam with tensor learning rate\n")
        print(adam_lr.print_schedule())
        adam_state, adam_state_lr = adam_facts.init(), adam_facts_lr.init()
        adam.bind(adam_state).call(var, grad)
        adam_lr.bind(adam_state_lr).call(var, grad, popxl.constant(1e-3))

    ir.num_host_transfers = 1
    session = popxl.Session(ir, "ipu_hw")
    print("\n Before Adam update")
    show(session, var, adam_state)
    with session:
        session.run()
    print("\n After Adam update")
    show(session, var, adam_state)


if __name__ == "__main__":
    main()
