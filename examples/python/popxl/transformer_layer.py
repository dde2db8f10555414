"""Builds a transformer layer in PopXL from modules, and trains it to average what it has seen."""

import numpy as np
import popxl
import popxl_addons as addons
from popxl import ops
from popxl_addons.layers import LayerNorm, Linear

BATCH, LENGTH, WIDTH, HEADS, STEPS = 8, 12, 32, 4, 300


class Attention(addons.Module):
    """Self-attention. Each place sees itself and those before it."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (Linear(WIDTH) for _ in range(4))

    def build(self, x):
        def heads(t):
            return t.reshape((BATCH, LENGTH, HEADS, WIDTH // HEADS)).transpose((0, 2, 1, 3))

        q, k, v = heads(self.q(x)), heads(self.k(x)), heads(self.v(x))
        hidden = np.triu(np.full((LENGTH, LENGTH), -1e4, np.float32), 1)
        scores = (q @ k.transpose((0, 1, 3, 2))) * (WIDTH // HEADS) ** -0.5
        weights = ops.softmax(scores + popxl.constant(hidden), axis=-1)
        return self.out((weights @ v).transpose((0, 2, 1, 3)).reshape(x.shape))


class TransformerLayer(addons.Module):
    """Maps [BATCH * LENGTH, WIDTH] to the same shape, norms first."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.attention = LayerNorm(), LayerNorm(), Attention()
        self.wide, self.narrow = Linear(4 * WIDTH), Linear(WIDTH)

    def build(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.narrow(ops.gelu(self.wide(self.norm2(x))))


def program():
    """Returns a session that trains for a step a run, and its streams: input, target and loss."""
    ir = popxl.Ir()
    ir.num_host_transfers = 1
    shape = (BATCH * LENGTH, WIDTH)
    with ir.main_graph, popxl.in_sequence():
        inputs, targets = (popxl.h2d_stream(shape, popxl.float32, n) for n in ("x", "target"))
        x, target = ops.host_load(inputs), ops.host_load(targets)
        factories, layer = TransformerLayer().create_graph(x)
        gradient, variables = addons.autodiff(layer), factories.init()
        call = layer.bind(variables).call_with_info(x)
        difference = call.outputs[0] - target
        losses = popxl.d2h_stream((), popxl.float32, "loss")
        ops.host_store(losses, ops.mean(difference * difference))
        found = gradient.grad_graph_info
        back = gradient.call_with_info(difference * (2 / BATCH), args=found.inputs_dict(call))
        gradients = found.fwd_parent_ins_to_grad_parent_outs(call, back)
        for variable in variables.tensors:
            ops.scaled_add_(variable, gradients[variable], b=-0.01)
    return popxl.Session(ir, "ipu_hw"), inputs, targets, losses


def main():
    np.random.seed(0)
    session, inputs, targets, losses = program()
    with session:
        for step in range(STEPS):
            x = np.random.randn(BATCH, LENGTH, WIDTH).astype(np.float32)
            target = np.cumsum(x, axis=1) / np.arange(1, LENGTH + 1, dtype=np.float32)[:, None]
            rows = {inputs: x.reshape(-1, WIDTH), targets: target.reshape(-1, WIDTH)}
            loss = session.run(rows)[losses]
            if step % 100 == 99:
                print(f"step {step + 1}: loss {loss:.4f}")


if __name__ == "__main__":
    main()
