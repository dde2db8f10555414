"""popxl_addons: collections, factories, modules, caches."""

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


def test_trees_nest_and_find():
    tree = addons.DotTree.from_dict({"a.x": 1, "a.y": 2, "list.0": 3, "list.10": 4})
    assert tree.a.x == tree["a.x"] == tree.get("a")["x"] == 1
    assert tree["list.-1"] == 4 and tree.list[0] == 3 and tree.list[-2] == 3
    assert "a.x" in tree and "a.z" not in tree and tree.get("a.z", 9) == 9
    assert (len(tree), tree.len_flat()) == (2, 4)
    assert tree.unpack() == (("a.x", "a.y", "list.0", "list.10"), (1, 2, 3, 4))
    assert tree.filter_keys(["a"]).to_dict() == {"a.x": 1, "a.y": 2}
    assert tree.map(lambda v: -v).to_dict()["a.y"] == -2
    assert tree.to_mapping(addons.DotTree.from_dict({"a.x": "one", "b": 0})) == {1: "one"}
    copy = tree.copy()
    copy.insert("a.x", 7, overwrite=True)
    assert tree.a.x == 1 and copy.pop("a.x") == 7 and "a.x" not in copy


@pytest.mark.parametrize("key", ["a", "a.x", "no name"])
def test_trees_refuse_taken_keys_and_bad_names(key):
    tree = addons.DotTree.from_dict({"a.x": 1})
    with pytest.raises(ValueError):
        tree.insert(key, 2)
    with pytest.raises(AttributeError, match="has no 'b'"):
        _ = tree.b


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


def test_creating_a_graph_twice_starts_afresh():
    ir = popxl.Ir()
    module = Two()
    with ir.main_graph:
        first, _ = module.create_graph(popxl.TensorSpec((2,), popxl.float32))
        second, graph = module.create_graph(popxl.TensorSpec((3,), popxl.float32))
    assert first["layers.0.scale"].shape == (2,) and second["layers.0.scale"].shape == (3,)
    assert list(graph.args.to_dict().values()) == list(graph.graph.inputs[1:])


def test_caches_give_equal_arguments_one_graph():
    ir = popxl.Ir()
    with ir.main_graph:
        module = Scale(cache=True)
        spec = popxl.TensorSpec((2,), popxl.float32)
        _, a = module.create_graph(spec)
        _, b = module.create_graph(spec)
        _, c = module.create_graph(popxl.TensorSpec((3,), popxl.float32))
        assert a.graph is b.graph is not c.graph

        @addons.function
        def double(x):
            return x + x

        y = double(double(popxl.constant([1.0, 2.0])))
        stream = addons.ops.host_store(y)
        assert len(ir.main_graph.called_graphs) == 1
    with popxl.Session(ir) as session:
        assert session.run()[stream].tolist() == [4, 8]


def test_factories_draw_for_every_variable():
    numbers = iter(np.arange(12, dtype=np.float32).reshape(4, 3))
    ir = popxl.Ir(replication=2)
    with ir.main_graph:
        groups = ir.replica_grouping(group_size=1)
        factory = addons.VariableFactory(numbers, popxl.float16, "v", replica_grouping=groups)
        assert (factory.shape, factory.dtype) == ((3,), popxl.float16)
        v = factory.create_tensor()
        assert (v.shape, v.shape_on_host, v.name) == ((3,), (2, 3), "v")
        w = addons.NamedVariableFactories.from_dict({"w": factory}).init("net").w
        assert w.name == "net.w"
        ops.add_(v, v)
    session = popxl.Session(ir, "ipu_hw")
    assert session.get_tensor_data(w)[:, 0].tolist() == [6, 9]
    with session:
        session.run()
    assert session.get_tensor_data(v)[:, 0].tolist() == [0, 6]
    with pytest.raises(TypeError, match="function or an iterator"):
        addons.VariableFactory(np.ones(3))


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
        with pytest.raises(ValueError, match="not made by autodiff"):
            _ = Scale().create_graph(x)[1].grad_graph_info
