"""A transformer in PopXL: tensor-parallel layers that train replicated, pipelined or in phases.

Each of `tensor_parallel` replicas has a share of the heads and of the hidden units; groups of such
replicas have different data. Weights are [groups, ...] on the host: one share for each replica of a
group.
"""

from dataclasses import dataclass

import numpy as np
import popxl
import popxl_addons as addons
from popxl import ops
from popxl_addons.layers import LayerNorm, Linear
from popxl_addons.ops.replicated_all_reduce_TP import (
    replicated_all_reduce_identical_grad_inputs,
    replicated_all_reduce_identical_inputs,
)

F32 = popxl.float32


@dataclass
class Config:
    width: int = 16
    heads: int = 4
    batch: int = 2
    length: int = 6
    layers: int = 2
    tensor_parallel: int = 2
    data_parallel: int = 1
    rate: float = 0.1

    @property
    def rows(self):
        return self.batch * self.length

    @property
    def replicas(self):
        return self.tensor_parallel * self.data_parallel

    def of_data(self):
        """Groups the replicas that have the same share of each weight."""
        return popxl.gcg().ir.replica_grouping(self.tensor_parallel, self.data_parallel)

    def of_tensors(self):
        """Groups the replicas that share a layer."""
        return popxl.gcg().ir.replica_grouping(1, self.tensor_parallel)


class Spread(addons.Module):
    """Divides its work into shares for replicas; all have the same input and output."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        share = config.width // config.tensor_parallel
        self.make(share, config.of_data())
        self.out = Linear(config.width, bias=False, replica_grouping=config.of_data())

    def build(self, x):
        group = self.config.of_tensors()
        x = replicated_all_reduce_identical_inputs(x, group=group)
        y = self.out(self.shares(x))
        y = replicated_all_reduce_identical_grad_inputs(y, group=group)
        return y + self.add_variable_input("bias", lambda: np.zeros(self.config.width), F32)


class Attention(Spread):
    def make(self, share, grouping):
        self.q = Linear(share, replica_grouping=grouping)
        self.k = Linear(share, replica_grouping=grouping)
        self.v = Linear(share, replica_grouping=grouping)

    def shares(self, x):
        c = self.config
        heads = c.heads // c.tensor_parallel
        size = c.width // c.heads

        def split(t):
            return t.reshape((c.batch, c.length, heads, size)).transpose((0, 2, 1, 3))

        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        scores = q @ k.transpose((0, 1, 3, 2)) * popxl.constant(size**-0.5, F32)
        causal = np.triu(np.full((c.length, c.length), -1e4, np.float32), 1)
        weights = ops.softmax(scores + popxl.constant(causal, F32), axis=-1)
        return (weights @ v).transpose((0, 2, 1, 3)).reshape((c.rows, heads * size))


class FeedForward(Spread):
    def make(self, share, grouping):
        self.dense = Linear(4 * share, replica_grouping=grouping)

    def shares(self, x):
        return ops.gelu(self.dense(x))


class Layer(addons.Module):
    """Maps [rows, width] to [rows, width], norms first."""

    def __init__(self, config):
        super().__init__()
        self.norm1, self.norm2 = LayerNorm(), LayerNorm()
        self.attention, self.feed_forward = Attention(config), FeedForward(config)

    def build(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


def differentiated(config):
    """Returns factories, graph and gradient graph of a layer."""
    facts, graph = Layer(config).create_graph(popxl.TensorSpec((config.rows, config.width), F32))
    return facts, graph, addons.autodiff(graph)


def gradients(graph, grad, call, dy, args):
    """Returns the gradient of the input of a call of `graph`, and of its variables by name."""
    done = grad.call_with_info(dy, args=args)
    found = grad.grad_graph_info.fwd_parent_ins_to_grad_parent_outs(call, done)
    of_variables = {n: found[call.graph_to_parent(t)] for n, t in graph.args.to_dict().items()}
    return found[call.inputs[0]], of_variables


def loss_and_gradient(y, target, count):
    """Returns the mean of squares, and its gradient divided by `count`."""
    size = float(np.prod(y.shape))
    difference = y - target
    loss = ops.sum(difference * difference) * popxl.constant(1 / size, F32)
    return loss, difference * popxl.constant(2 / size / count, F32)


def averaged(config, gradient):
    """Averages over the replicas with different data."""
    if config.data_parallel == 1:
        return gradient
    return ops.collectives.replicated_all_reduce(gradient, "mean", group=config.of_data())


class Program:
    """An Ir with streams x, target → loss, y, and `variables`, one tree per layer."""

    def __init__(self, config, steps=1):
        self.config = config
        self.ir = popxl.Ir(replication=config.replicas)
        self.ir.num_host_transfers = steps
        shape = config.rows, config.width
        with self.ir.main_graph, popxl.in_sequence():
            self.x, self.target = (popxl.h2d_stream(shape, F32, n) for n in ("x", "target"))
            self.loss, self.y = popxl.d2h_stream((), F32, "loss"), popxl.d2h_stream(shape, F32, "y")
            self.variables = self.build(steps)
        self.session = popxl.Session(self.ir, "ipu_hw")

    def finish(self, y, count=1):
        """Stores output and loss; returns the loss's gradient."""
        loss, dy = loss_and_gradient(y, ops.host_load(self.target), count)
        ops.host_store(self.loss, loss)
        ops.host_store(self.y, y)
        return dy

    def run(self, x, target):
        with self.session:
            outputs = self.session.run({self.x: x, self.target: target})
        return outputs[self.loss], outputs[self.y]


