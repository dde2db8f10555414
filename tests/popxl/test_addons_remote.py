"""Tests named tensors in remote buffers and in shards over replicas."""

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl._impl.records import of
from program import run_graph

F32 = popxl.float32
rng = np.random.default_rng(6)
Names = addons.NamedTensors.from_dict


def rand(*shape):
    return rng.uniform(-1, 1, shape).astype(np.float32)


class Sharded(addons.Module):
    def build(self, x: popxl.Tensor):
        shard = self.add_replica_sharded_variable_input("w", lambda: np.arange(16.0).reshape(4, 4))
        return x @ addons.gather_replica_sharded_tensor(shard, *self.args)


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("args", [(), (True,)])
def test_modules_have_sharded_variables(remote, args):
    x = rand(4, 2, 4)
    ir = popxl.Ir(replication=4)
    with ir.main_graph, popxl.in_sequence():
        stream = popxl.h2d_stream((2, 4), F32)
        t, module = ops.host_load(stream), Sharded()
        module.args = args
        facts, graph = module.create_graph(t)
        assert graph.args.w.spec == popxl.TensorSpec((4,), F32, (4, 4))
        if remote:
            buffers = addons.named_variable_buffers(facts)
            assert buffers.w.meta_shape == (4, 4) and buffers.w.tensor_shape == (4,)
            facts.init_remote(buffers)
            variables = addons.load_remote(buffers)
        else:
            variables = facts.init()
        out = addons.ops.host_store(graph.bind(variables).call(t)[0])
    with popxl.Session(ir, "ipu_hw") as session:
        got = session.run({stream: x})[out]
    np.testing.assert_allclose(got, x @ np.arange(16.0).reshape(4, 4), rtol=1e-5, atol=1e-5)


def rows_of(factory, how, groups):
    """Returns the replicas' values of a factory's variable: a shard, a loaded one, or a spec's."""
    factories = addons.NamedVariableFactories(w=factory)
    if how == "variable":
        return factories.init().w
    if how == "spec":  # shapes tell a buffer how many replicas share
        spec = popxl.TensorSpec(factory.shape, factory.dtype, factory.meta_shape)
        buffers = addons.named_buffers(Names({"w": spec}))
    else:
        buffers = addons.named_variable_buffers(factories, 1, factory.shard_over)
    factories.init_remote(buffers)
    return addons.load_remote(buffers).w


@pytest.mark.parametrize("how", ["variable", "buffer", "spec"])
@pytest.mark.parametrize("group", [(1, 4), (1, 2), (2, 2)])
def test_less_than_a_group_may_share_a_variable(how, group):
    """Shards over pairs of consecutive replicas in a group."""
    data = iter(np.arange(24, dtype=np.float32).reshape(4, 2, 3))
    ir = popxl.Ir(replication=4)
    with ir.main_graph, popxl.in_sequence():
        groups = ir.replica_grouping(*group)
        factory = addons.VariableFactory(data, F32, "w", replica_grouping=groups, shard_over=2)
        assert (factory.shape, factory.meta_shape) == ((3,), (2, 3))
        shard = rows_of(factory, how, groups)
        assert shard.spec == popxl.TensorSpec((3,), F32, (2, 3))
        out = addons.host_store(shard)
    with popxl.Session(ir, "ipu_hw") as session:
        got = session.run()[out]
    stride, _ = group
    whole = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    for r, found in enumerate(got):
        place = groups.assignment[r], r // stride % 2
        np.testing.assert_array_equal(found, whole[place[0], place[1]])


def shape_of(buffer):
    return buffer.tensor_shape, buffer.meta_shape


def test_buffers_are_of_specs_or_shards():
    ir = popxl.Ir(replication=4)
    with ir.main_graph:
        spec, pairs = popxl.TensorSpec((2, 6), F32), ir.replica_grouping(group_size=2)
        shard = popxl.TensorSpec((3,), F32, (2, 6))
        make = addons.create_remote_buffer
        assert shape_of(make(spec)) == ((3,), (2, 6))
        assert shape_of(make(spec, 5, pairs)) == ((6,), (2, 6))
        assert shape_of(make(spec, shard_over=2)) == ((6,), (2, 6))
        assert shape_of(make(spec, shard_over=1)) == ((2, 6), ())
        assert shape_of(make(spec, 1, ir.replica_grouping(group_size=1))) == ((2, 6), ())
        assert shape_of(make(shard, 7, shard_over=2)) == ((3,), (2, 6))
        assert make(shard, 7).entries == 7
        with pytest.raises(ValueError, match="12 elements"):
            make(spec, shard_over=5)
        with pytest.raises(ValueError, match="groups of 4 replicas"):
            make(spec, shard_over=3)
        named = addons.named_buffers(Names({"a.b": shard, "c": popxl.constant(rand(3))}), 2)
        assert isinstance(named, addons.NamedRemoteBuffers)
        assert shape_of(named.a.b) == ((3,), (2, 6)) and shape_of(named.c) == ((3,), ())
        assert named.c.entries == 2


