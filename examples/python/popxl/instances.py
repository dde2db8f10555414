"""Trains a small network on four replicas, in one process or in several, with equal losses.

python instances.py
poprun --num-instances 2 --num-replicas 4 python instances.py
torchrun --nproc-per-node 2 -m popdist --replicas-per-instance 2 instances.py
"""

import numpy as np
import popdist
import popxl
import popxl_addons as addons
from popxl import ops

REPLICAS, ROWS, WIDTH, STEPS = 4, 8, 16, 10
LEARNING_RATE = 0.2


class Network(addons.Module):
    """Two layers, and the mean squared error."""

    @popxl.in_sequence()
    def build(self, x, target):
        for name, width in (("first", WIDTH), ("second", 1)):
            shape = (x.shape[1], width)
            normal = lambda shape=shape: np.random.normal(0, shape[0] ** -0.5, shape)  # noqa: E731
            x = ops.tanh(x @ self.add_variable_input(name, normal, popxl.float32))
        return ops.mean((x - target) * (x - target))


def train_program():
    """Returns the program of all replicas, which average gradients, its streams and variables."""
    ir = popxl.Ir("popdist" if popdist.isPopdistEnvSet() else REPLICAS)
    with ir.main_graph, popxl.in_sequence():
        inputs = [popxl.h2d_stream((ROWS, n), popxl.float32) for n in (WIDTH, 1)]
        x, target = (ops.host_load(stream) for stream in inputs)
        facts, graph = Network().create_graph(x, target)
        variables = facts.init()
        backward = addons.autodiff(graph, grads_required=graph.args.tensors)
        call = graph.bind(variables).call_with_info(x, target)
        gradients = backward.call(1.0, args=backward.grad_graph_info.inputs_dict(call))
        for variable, gradient in zip(variables.tensors, gradients, strict=True):
            mean = ops.collectives.replicated_all_reduce(gradient, "mean")
            ops.scaled_add_(variable, mean, b=-LEARNING_RATE)
        loss = popxl.d2h_stream((), popxl.float32)
        ops.host_store(loss, ops.collectives.replicated_all_reduce(call.outputs[0], "mean"))
    return ir, inputs, loss, variables


def own_rows(ir, *arrays):
    """Returns the parts of this instance's replicas, of arrays [replicas, ...] for all replicas."""
    first, count = popdist.getReplicaIndexOffset(), ir.instance_replication_factor
    rows = (array[first : first + count] for array in arrays)
    return [each if count > 1 else each[0] for each in rows]


def main():
    np.random.seed(0)  # equal starting weights, and equal data, in every instance
    ir, inputs, loss, variables = train_program()
    slope = np.random.normal(size=(WIDTH, 1)) / WIDTH
    with popxl.Session(ir, "ipu_hw") as session:
        for step in range(STEPS):
            x = np.random.normal(size=(ir.replication_factor, ROWS, WIDTH))
            rows = own_rows(ir, x.astype(np.float32), np.tanh(x @ slope).astype(np.float32))
            losses = session.run(dict(zip(inputs, rows, strict=True)))[loss]
            if popdist.getInstanceIndex() == 0:
                print(f"step {step}: loss {losses.ravel()[0]:.9g}")
    weights = session.get_tensors_data(variables.tensors).values()
    print(f"instance {popdist.getInstanceIndex()}: {sum(w.sum() for w in weights):.9g}")


if __name__ == "__main__":
    main()
