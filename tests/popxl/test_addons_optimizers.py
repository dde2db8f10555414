"""AdamOptimizerStep agrees with torch's AdamW, whole and in shards."""

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl_addons.ops.grad_reduce_square_add import grad_reduce_square_add
from popxl_addons.optimizers.adam import AdamOptimizerStep

F32 = popxl.float32
rng = np.random.default_rng(12)
X = rng.uniform(-1, 1, (4, 6)).astype(np.float32)


@pytest.mark.parametrize("correct", [True, False])
@pytest.mark.parametrize("decay", [0.0, 0.01])
@pytest.mark.parametrize("scaled", [False, True])
def test_adam_steps_as_torchs(correct, decay, scaled):
    torch = pytest.importorskip("torch")
    grads = rng.uniform(-1, 1, (3, 4, 6)).astype(np.float32)
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        w = popxl.variable(X, name="w")
        stream = popxl.h2d_stream((4, 6), F32)
        grad = ops.host_load(stream)
        more = {}
        if scaled:
            norm = ops.sqrt(grad_reduce_square_add(grad, 8.0))
            more = {"loss_scaling": 8.0, "global_norm": norm, "global_norm_max": 0.5}
        facts, graph = AdamOptimizerStep().create_graph(
            w,
            grad,
            lr=0.01,
            weight_decay=decay,
            first_order_dtype=F32,
            eps=1e-5,
            bias_correction=correct,
            **more,
        )
        extra = [more["global_norm"]] if scaled else []
        graph.bind(facts.init()).call(w, grad, *extra)
    session = popxl.Session(ir)
    with session:
        for g in grads:
            session.run({stream: g})
    got = session.get_tensor_data(w)

    wt = torch.tensor(X, requires_grad=True)
    optimiser = torch.optim.AdamW([wt], 0.01, eps=1e-5, weight_decay=decay)
    m, v, right = np.zeros_like(X), np.zeros_like(X), X.astype(np.float64)
    for g in grads:
        wt.grad = torch.tensor(g / 8 if scaled else g)
        if scaled:
            torch.nn.utils.clip_grad_norm_([wt], 0.5)
        optimiser.step()
        m, v = 0.9 * m + 0.1 * wt.grad.numpy(), 0.999 * v + 0.001 * wt.grad.numpy() ** 2
        right = right - 0.01 * (m / (np.sqrt(v) + 1e-5) + decay * right)
    expected = wt.detach().numpy() if correct else right
    np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5)
    with ir.main_graph, pytest.raises(ValueError, match="global_norm_max"):
        AdamOptimizerStep().create_graph(w, w, lr=0.1, global_norm=popxl.constant(1.0))


class Shards(addons.Module):
    """A weight sharded over all replicas, and a step of Adam on it."""

    def build(self, grad: popxl.Tensor, rg):
        shard = self.add_replica_sharded_variable_input("w", lambda: X, F32, by_ref=True)
        step = AdamOptimizerStep()
        self.adam = step
        part = addons.reduce_replica_sharded_tensor(grad, "mean")
        self.adam(shard, part, rg, lr=0.01, first_order_dtype=F32)


@pytest.mark.parametrize("grouped", [False, True])
def test_the_state_of_shards_is_in_shards(grouped):
    torch = pytest.importorskip("torch")
    grads = rng.uniform(-1, 1, (2, 4, 4, 6)).astype(np.float32)
    ir = popxl.Ir(replication=4)
    with ir.main_graph, popxl.in_sequence():
        stream = popxl.h2d_stream((4, 6), F32)
        grad = ops.host_load(stream)
        facts, graph = Shards().create_graph(grad, ir.replica_grouping() if grouped else None)
        assert graph.args.adam.first_order.spec == popxl.TensorSpec((6,), F32, (4, 6))
        assert graph.args.adam.second_order.meta_shape == (4, 6)
        assert graph.args.adam.step.shape == ()
        variables = facts.init()
        graph.bind(variables).call(grad)
        whole = addons.ops.host_store(addons.gather_replica_sharded_tensor(variables.w))
    wt = torch.tensor(X, requires_grad=True)
    optimiser = torch.optim.AdamW([wt], 0.01, eps=1e-5, weight_decay=0.01)
    with popxl.Session(ir, "ipu_hw") as session:
        for g in grads:
            got = session.run({stream: g})[whole]
            wt.grad = torch.tensor(g.mean(0))
            optimiser.step()
            for row in got:
                np.testing.assert_allclose(row, wt.detach(), rtol=1e-4, atol=1e-5)
