"""Programs on several IPUs give what they give on one."""

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops

X = np.random.default_rng(4).normal(size=(4, 6)).astype(np.float32)
LABELS = np.int32([0, 2, 1, 2])


class Split(addons.Module):
    """Two layers, each on an IPU of its own."""

    def __init__(self, ipus):
        super().__init__()
        self.ipus = ipus
        self.first, self.last = addons.layers.Linear(5), addons.layers.Linear(3)

    def build(self, x: popxl.Tensor):
        with popxl.ipu(self.ipus[0]):
            h = ops.gelu(self.first(x))
        if self.ipus[0] != self.ipus[1]:
            h = h.copy_to_ipu(self.ipus[1])
        with popxl.ipu(self.ipus[1]):
            return self.last(h)


def train(ipus, steps=3):
    """Losses, weights and the number of IPUs that held something."""
    np.random.seed(0)
    ir = popxl.Ir()
    with ir.main_graph:
        with popxl.ipu(ipus[0]):
            x = ops.host_load(popxl.h2d_stream(X.shape, popxl.float32, "x"))
        with popxl.ipu(ipus[1]):
            labels = ops.host_load(popxl.h2d_stream(LABELS.shape, popxl.int32, "labels"))
        facts, graph = Split(ipus).create_graph(x)
        grad = addons.autodiff(graph)
        variables = facts.init()
        call = graph.bind(variables).call_with_info(x)
        with popxl.ipu(ipus[1]):
            y = call.outputs[0]
            loss, dy = addons.ops.cross_entropy_with_grad(y, labels)
            out = addons.ops.host_store(loss)
        info = grad.grad_graph_info
        back = grad.call_with_info(dy, args=info.inputs_dict(call))
        grads = info.fwd_parent_ins_to_grad_parent_outs(call, back)
        for name, variable in variables.to_dict().items():
            with popxl.ipu(ipus[0] if name.startswith("first") else ipus[1]):
                ops.scaled_add_(variable, grads[variable], b=-0.5)
    session = popxl.Session(ir, "ipu_hw")
    inputs = dict(zip(session.expected_inputs(), (X, LABELS), strict=True))
    with session:
        losses = [session.run(inputs)[out].item() for _ in range(steps)]
    held = sum(ipu["state_bytes"] > 0 for ipu in session._executable.report()["ipus"])
    return losses, session.get_tensors_data(variables.tensors).values(), held


@pytest.mark.parametrize("ipus", [(0, 1), (1, 0), (1, 3)])
def test_training_on_two_ipus_is_training_on_one(ipus):
    losses, weights, held = train((0, 0))
    assert held == 1 and losses[-1] < losses[0]
    split_losses, split_weights, held = train(ipus)
    assert held == 2 and split_losses == losses
    for a, b in zip(weights, split_weights, strict=True):
        np.testing.assert_array_equal(a, b)
