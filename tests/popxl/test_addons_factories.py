"""Tests variable factories of popxl_addons: the data that they draw, and where it goes."""

import itertools

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl._impl.records import of
from popxl_addons import NamedVariableFactories, VariableFactory

F32 = popxl.float32


class Counting:
    """Returns data that says how often it was drawn."""

    def __init__(self, shape=()):
        self.shape, self.calls = shape, 0

    def __call__(self):
        self.calls += 1
        return np.full(self.shape, self.calls, np.float32)


@pytest.fixture
def main():
    ir = popxl.Ir(replication=4)
    with ir.main_graph:
        yield ir


def test_functions_are_tried_and_then_peeked(main):
    source = Counting()
    factory = VariableFactory(source)
    assert source.calls == 2 and factory.data_iter is source
    assert [int(factory.next_data()) for _ in range(3)] == [2, 3, 4]


@pytest.mark.parametrize(
    "source",
    [
        [1.0, 2.0, 3.0],
        np.float32([1, 2, 3]),
        (np.full((), i) for i in (1, 2, 3)),
        {1.0: "", 2.0: "", 3.0: ""},
    ],
    ids=["list", "array", "generator", "keys"],
)
def test_iterables_are_drawn_from_their_first(main, source):
    factory = VariableFactory(source, F32)
    assert factory.shape == () and factory.dtype is F32
    assert [float(factory.next_data()) for _ in range(3)] == [1, 2, 3]
    with pytest.raises(StopIteration):
        factory.next_data()


def test_data_that_is_none_is_refused(main):
    def broken():
        raise KeyError("lost")

    with pytest.raises(ValueError, match="lost") as caught:
        VariableFactory(broken)
    assert isinstance(caught.value.__cause__, KeyError)
    for source in (3, [object()], lambda: None, []):
        with pytest.raises(ValueError):
            VariableFactory(source)
    with pytest.raises(ValueError, match="groups of 2 replicas"):
        VariableFactory([1.0], replica_grouping=main.replica_grouping(group_size=2), shard_over=4)


def needs(a):
    return a


def gives_none():
    return None


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (needs, r"needs, could not be called: TypeError: needs\(\) missing .*'a'\. Pass"),
        (lambda: 1 / 0, "<lambda>, could not be called: ZeroDivisionError: division by zero. Pass"),
        (gives_none, "Data of variables are arrays, lists or numbers, not None"),
        (3, "must be a function or an iterable, not 3"),
        (np.zeros(0), "is empty"),
    ],
)
def test_bad_sources_are_named(main, source, words):
    with pytest.raises(ValueError, match=words) as caught:
        VariableFactory(source, F32)
    assert " at 0x" not in str(caught.value)


@pytest.mark.parametrize("groups", [4, 1])
def test_data_of_another_shape_is_refused(main, groups):
    shapes = iter([(2, 3), (2, 3), (2, 3), (3,), (2, 3)])

    def source():
        return np.zeros(next(shapes), np.float32)

    rg = main.replica_grouping(group_size=groups)
    factory = VariableFactory(source, replica_grouping=rg)
    words = r"data of shape \(3,\), rank 1, after data of shape \(2, 3\), rank 2"
    with pytest.raises(ValueError, match=words):
        for _ in range(3):
            factory.next_data()


def test_factories_need_a_graph():
    with pytest.raises(RuntimeError, match="no current graph"):
        VariableFactory([1.0])


def test_factories_know_shapes_and_groups(main):
    whole = VariableFactory(lambda: np.zeros((4, 6)), popxl.float16, "w", by_ref=True)
    assert (whole.shape, whole.dtype, whole.meta_shape) == ((4, 6), popxl.float16, None)
    assert (whole.name, whole.by_ref, whole.replica_sharded) == ("w", True, False)
    assert whole.replica_grouping == main.replica_grouping()
    for shards, size in ((4, 6), (2, 12)):
        shard = VariableFactory(lambda: np.zeros((4, 6)), shard_over=shards)
        assert (shard.shape, shard.meta_shape, shard.replica_sharded) == ((size,), (4, 6), True)
    odd = VariableFactory(lambda: np.zeros(7), shard_over=2)
    assert (odd.shape, odd.meta_shape) == ((3,), (7,))
    with pytest.raises(ValueError, match="7 elements, which 2 replicas cannot share"):
        odd.create_tensor("odd")


