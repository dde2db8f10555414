"""Ops and layers of popxl_addons against NumPy and torch, on one replica and on several."""

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl.transforms import autodiff
from popxl_addons.testing_utils import TensorInput, run_module
from program import run_graph

torch = pytest.importorskip("torch")
F = torch.nn.functional
rng = np.random.default_rng(8)


def rand(*shape):
    return rng.uniform(-1, 1, shape).astype(np.float32)


def with_gradients(function, count):
    """A program: `function` of the first `count` tensors, and their gradients for the last one."""

    def program(*xs):
        *xs, dy = xs
        graph = popxl.gir().create_graph(lambda xs: function(*xs), list(xs))
        info = autodiff(graph, grads_required=graph.inputs[:count])
        call = ops.call_with_info(graph, *xs)
        return call.outputs[0], *ops.call(info.graph, dy, inputs_dict=info.inputs_dict(call))

    return program


def torchs(function, count, *arrays):
    """The same with torch."""
    *xs, dy = (torch.tensor(a) for a in arrays)
    xs = [x.requires_grad_(i < count) for i, x in enumerate(xs)]
    y = function(*xs)
    return y.detach().numpy(), *(g.numpy() for g in torch.autograd.grad(y, xs[:count], dy))


def check(results, expected, tolerance=1e-4):
    assert len(results) == len(expected)
    for result, right in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, right, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_of_classes_on_replicas(reduction):
    scores, labels = rand(5, 12) * 4, rng.integers(0, 12, 5)
    dy = rand(5) if reduction == "none" else np.float32(0.7)
    shards = np.stack(np.split(scores, 4, 1))
    moved = np.stack([labels - 3 * r for r in range(4)]).astype(np.int32)
    loss = lambda x, y: addons.ops.cross_entropy_sharded_loss(x, y, reduction)  # noqa: E731
    dys = np.stack([dy] * 4)
    y, dx = run_graph(with_gradients(loss, 1), shards, moved, dys, replication=4)
    right = lambda x: F.cross_entropy(x, torch.tensor(labels), reduction=reduction)  # noqa: E731
    expected, gradient = torchs(right, 1, scores, np.asarray(dy))
    check([*y, np.concatenate(dx, 1)], [*[expected] * 4, gradient])


def test_cross_entropy_of_classes_on_ipus():
    scores, labels = rand(5, 8), rng.integers(0, 8, 5)

    def program():
        parts, moved = [], []
        for i in range(2):
            with popxl.ipu(i):
                parts.append(popxl.constant(scores[:, 4 * i : 4 * i + 4]) * 1.0)
                moved.append(popxl.constant(labels - 4 * i, popxl.int32) + 0)
        return addons.ops.cross_entropy_sharded_wr_loss(parts, moved)

    ir = popxl.Ir()
    with ir.main_graph:
        streams = []
        for i, t in enumerate(program()):
            streams.append(popxl.d2h_stream(t.shape, t.dtype))
            with popxl.ipu(i):
                ops.host_store(streams[-1], t)
    with popxl.Session(ir, "ipu_hw") as session:
        got = session.run()
    expected = F.cross_entropy(torch.tensor(scores), torch.tensor(labels)).numpy()
    check([got[s] for s in streams], [expected] * 2)


def test_layer_norm_of_columns_on_replicas():
    x, w, b, dy = rand(3, 8), rand(8), rand(8), rand(3, 8)
    cut = lambda a: np.stack(np.split(a, 4, -1))  # noqa: E731
    norm = addons.ops.layer_norm_distributed
    results = run_graph(
        with_gradients(lambda *a: norm(*a, 1e-5), 3), *map(cut, (x, w, b, dy)), replication=4
    )
    expected = torchs(lambda x, w, b: F.layer_norm(x, (8,), w, b), 3, x, w, b, dy)
    check([np.concatenate(r, -1) for r in results], expected)


def test_a_layer_normalises_columns_on_replicas():
    x = rand(3, 8)
    shards = TensorInput(np.stack(np.split(x, 4, -1)))
    (y,) = run_module(addons.layers.LayerNormDistributed(), shards, replicas=4)
    expected = F.layer_norm(torch.tensor(x), (8,)).numpy()
    check([np.concatenate(y, -1)], [expected])