CHOICES = [
    (True, 2, 4),
    (False, 1, 1),
    (2, 2, 2),
    ({"a": 2}, 2, 4),
    ({"b.c": 4, "a": 1}, 1, 4),
    ({"b.c": 2}, 2, 2),
    ({"a": False, "b.c": True}, 1, 4),
    ({}, 2, 4),
]


@pytest.mark.parametrize("choice, a, b", CHOICES)
def test_buffers_of_factories_are_sharded_as_asked(choice, a, b):
    ir = popxl.Ir(replication=4)
    with ir.main_graph:
        pairs = ir.replica_grouping(group_size=2)
        factories = addons.NamedVariableFactories.from_dict(
            {
                "a": addons.VariableFactory(lambda: rand(2, 4), replica_grouping=pairs),
                "b.c": addons.VariableFactory(lambda: rand(8)),
            }
        )
        found = addons.named_variable_buffers(factories, 3, choice)
        for buffer, shape, shards in ((found.a, (2, 4), a), (found.b.c, (8,), b)):
            expected = ((8 // shards,), shape) if shards > 1 else (shape, ())
            assert shape_of(buffer) == expected and buffer.entries == 3


@pytest.mark.parametrize("choice", [True, False, 1, 2, 4, {}, {"w": 1}, {"w": 4}, {"other": 2}])
@pytest.mark.parametrize("group", [(1, 4), (1, 2), (2, 2)])
def test_sharded_factories_keep_their_shards_in_buffers(choice, group):
    data = np.arange(8, dtype=np.float32).reshape(2, 4)
    ir = popxl.Ir(replication=4)
    with ir.main_graph, popxl.in_sequence():
        groups = ir.replica_grouping(*group)
        if type(choice) is int and choice > groups.group_size:
            pytest.skip("is refused")
        factory = addons.VariableFactory(
            lambda: data, F32, "w", replica_grouping=groups, shard_over=2
        )
        factories = addons.NamedVariableFactories(w=factory)
        buffers = addons.named_variable_buffers(factories, 2, choice)
        assert shape_of(buffers.w) == (factory.shape, factory.meta_shape) == ((4,), (2, 4))
        assert buffers.w.entries == 2
        factories.init_remote(buffers, 1)
        out = addons.host_store(addons.load_remote(buffers, 1).w)
    with popxl.Session(ir, "ipu_hw") as session:
        for replica, shard in enumerate(session.run()[out]):
            np.testing.assert_array_equal(shard, data[replica // group[0] % 2])


def test_modules_with_some_sharded_factories_have_fitting_buffers():
    class Both(addons.Module):
        def build(self, x: popxl.Tensor):
            whole = self.add_variable_input("whole", lambda: rand(4, 4), F32)
            shard = self.add_replica_sharded_variable_input("shard", lambda: rand(4, 4), F32)
            return x @ whole @ addons.gather_replica_sharded_tensor(shard)

    ir = popxl.Ir(replication=4)
    with ir.main_graph, popxl.in_sequence():
        facts, graph = Both().create_graph(popxl.TensorSpec((2, 4), F32))
        buffers = addons.named_variable_buffers(facts, shard_over_dict=False)
        facts.init_remote(buffers)
        bound = graph.bind(addons.load_remote(buffers))
        out = addons.host_store(bound.call(popxl.constant(rand(2, 4)))[0])
    assert shape_of(buffers.whole) == ((4, 4), ()) and shape_of(buffers.shard) == ((4,), (4, 4))
    with popxl.Session(ir, "ipu_hw") as session:
        assert session.run()[out].shape == (4, 2, 4)


@pytest.mark.parametrize("choice", [0, 5, 2.0, "all", None, {"a": 5}, {"a": "all"}])
def test_other_shards_of_factories_are_refused(choice):
    with popxl.Ir(replication=4).main_graph, pytest.raises(ValueError, match="shard"):
        factory = addons.VariableFactory(lambda: rand(8))
        factories = addons.NamedVariableFactories.from_dict({"a": factory})
        addons.named_variable_buffers(factories, shard_over_dict=choice)


@pytest.mark.parametrize("io", [False, True])
@pytest.mark.parametrize("graphs", [False, True])
def test_rows_are_loaded_and_stored_by_name(io, graphs):
    a, b = rand(2, 3), rand(4)

    def program(a, b):
        tensors = Names({"b.x": b, "a": a})
        buffers = addons.named_buffers(tensors)
        if graphs:
            store = addons.store_remote_graph(buffers, 3, io)
            load, names = addons.load_remote_graph(buffers, 2, io)
            assert names == ["a", "b.x"] and {x.entries for x in buffers.to_dict().values()} == {3}
            for graph, what in ((store.graph, "store"), (load.graph, "load")):
                assert graph.name.startswith(f"{what}_remote")
                assert graph.inputs[0].name == f"{what}_index"
                assert graph.inputs[0].spec == popxl.TensorSpec((), popxl.int32)
                exchanges = [op for op in of(graph).ops if op.op_type == "MultiExchange"]
                assert len(exchanges) == 1
            store.bind(tensors).call(2)
            back = addons.NamedTensors.pack(names, load.call(2))
        else:
            buffers.a.entries = buffers.b.x.entries = 3
            addons.store_remote(buffers, tensors, 1, use_io_tiles=io)
            back = addons.load_remote(buffers, 1, use_io_tiles=io)
            types = [op.op_type for op in of(popxl.gmg()).ops]
            assert types.count("MultiExchange") == 2
        return back.a + 0.0, back.b.x * 1.0

    for found, right in zip(run_graph(program, a, b), (a, b), strict=True):
        np.testing.assert_array_equal(found, right)


def test_specs_of_shards():
    ir = popxl.Ir(replication=4)
    with ir.main_graph:
        spec, shard = popxl.TensorSpec((2, 6), F32), popxl.TensorSpec((3,), F32, (2, 6))
        of_shard = addons.replica_sharded_spec
        assert of_shard(spec, ir.replica_grouping()) == shard
        assert of_shard(popxl.constant(rand(2, 6)), ir.replica_grouping(2)).shape == (6,)
        assert of_shard(shard, ir.replica_grouping()) == shard
        assert of_shard(spec, ir.replica_grouping(group_size=1)) == spec
        odd = popxl.TensorSpec((2, 3), F32)
        assert of_shard(odd, ir.replica_grouping()) == odd


@pytest.mark.parametrize("io", [False, True])
def test_shards_are_gathered_and_reduced_by_name(io):
    x = rand(4, 2, 4)

    def program(x):
        specs = Names({"a": x, "b": x.flatten()})
        groups = addons.NamedReplicaGrouping.from_dict({"b": popxl.gir().replica_grouping()})
        reduce, names = addons.reduce_replica_sharded_graph(specs, "add", io, groups)
        assert names == ["a", "b"] and reduce.graph.name.startswith("replica_reduce")
        shards = addons.NamedTensors.pack(names, reduce.bind(specs).call())
        assert shards.a.spec == popxl.TensorSpec((2,), F32, (2, 4))
        gather, names = addons.all_gather_replica_sharded_graph(shards, io, groups)
        assert gather.graph.name.startswith("all_gather")
        assert gather.args.a.name == shards.a.name
        return gather.bind(shards).call()

    a, b = run_graph(program, x, replication=4)
    np.testing.assert_allclose(a, np.broadcast_to(x.sum(0), x.shape), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(b, a.reshape(4, 8), rtol=1e-6)


def reduced(x, op, replica_group, shard_group):
    """Returns the reduced tensor, and how many replicas share it."""
    groups = [
        None if g is None else popxl.gir().replica_grouping(*g)
        for g in (replica_group, shard_group)
    ]
    return addons.reduce_replica_sharded_tensor(x, op, *groups)


REDUCED = {
    "all share": (None, None, (2,)),
    "pairs reduce and share": ((1, 2), None, (4,)),
    "all reduce, pairs share": (None, (1, 2), (4,)),
    "pairs apart share": (None, (2, 2), (4,)),
    "one has all": (None, (1, 1), (2, 4)),
}


@pytest.mark.parametrize("replica_group, shard_group, shape", REDUCED.values(), ids=REDUCED)
@pytest.mark.parametrize("op", ["add", "mean"])
def test_reductions_into_shards(replica_group, shard_group, shape, op):
    x = rand(4, 2, 4)
    (y,) = run_graph(lambda t: reduced(t, op, replica_group, shard_group), x, replication=4)
    members = (
        (lambda r: [0, 1, 2, 3]) if replica_group is None else lambda r: [r - r % 2, r - r % 2 + 1]
    )
    stride, size = shard_group or replica_group or (1, 4)
    assert y.shape == (4, *shape)
    for r in range(4):
        whole = getattr(np, {"add": "sum", "mean": "mean"}[op])(x[members(r)], 0)
        if size > 1:
            whole = whole.ravel().reshape(size, -1)[r // stride % size]
        np.testing.assert_allclose(y[r], whole, rtol=1e-5, atol=1e-6)


def test_what_cannot_be_divided_is_reduced_whole():
    x = rand(4, 3)
    (y,) = run_graph(lambda t: addons.reduce_replica_sharded_tensor(t), x, replication=4)
    np.testing.assert_allclose(y, np.stack([x.sum(0)] * 4), rtol=1e-5, atol=1e-6)
