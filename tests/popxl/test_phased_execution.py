"""Phased execution trains as torch does, with all state in remote buffers and in shards over
replicas.
"""

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops

LAYERS, RATE = 3, 0.01
rng = np.random.default_rng(8)


class Block(addons.Module):
    def __init__(self, size):
        super().__init__()
        self.fc = addons.layers.Linear(size)

    def build(self, x: popxl.Tensor):
        return ops.gelu(self.fc(x))


def backward(info, call, full, gradient):
    """Returns the gradient of a layer's input, and those of its variables by name."""
    grad = addons.GraphWithNamedArgs.from_grad_graph(info)
    found = info.fwd_parent_ins_to_grad_parent_outs(
        call, grad.call_with_info(gradient, args=info.inputs_dict(call))
    )
    return found[call.inputs[0]], {n: found[t] for n, t in full.to_dict().items()}


def phased(x_shape):
    """Steps SGD on layers that are loaded, gathered, reduced and stored one after the other."""
    ir = popxl.Ir(replication=2)
    with ir.main_graph, popxl.in_sequence():
        stream = popxl.h2d_stream(x_shape, popxl.float32, "x")
        h = ops.host_load(stream)
        facts, graph = Block(x_shape[1]).create_graph(h)
        buffers = addons.named_variable_buffers(facts, LAYERS, {"fc.weight": 2, "fc.bias": 1})
        variables = [facts.init_remote(buffers, i, f"layer{i}") for i in range(LAYERS)]
        info = addons.autodiff(graph).grad_graph_info
        load, names = addons.load_remote_graph(buffers)
        store = addons.store_remote_graph(buffers)
        gather, _ = addons.all_gather_replica_sharded_graph(
            addons.NamedTensors.pack(names, load.graph.outputs)
        )
        calls = []
        for i in range(LAYERS):
            shards = addons.NamedTensors.pack(names, load.call(i))
            full = addons.NamedTensors.pack(names, gather.bind(shards).call())
            calls.append((graph.bind(full).call_with_info(h), full))
            h = calls[-1][0].outputs[0]
        out = addons.ops.host_store(h)
        for i in reversed(range(LAYERS)):
            h, gradients = backward(info, *calls[i], h)
            shards = addons.NamedTensors.pack(names, load.call(i))
            reduced = addons.reduce_replica_sharded_tensor(gradients["fc.weight"], "mean")
            ops.scaled_add_(shards.fc.weight, reduced, b=-RATE)
            mean = ops.collectives.replicated_all_reduce(gradients["fc.bias"], "mean")
            ops.scaled_add_(shards.fc.bias, mean, b=-RATE)
            store.bind(shards).call(i)
    return popxl.Session(ir, "ipu_hw"), stream, out, variables


def test_phased_execution_trains_as_torch():
    torch = pytest.importorskip("torch")
    x = rng.normal(size=(2, 4, 8)).astype(np.float32)
    session, stream, out, variables = phased((4, 8))
    flat = [t for layer in variables for t in (layer.fc.weight, layer.fc.bias)]
    session.write_variables_data(
        {t: rng.normal(size=t.shape_on_host).astype(np.float32) for t in flat}
    )
    peers = [torch.tensor(session.get_tensor_data(t), requires_grad=True) for t in flat]
    with session:
        y = session.run({stream: x})[out]
    results = []
    for replica in range(2):
        h = torch.tensor(x[replica])
        for w, b in zip(peers[::2], peers[1::2], strict=True):
            h = torch.nn.functional.gelu(h @ w + b, approximate="tanh")
        h.backward(h.detach())
        results.append(h.detach().numpy())
    np.testing.assert_allclose(y, np.stack(results), rtol=1e-4, atol=1e-4)
    for t, peer in zip(flat, peers, strict=True):
        expected = (peer - RATE * peer.grad / 2).detach().numpy()
        np.testing.assert_allclose(session.get_tensor_data(t), expected, rtol=1e-4, atol=1e-4)