@pytest.mark.parametrize("group", [None, (1, 2), (2, 2)])
def test_reductions_for_tensor_parallel_layers(group):
    x, dy = rand(4, 3), rand(4, 3)
    tp = addons.ops.replicated_all_reduce_TP

    def summed(a):
        members = {None: [[0, 1, 2, 3]], (1, 2): [[0, 1], [2, 3]], (2, 2): [[0, 2], [1, 3]]}[group]
        out = np.empty_like(a)
        for ids in members:
            out[ids] = a[ids].sum(0)
        return out

    rg = lambda: group and popxl.gir().replica_grouping(*group)  # noqa: E731
    for name, right in (
        ("replicated_all_reduce_identical_inputs", (x, summed(dy))),
        ("replicated_all_reduce_identical_grad_inputs", (summed(x), dy)),
        ("replicated_all_reduce", (summed(x), summed(dy))),
    ):
        reduce = getattr(tp, name)
        program = with_gradients(lambda t, f=reduce: f(t, "add", rg()), 1)
        check(run_graph(program, x, dy, replication=4), right)


def test_strided_collectives():
    x = rand(4, 2)
    strided = addons.ops.replicated_strided_collectives

    def program(t):
        rg = popxl.gir().replica_grouping(2, 2)
        return (
            strided.replicated_all_reduce_strided(t, "add", rg),
            strided.replicated_all_gather_strided(t, 0, rg),
        )

    total, whole = run_graph(program, x, replication=4)
    pairs = [[r % 2, r % 2 + 2] for r in range(4)]
    check([total, whole], [[x[p].sum(0) for p in pairs], [np.concatenate(x[p]) for p in pairs]])


