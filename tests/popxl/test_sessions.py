"""Tests sessions: places of variables, shapes of streams, devices; names and dtypes of tensors."""

import numpy as np
import popxl
import pytest
from popxl import ops
from popxl._impl.records import of


@pytest.fixture
def counter():
    """Returns (session, stream, out stream, variable, constant) for x plus a variable."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        stream = popxl.h2d_stream((2,), popxl.float32, "x")
        v = popxl.variable(np.zeros(2), popxl.float32, name="v")
        c = popxl.constant([1, 2], popxl.int32, name="c")
        ops.add_(v, ops.host_load(stream))
        out = popxl.d2h_stream((2,), popxl.float32, "y")
        ops.host_store(out, v)
    return popxl.Session(ir, "ipu_model"), stream, out, v, c


def test_data_are_views_that_follow_transfers(counter):
    session, stream, _, v, c = counter
    data = session.get_tensor_data(v)
    assert session.get_tensor_data(c).tolist() == [1, 2]
    with session:
        session.run({stream: np.ones(2)})
        assert data.tolist() == [0, 0]  # not fetched yet
        session.weights_to_host()
        assert data.tolist() == [1, 1]
        session.run({stream: np.ones(2)})
        assert session.get_tensor_data(v) is data and data.tolist() == [2, 2]
        session.run({stream: np.ones(2)})
    assert data.tolist() == [3, 3] and not session.is_attached


def test_state_lives_on_between_contexts_and_can_be_written_detached(counter):
    session, stream, out, v, _ = counter
    with session:
        session.run({stream: np.ones(2)})
    with session:
        assert session.run({stream: np.ones(2)})[out].tolist() == [2, 2]
    session.write_variables_data({v: [10, 20]})
    with session, session:  # only the outermost attaches and detaches
        assert session.run({stream: np.ones(2)})[out].tolist() == [11, 21]
        assert session.is_attached


def test_leaving_need_not_fetch(counter):
    session, stream, _, v, _ = counter
    ir = session.ir
    lazy = popxl.Session(ir, "ipu_hw", weights_to_host_on_exit=False)
    with lazy:
        lazy.run({stream: np.ones(2)})
    assert lazy.get_tensor_data(v).tolist() == [0, 0]
    with pytest.raises(KeyError), session:
        session.run({stream: np.ones(2)})
        raise KeyError
    assert session.get_tensor_data(v).tolist() == [0, 0]


def test_callers_may_bring_arrays_for_outputs(counter):
    session, stream, out, _, _ = counter
    arrays = session.create_host_outputs()
    assert session.expected_inputs() == [stream] and list(arrays) == [out]
    with session:
        session.run_with_outputs({stream: np.ones(2)}, arrays)
    assert arrays[out].tolist() == [1, 1]
    with pytest.raises(ValueError, match="but the array has"), session:
        session.run_with_outputs({stream: np.ones(2)}, {out: np.zeros(3, np.float32)})


@pytest.mark.parametrize("transfers, replicas", [(1, 1), (3, 1), (1, 2), (3, 2)])
def test_transfers_then_replicas_lead_the_shapes(transfers, replicas):
    ir = popxl.Ir(replication=replicas)
    ir.num_host_transfers = transfers
    lead = tuple(n for n in (transfers, replicas) if n > 1)
    data = np.random.default_rng(1).normal(size=(*lead, 2, 3)).astype(np.float32)
    with ir.main_graph:
        stream = popxl.h2d_stream((2, 3), popxl.float32)
        out = popxl.d2h_stream((3, 2), popxl.float32)

        def step():
            with popxl.in_sequence():
                ops.host_store(out, ops.host_load(stream).T)

        ops.repeat(ir.create_graph(step), transfers)
    with popxl.Session(ir, "ipu_hw") as session:
        got = session.run({stream: data})[out]
        np.testing.assert_array_equal(got, data.swapaxes(-1, -2))
        if lead:
            more = np.concatenate([data, data])
            np.testing.assert_array_equal(session.run({stream: more})[out], got)


@pytest.mark.parametrize("downcast", [True, False])
def test_64_bit_inputs_become_32_bits_when_asked(downcast):
    ir = popxl.Ir()
    with ir.main_graph:
        stream = popxl.h2d_stream((2,), popxl.int32)
        ops.host_store(popxl.d2h_stream((2,), popxl.int32), ops.host_load(stream))
    with popxl.Session(ir) as session:
        if downcast:
            session.run({stream: np.int64([1, 2])})
        else:
            with pytest.raises(ValueError, match="takes popxl.dtypes.int32"):
                session.run({stream: np.int64([1, 2])}, downcast_inputs=False)


def test_names_are_scoped_and_unique():
    ir = popxl.Ir()
    with ir.main_graph:
        names = [popxl.variable(1.0, name=n).name for n in ("w", "w", "b", None, "w")]
        assert names == ["w", "w__t0", "b", "t", "w__t1"]
        with popxl.name_scope("net"), popxl.name_scope("fc"):
            v = popxl.variable(1.0, name="w")
            assert (v.name, v.scope, v.id) == ("net/fc/w", "net/fc", "net/fc/w")
        graph = ir.create_graph(lambda x: ops.tanh(x), v)
        assert graph.inputs[0].id == f"{graph.name}/x" and graph.inputs[0].name == "x"
        assert graph.inputs_by_name == {"x": graph.inputs[0]}
        assert ir.main_graph.get_tensor("net/fc/w") is v and v in ir.main_graph
        assert v not in graph and graph.outputs[0].name == "tanh_out"


def test_graphs_take_collections_and_defaults():
    def net(a, pair, *rest, scale=2.0, **named):
        return [a * scale + pair[0] - pair[1] + rest[0] * named["k"]]

    ir = popxl.Ir()
    with ir.main_graph:
        spec = popxl.TensorSpec((2,), popxl.float32)
        graph = ir.create_graph(net, spec, [spec, spec], spec, k=spec)
        assert [t.name for t in graph.inputs] == ["a", "pair_0", "pair_1", "rest_0", "k"]
        assert graph.name.startswith("test_graphs_take_collections_and_defaults.net_subgraph(0)")
        full = [np.full(2, n) for n in (1, 5, 3, 2)]
        (y,) = ops.call(graph, full[0], full[1:3], full[3], np.float32([4, 5]))
        out = popxl.d2h_stream((2,), popxl.float32)
        ops.host_store(out, y)
    with popxl.Session(ir) as session:
        assert session.run()[out].tolist() == [12, 14]


def test_in_sequence_chains_ops():
    ir = popxl.Ir()
    with ir.main_graph:
        t = popxl.constant([1.0])
        _ = t + t
        with popxl.in_sequence():
            _ = t * t
            with popxl.in_sequence(False):
                _ = t - t
                _ = t / t
            with popxl.in_sequence("pass"):
                _ = -t
    add, mul, sub, div, neg = of(ir.main_graph).ops
    assert (add.after, mul.after) == ([], [])
    assert sub.after == div.after == [mul.id]
    assert sorted(neg.after) == [sub.id, div.id]


def test_dtypes_convert():
    torch = pytest.importorskip("torch")
    for dtype in popxl.dtypes.ALL:
        assert popxl.dtype.as_dtype(dtype.as_numpy()) is dtype
        assert popxl.dtype.as_dtype(dtype.name) is dtype
    for name in ("float16", "float32", "int8", "uint8", "bool", "complex64"):
        dtype = popxl.dtype.from_name(name)
        assert popxl.dtype.as_dtype(getattr(torch, name)) is dtype
        assert popxl.dtype.as_dtype(torch.zeros(1, dtype=dtype.as_torch())) is dtype
    assert popxl.dtype.as_dtype(np.zeros(1, np.int16)) is popxl.int16
    assert popxl.dtype.as_dtype(float) is popxl.float is popxl.float32
    assert popxl.half is popxl.float16 and popxl.dtype.as_dtype(bool) is popxl.bool
    kinds = [(t.is_int, t.is_floating_point, t.is_signed) for t in (popxl.bool, popxl.uint8)]
    assert kinds == [(False, False, False), (True, False, False)]


@pytest.mark.parametrize("dtype", popxl.dtypes.ALL, ids=lambda t: t.name)
def test_properties_of_dtypes_are_those_of_numpys(dtype):
    kind = dtype.as_numpy()
    if kind.names:  # float8
        kind = np.dtype(np.float16)
    assert dtype.is_complex == np.issubdtype(kind, np.complexfloating)
    assert dtype.is_int == np.issubdtype(kind, np.integer)
    assert dtype.is_floating_point == np.issubdtype(kind, np.floating)
    number = np.issubdtype(kind, np.number)
    assert dtype.is_signed == (number and not np.issubdtype(kind, np.unsignedinteger))
    if not np.issubdtype(kind, np.unsignedinteger):
        assert dtype.is_signed == (np.array(-1).astype(kind) == -1)
    assert dtype.name == getattr(popxl, dtype.name).name
    torch = pytest.importorskip("torch")
    if dtype in popxl.dtypes._PT_TO_POPXL.values():
        found = dtype.as_torch()
        floating = (found.is_floating_point, found.is_complex, found.is_signed)
        assert floating == (dtype.is_floating_point, dtype.is_complex, dtype.is_signed)
        assert torch.zeros(1, dtype=found).numpy().dtype == dtype.as_numpy()


@pytest.mark.parametrize(
    "data, dtype",
    [
        ([1, 2], popxl.int32),
        (2.5, popxl.float32),
        (np.float64([1]), popxl.float32),
        (np.uint64([1]), popxl.uint32),
        (np.float16([1]), popxl.float16),
        ([True], popxl.bool),
    ],
)
def test_data_keep_their_type_up_to_32_bits(data, dtype):
    with popxl.Ir().main_graph:
        assert popxl.variable(data).dtype is popxl.constant(data).dtype is dtype
        assert (
            popxl.constant(np.asarray(data), downcast=False).dtype.as_numpy()
            == np.asarray(data).dtype
        )


def test_torch_tensors_are_data():
    torch = pytest.importorskip("torch")
    with popxl.Ir().main_graph:
        v = popxl.variable(torch.arange(6.0).reshape(2, 3).T)
        assert (v.shape, v.dtype, v.strides(), v.nelms, v.rank) == (
            (3, 2),
            popxl.float32,
            (8, 4),
            6,
            2,
        )