class Replicated(Program):
    """All layers on one IPU of each replica, which call one graph."""

    def build(self, steps):
        c = self.config
        facts, graph, grad = differentiated(c)
        variables = [facts.init(f"layer{i}") for i in range(c.layers)]
        h, calls = ops.host_load(self.x), []
        for weights in variables:
            calls.append(graph.bind(weights).call_with_info(h))
            h = calls[-1].outputs[0]
        dy = self.finish(h)
        for weights, call in zip(reversed(variables), reversed(calls), strict=True):
            args = grad.grad_graph_info.inputs_dict(call)
            dy, grads = gradients(graph, grad, call, dy, args)
            for name, weight in weights.to_dict().items():
                ops.scaled_add_(weight, averaged(c, grads[name]), b=-c.rate)
        return variables


class Pipelined(Program):
    """One layer per IPU; gradients of `steps` micro-batches are added, then weights change."""

    def build(self, steps):
        c, layers, calls, h = self.config, [], [], None
        for i in range(c.layers):
            with popxl.ipu(i):
                facts, graph, grad = differentiated(c)
                weights = facts.init(f"layer{i}")
                sums = {
                    name: popxl.variable(
                        np.zeros(t.shape_on_host), F32, f"sum{i}.{name}",
                        replica_grouping=t.replica_grouping,
                    )
                    for name, t in weights.to_dict().items()
                }  # fmt: skip
                layers.append((graph, grad, weights, sums))
        with addons.pipelined_execution(steps) as pipeline:
            for i, (graph, _, weights, _) in enumerate(layers):
                with pipeline.stage(i), popxl.ipu(i):
                    h = ops.host_load(self.x) if i == 0 else h.copy_to_ipu(i)
                    calls.append(graph.bind(weights).call_with_info(h))
                    h = calls[-1].outputs[0]
                    dy = self.finish(h, steps) if i == c.layers - 1 else None
            for back, i in enumerate(reversed(range(c.layers))):
                graph, grad, _, sums = layers[i]
                with pipeline.stage(c.layers + back), popxl.ipu(i):
                    dy = dy.copy_to_ipu(i) if back else pipeline.stash_and_restore_tensor(dy)
                    info = grad.grad_graph_info
                    args = pipeline.stash_and_restore_activations(calls[i], info)
                    dy, grads = gradients(graph, grad, calls[i], dy, args)
                    for name, total in sums.items():
                        ops.add_(total, grads[name])
        for i, (_, _, weights, sums) in enumerate(layers):
            with popxl.ipu(i):
                for name, weight in weights.to_dict().items():
                    ops.scaled_add_(weight, averaged(c, sums[name]), b=-c.rate)
                    ops.var_updates.accumulator_zero_(sums[name])
        return [weights for _, _, weights, _ in layers]


class Phased(Program):
    """Weights are in remote buffers, one row per layer, and on the IPU only while a layer uses
    them."""

    def build(self, steps):
        c = self.config
        facts, graph, grad = differentiated(c)
        buffers = addons.named_variable_buffers(facts, c.layers, False)
        variables = [facts.init_remote(buffers, i, f"layer{i}") for i in range(c.layers)]
        h, calls = ops.host_load(self.x), []
        for i in range(c.layers):
            weights = addons.load_remote(buffers, i)
            calls.append(graph.bind(weights).call_with_info(h))
            h = calls[-1].outputs[0]
        dy = self.finish(h)
        for i in reversed(range(c.layers)):
            weights = addons.load_remote(buffers, i)
            args = grad.grad_graph_info.inputs_dict(calls[i])
            dy, grads = gradients(graph, grad, calls[i], dy, args)
            for name, weight in weights.to_dict().items():
                ops.scaled_add_(weight, averaged(c, grads[name]), b=-c.rate)
                ops.remote_store(buffers.to_dict()[name], i, weight)
        return variables