@pytest.mark.parametrize("rotary", [6, 4])
def test_rotary_embedding(rotary):
    x, dy = rand(2, 3, 5, 6), rand(2, 3, 5, 6)
    positions, pairs = np.arange(5)[:, None], np.arange(rotary // 2)
    angle = positions / 10000.0 ** (2 * pairs / rotary)

    def turned(x):
        z = torch.view_as_complex(x[..., :rotary].reshape(2, 3, 5, -1, 2).contiguous())
        z = z * torch.polar(torch.ones(1), torch.tensor(angle, dtype=torch.float32))
        return torch.cat([torch.view_as_real(z).flatten(-2), x[..., rotary:]], -1)

    def program(x):
        sin, cos = addons.ops.trig_tables.trig_table_constant(5, rotary, dtype=popxl.float32)
        return addons.ops.rotary_pos_embed(x, sin, cos)

    check(run_graph(with_gradients(program, 1), x, dy), torchs(turned, 1, x, dy))


@pytest.mark.parametrize("dtype", [popxl.float8_143, popxl.float8_152], ids=str)
@pytest.mark.parametrize("size", [1e-3, 1.0, 3e4])
def test_scales_for_float8(dtype, size):
    x = (rng.normal(size=(7, 9)) * size).astype(np.float32)
    amax, mse = run_graph(
        lambda t: (addons.ops.fp8_amax_scale(t, dtype), addons.ops.fp8_mse_scale(t, dtype)), x
    )
    largest = {popxl.float8_143: 240.0, popxl.float8_152: 57344.0}[dtype]
    assert np.abs(x).max() * 2.0**amax <= largest < np.abs(x).max() * 2.0 ** (amax + 1)
    error, best = popxl.fp8_utils.host_fp8_mse_scale(x, dtype)
    there = popxl.fp8_utils.host_pow2scale_cast_to_fp8(x, dtype, int(mse), nan_on_overflow=False)
    back = popxl.fp8_utils.host_pow2scale_cast_from_fp8(there, popxl.float64, -int(mse))
    assert np.mean((back - x) ** 2) <= error * 1.0001
    with popxl.Ir().main_graph, pytest.raises(TypeError):
        addons.ops.fp8_amax_scale(popxl.constant(x), popxl.float16)


def test_groups_of_4_bits():
    x = rng.normal(size=(6, 32)).astype(np.float32)
    parts = addons.ops.group_quantize_compress_numpy(x, 8)
    assert [p.shape for p in parts] == [(6, 4, 2), (6, 4, 1), (6, 4, 1)]
    (y,) = run_graph(addons.ops.group_quantize_decompress, *parts)
    np.testing.assert_array_equal(y, addons.ops.group_quantize_decompress_numpy(*parts))
    step = parts[1].astype(np.float32).repeat(8, -1).reshape(6, 32)
    assert (np.abs(y - x) <= 0.51 * step + 4e-3).all()
    with pytest.raises(ValueError):
        addons.ops.group_quantize_compress_numpy(x, 6)


def test_small_ops():
    a, b, x = rand(3, 4), rand(5), rand(2, 4)
    rows, columns, values = [0, 3, 3], [1, 0, 0], [2.0, 3.0, 4.0]
    dense = np.zeros((4, 3), np.float32)
    np.add.at(dense, (rows, columns), values)
    sparse = (rows, columns, values, (4, 3))
    multiply = addons.ops.static_sparse_ops.dense_const_sparse_matmul
    norm, product, same = run_graph(
        lambda a, b, x: (
            addons.ops.grad_reduce_square_add([a, b], 2.0),
            multiply(x, sparse),
            addons.ops.linear_layout(x),
        ),
        *(a, b, x),
    )
    check([norm, product, same], [((a**2).sum() + (b**2).sum()) / 4, x @ dense, x])
    with popxl.Ir().main_graph, pytest.raises(ValueError):
        addons.ops.grad_reduce_square_add([])


def run_layer(module, layer, x, dtype=None):
    """The module on x with the data of torch's layer."""
    ir = popxl.Ir()
    with ir.main_graph:
        data, stream, t = addons.ops.host_load(x, dtype or popxl.dtype.as_dtype(x), "x")
        facts, graph = module.create_graph(t)
        variables = facts.init()
        out = addons.ops.host_store(graph.bind(variables).call(t)[0])
    session = popxl.Session(ir, "ipu_hw")
    session.write_variables_data(module.torch_mapping(variables, layer))
    with session:
        return session.run({stream: data})[out]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("stride, padding, groups", [(1, 0, 1), (2, 1, 2), ((1, 2), (2, 0), 1)])
def test_conv2d(bias, stride, padding, groups):
    x, layer = rand(2, 4, 7, 8), torch.nn.Conv2d(4, 6, 3, stride, padding, 1, groups, bias)
    module = addons.layers.Conv2D(6, 3, stride, padding, 1, groups, bias)
    check([run_layer(module, layer, x)], [layer(torch.tensor(x)).detach().numpy()])


def test_embedding():
    indices, layer = np.int32([[1, 4], [0, 1]]), torch.nn.Embedding(5, 3)
    module = addons.layers.Embedding(popxl.float32, 5, 3)
    expected = layer(torch.tensor(indices)).detach().numpy()
    check([run_layer(module, layer, indices)], [expected])


def test_embedding_in_shards():
    indices, layer = rng.integers(0, 50, (2, 3)).astype(np.int32), torch.nn.Embedding(50, 4)
    kind = addons.layers.Embedding
    assert (kind.get_vocab_shard_size(50, 4), kind.get_offsets(50, 4).tolist()) == (
        16,
        [0, 16, 32, 48],
    )
    ir = popxl.Ir(replication=4)
    with ir.main_graph:
        stream = popxl.h2d_stream(indices.shape, popxl.int32)
        t = ops.host_load(stream)
        module = kind(popxl.float32, 50, 4, replica_grouping=ir.replica_grouping(group_size=1))
        facts, graph = module.create_graph(t)
        variables = facts.init()
        (rows,) = graph.bind(variables).call(t)
        out = addons.ops.host_store(ops.collectives.replicated_all_reduce(rows))
    session = popxl.Session(ir, "ipu_hw")
    session.write_variables_data(module.torch_mapping(variables, layer))
    with session:
        got = session.run({stream: kind.offset_inputs(indices, 50, 4)})[out]
    check(list(got), [layer(torch.tensor(indices)).detach().numpy()] * 4)


@pytest.mark.parametrize("bias", [True, False])
def test_linear_layers_of_fewer_bits(bias):
    x, layer = rand(4, 64).astype(np.float16), torch.nn.Linear(64, 8, bias)
    expected = layer(torch.tensor(x).float()).detach().numpy()
    for module in (addons.layers.LinearFP8(8, bias), addons.layers.LinearGQ(8, 16, bias)):
        y = run_layer(module, layer, x)
        assert y.dtype == np.float16
        assert np.abs(y - expected).mean() < 0.06 * np.abs(expected).mean() + 0.02
