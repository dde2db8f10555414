"""Tests popxl_addons: collections, factories, modules, caches."""

from functools import partial

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops


class Scale(addons.Module):
    def __init__(self, cache=False):
        super().__init__(cache=cache)

    def build(self, x: popxl.Tensor):
        return x * self.add_variable_input("scale", partial(np.ones, x.shape), x.dtype)


class Two(addons.Module):
    def __init__(self):
        super().__init__()
        self.layers = addons.Module.from_list([Scale(), Scale()])

    def build(self, x: popxl.Tensor):
        for layer in self.layers:
            x = layer(x)
        return x


def test_modules_in_lists_have_numbered_state():
    ir = popxl.Ir()
    with ir.main_graph:
        facts, graph = Two().create_graph(popxl.TensorSpec((2,), popxl.float32))
        assert list(facts.to_dict()) == ["layers.0.scale", "layers.1.scale"]
        variables = facts.init()
        (y,) = graph.bind(variables).call(popxl.constant([1.0, 2.0]))
        stream = addons.ops.host_store(y)
    session = popxl.Session(ir)
    session.write_variable_data(variables["layers.0.scale"], np.float32([3, 4]))
    session.write_variable_data(variables["layers.1.scale"], np.float32([5, 6]))
    with session:
        assert session.run()[stream].tolist() == [15, 48]


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("ignore", [None, 2])
def test_cross_entropy_with_grad_matches_torch(reduction, ignore):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    x, labels = rng.normal(size=(6, 4)).astype(np.float32), np.int32([0, 2, 1, 3, 2, 0])
    ir = popxl.Ir()
    with ir.main_graph:
        loss, dx = addons.ops.cross_entropy_with_grad(
            popxl.variable(x), popxl.variable(labels), 4.0, ignore, reduction
        )
        streams = [addons.ops.host_store(t) for t in (loss, dx)]
    with popxl.Session(ir) as session:
        got = session.run()
    xt = torch.tensor(x, requires_grad=True)
    right = torch.nn.functional.cross_entropy(
        xt,
        torch.tensor(labels).long(),
        ignore_index=-9 if ignore is None else ignore,
        reduction=reduction,
    )
    (right * 4.0).backward()
    np.testing.assert_allclose(got[streams[0]], right.item(), rtol=1e-5)
    np.testing.assert_allclose(got[streams[1]], xt.grad, rtol=1e-4, atol=1e-6)


class Dense(addons.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = addons.layers.Linear(4), addons.layers.LayerNorm()
        self.last = addons.layers.Linear(2, bias=False)

    def build(self, x: popxl.Tensor):
        return self.last(ops.gelu(self.norm(self.first(x))))


def torch_dense(torch):
    net = torch.nn.Sequential(
        torch.nn.Linear(3, 4),
        torch.nn.LayerNorm(4),
        torch.nn.GELU("tanh"),
        torch.nn.Linear(4, 2, bias=False),
    )
    with torch.no_grad():
        net[1].weight.uniform_(0.5, 1.5)
    return net


def from_torch(variables, net):
    first, norm, last = variables.first, variables.norm, variables.last
    return {
        **addons.layers.Linear.torch_mapping(first, net[0]),
        **addons.layers.LayerNorm.torch_mapping(norm, net[1]),
        **addons.layers.Linear.torch_mapping(last, net[3]),
    }


@pytest.mark.parametrize("recompute", [False, True])
def test_gradients_accumulate_to_their_mean(recompute):
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    net = torch_dense(torch)
    xs, dys = torch.randn(3, 5, 3), torch.randn(3, 5, 2)
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        streams = addons.InputStreams(x=((5, 3), popxl.float32), dy=((5, 2), popxl.float32))
        x, dy = ops.host_load(streams.x), ops.host_load(streams.dy)
        facts, graph = Dense().create_graph(x)
        bwd_facts, bwd = addons.autodiff_with_accumulation(
            graph, graph.args.tensors, grads_required=[graph.graph.inputs[0]]
        )
        if recompute:
            bwd = addons.recompute_graph(bwd)
        variables, state = facts.init(), bwd_facts.init()
        call = graph.bind(variables).call_with_info(x)
        kept = bwd.grad_graph_info.inputs_dict(call)
        (dx,) = bwd.bind(state).call(dy, args=kept)
        outs = addons.OutputStreams(y=((5, 2), popxl.float32), dx=((5, 3), popxl.float32))
        ops.host_store(outs.y, call.outputs[0])
        ops.host_store(outs.dx, dx)
    names = sorted(["mean_accum_counter", *(f"accum.{n}" for n in facts.to_dict())])
    assert sorted(bwd_facts.to_dict()) == names
    session = popxl.Session(ir)
    session.write_variables_data(from_torch(variables, net))
    with session:
        for x, dy in zip(xs, dys, strict=True):
            got = session.run({streams.x: x, streams.dy: dy})
            xt = x.clone().requires_grad_()
            y = net(xt)
            y.backward(dy)
            np.testing.assert_allclose(got[outs.y], y.detach(), rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(got[outs.dx], xt.grad, rtol=1e-3, atol=1e-5)
    assert session.get_tensor_data(state.mean_accum_counter) == 3
    for found, right in [
        (state.accum.first.weight, net[0].weight.grad.T),
        (state.accum.first.bias, net[0].bias.grad),
        (state.accum.norm.weight, net[1].weight.grad),
        (state.accum.last.weight, net[3].weight.grad.T),
    ]:
        np.testing.assert_allclose(session.get_tensor_data(found), right / 3, rtol=1e-3, atol=1e-5)


def test_layers_refuse_what_does_not_fit():
    with popxl.Ir().main_graph:
        x = popxl.constant(np.zeros((2, 3, 4), np.float32))
        with pytest.raises(ValueError, match="takes a matrix"):
            addons.layers.LayerNorm().create_graph(x)