def test_inputs_have_names_and_places(main):
    def build():
        t, factory = addons.add_variable_input("w", lambda: np.zeros(3), F32, by_ref=True)
        assert (t.name, t.spec) == ("w", popxl.TensorSpec((3,), F32))
        assert of(t).value.by_reference and factory.name == "w"
        assert factory.create_input("net").name == "net.w"
        half = main.replica_grouping(group_size=2)
        t, factory = addons.add_replica_sharded_variable_input(
            "s", lambda: np.zeros((2, 4)), F32, replica_grouping=half
        )
        assert t.spec == popxl.TensorSpec((4,), F32, (2, 4)) and factory.shard_over == 2
        t, _ = addons.add_replica_sharded_variable_input("q", lambda: np.zeros((2, 4)))
        assert t.shape == (2,)

    assert len(main.create_graph(build).inputs) == 4


def test_variables_are_drawn_for_every_group():
    numbers = iter(np.arange(12, dtype=np.float32).reshape(4, 3))
    ir = popxl.Ir(replication=2)
    with ir.main_graph:
        groups = ir.replica_grouping(group_size=1)
        factory = VariableFactory(numbers, popxl.float16, "v", replica_grouping=groups)
        v = factory.create_tensor()
        assert (v.shape, v.shape_on_host, v.name) == ((3,), (2, 3), "v")
        facts = NamedVariableFactories.from_dict({"w": factory})
        w = facts.init("net").w
        assert w.name == "net.w" and facts.replica_groupings.to_dict() == {"w": groups}
        ops.add_(v, v)
    session = popxl.Session(ir, "ipu_hw")
    assert session.get_tensor_data(w)[:, 0].tolist() == [6, 9]
    with session:
        session.run()
    assert session.get_tensor_data(v)[:, 0].tolist() == [0, 6]


def test_empty_variables_draw_nothing(main):
    source = Counting((2, 3))
    factory = VariableFactory(source)
    assert factory.next_data(empty=True).shape == (2, 3)
    assert factory.create_tensor("v", empty=True).shape == (2, 3)
    buffer = popxl.remote_buffer((2, 3), F32, 1)
    assert factory.create_remote_tensor(buffer, 0, "r", empty=True).shape == (2, 3)
    assert source.calls == 2 and factory.next_data()[0, 0] == 2


def test_maps_keep_what_is_there(main, tmp_path):
    source = Counting((3,))
    factory = VariableFactory(source, name="w")
    made = factory.next_memmap(tmp_path / "new", "a.w")
    assert made.mode == "w+" and made.tolist() == [2, 2, 2]
    kept = factory.next_memmap(tmp_path / "new", "a.w")
    assert kept.mode == "r+" and kept.tolist() == [2, 2, 2] and source.calls == 2
    assert factory.next_memmap(tmp_path / "new", "a.w", read_only_if_exists=True).mode == "r"
    assert factory.next_memmap(tmp_path, "e", empty=True).tolist() == [0, 0, 0]
    assert source.calls == 2
    np.testing.assert_array_equal(np.fromfile(tmp_path / "new/a.w.npy", np.float32), made)
    with pytest.raises(ValueError, match="bytes"):
        VariableFactory(Counting((4,))).next_memmap(tmp_path / "new", "a.w")


@pytest.mark.parametrize("remote", [False, True])
def test_collections_are_mapped(remote, tmp_path):
    ir = popxl.Ir()
    with ir.main_graph:
        facts = NamedVariableFactories(
            b=VariableFactory(Counting((2,))),
            a=NamedVariableFactories(x=VariableFactory(Counting((2,)))),
        )
        more = {"prefix": "net", "memmap_dir": tmp_path}
        if remote:
            buffers = addons.named_variable_buffers(facts)
            variables = facts.init_remote(buffers, 0, **more)
        else:
            variables = facts.init(**more)
        addons.host_store(popxl.constant(1.0))
    assert variables.keys_flat() == ["a.x", "b"]
    assert variables.a.x.name == "net.a.x"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.a.x.npy", "net.b.npy"]
    session = popxl.Session(ir, "ipu_hw")
    assert session.get_tensor_data(variables.b).tolist() == [2, 2]


def test_initialised_in_the_graph(main):
    facts = NamedVariableFactories(
        z=VariableFactory(Counting((2,))), a=VariableFactory(Counting((8,)), shard_over=4)
    )

    def build():
        zeros, undefined = facts.init_zero(), facts.init_undef()
        assert zeros.keys_flat() == undefined.keys_flat() == ["z", "a"]
        assert zeros.a.spec == popxl.TensorSpec((2,), F32, (8,))
        return zeros.z

    graph = main.create_graph(build)
    assert [op.op_type for op in of(graph).ops] == ["Init"] * 4
    out = addons.host_store(ops.call(graph)[0])
    with popxl.Session(main, "ipu_hw") as session:
        assert session.run()[out].tolist() == [[0, 0]] * 4


def test_sources_of_one_factory_are_its_own(main):
    source = itertools.count(5.0)
    first, second = VariableFactory(source), VariableFactory(source)
    assert (first.next_data(), second.next_data()) == (5, 6)
