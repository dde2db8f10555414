"""Ops and layers of popxl_addons agree with NumPy and torch, on one replica and on several."""

import importlib

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from gradients import check, rand, rng, torchs, with_gradients
from popxl import ops
from popxl.transforms import autodiff
from popxl_addons.ops import (
    replicated_all_reduce_TP,
    replicated_strided_collectives as strided,
)
from popxl_addons.ops.cross_entropy_sharded_loss import cross_entropy_sharded_loss
from popxl_addons.ops.cross_entropy_sharded_wr_loss import cross_entropy_sharded_wr_loss
from popxl_addons.ops.grad_reduce_square_add import grad_reduce_square_add
from popxl_addons.ops.layer_norm_distributed import layer_norm_distributed
from popxl_addons.ops.linear_layout import linear_layout
from popxl_addons.ops.rotary_pos_embed import rotary_pos_embed, trig_table_constants
from popxl_addons.ops.static_sparse_ops import dense_const_sparse_matmul, random_sparse
from program import run_graph

torch = pytest.importorskip("torch")
sparse = pytest.importorskip("scipy.sparse")
F = torch.nn.functional


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_of_classes_on_replicas(reduction):
    scores, labels = rand(5, 12) * 4, rng.integers(0, 12, 5)
    dy = rand(5) if reduction == "none" else np.float32(0.7)
    shards = np.stack(np.split(scores, 4, 1))
    moved = np.stack([labels - 3 * r for r in range(4)]).astype(np.int32)
    loss = lambda x, y: cross_entropy_sharded_loss(x, y, reduction=reduction)  # noqa: E731
    dys = np.stack([dy] * 4)
    y, dx = run_graph(with_gradients(loss, 1), shards, moved, dys, replication=4)
    right = lambda x: F.cross_entropy(x, torch.tensor(labels), reduction=reduction)  # noqa: E731
    expected, gradient = torchs(right, 1, scores, np.asarray(dy))
    check([*y, np.concatenate(dx, 1)], [*[expected] * 4, gradient])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_rows_that_a_sharded_loss_ignores(reduction, dtype):
    scores, labels = (rand(6, 8) * 4).astype(dtype), np.int32([5, 0, 5, 1, 7, 2])
    dy = (rand(6) if reduction == "none" else np.array(0.5)).astype(dtype)
    shards = np.stack(np.split(scores, 2, 1))
    moved = np.stack([labels, labels - 4]).astype(np.int32)

    def loss(x, y, ignored):
        y = cross_entropy_sharded_loss(x, y, ignored, reduction=reduction)
        assert y.dtype is popxl.dtype.as_dtype(dtype)
        return y

    ignored = np.int32([5, 1])  # as each replica counts
    y, dx = run_graph(
        with_gradients(loss, 1), shards, moved, ignored, np.stack([dy] * 2), replication=2
    )
    right = lambda x: F.cross_entropy(  # noqa: E731
        x, torch.tensor(labels).long(), reduction=reduction, ignore_index=5
    )
    expected, gradient = torchs(right, 1, scores.astype(np.float32), dy.astype(np.float32))
    tolerance = 1e-4 if dtype == "float32" else 4e-3
    check([*y, np.concatenate(dx, 1)], [*[expected] * 2, gradient], tolerance)


@pytest.mark.parametrize("sizes", [(4, 4), (3, 5), (2, 3, 2, 1)])
def test_cross_entropy_of_classes_on_ipus(sizes):
    scores, labels, dy = rand(5, 8), rng.integers(0, 8, 5).astype(np.int32), rand(5)
    parts = np.split(scores, np.cumsum(sizes)[:-1], 1)
    ir, streams, feeds = popxl.Ir(), [], {}

    def load(data, name):
        data, stream, t = addons.ops.host_load(data, popxl.dtype.as_dtype(data), name)
        feeds[stream] = data
        return t

    with ir.main_graph, popxl.in_sequence():
        logits, indices, where = [], [], range(len(sizes))
        for i in where:
            with popxl.ipu(i):
                logits.append(load(parts[i], "x"))
                indices.append(load(labels, "y"))

        def losses(*args):
            xs, ys = args[: len(sizes)], args[len(sizes) :]
            return cross_entropy_sharded_wr_loss(xs, ys, list(where))

        graph = ir.create_graph(losses, *logits, *indices)
        info = autodiff(graph, grads_required=graph.inputs[: len(sizes)])
        call = ops.call_with_info(graph, *logits, *indices)
        with popxl.ipu(0):
            grad = load(dy, "dy")
        results = [
            *call.outputs[:1],
            *ops.call(info.graph, grad, inputs_dict=info.inputs_dict(call)),
        ]
        for i, t in zip([0, *where], results, strict=True):
            assert t.ipu == i
            with popxl.ipu(i):
                streams.append(addons.ops.host_store(t))
    with popxl.Session(ir, "ipu_hw") as session:
        got = session.run(feeds)
    right = lambda x: F.cross_entropy(x, torch.tensor(labels).long(), reduction="none")  # noqa: E731
    expected, gradient = torchs(right, 1, scores, dy)
    check([got[streams[0]], np.concatenate([got[s] for s in streams[1:]], 1)], [expected, gradient])


def test_layer_norm_of_columns_on_replicas():
    x, w, b, dy = rand(3, 8), rand(8), rand(8), rand(3, 8)
    cut = lambda a: np.stack(np.split(a, 4, -1))  # noqa: E731
    norm = layer_norm_distributed
    results = run_graph(
        with_gradients(lambda *a: norm(*a, 1e-5), 3), *map(cut, (x, w, b, dy)), replication=4
    )
    expected = torchs(lambda x, w, b: F.layer_norm(x, (8,), w, b), 3, x, w, b, dy)
    check([np.concatenate(r, -1) for r in results], expected)


@pytest.mark.parametrize("group", [None, (1, 2), (2, 2)])
def test_reductions_for_tensor_parallel_layers(group):
    x, dy = rand(4, 3), rand(4, 3)

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
        reduce = getattr(replicated_all_reduce_TP, name)
        program = with_gradients(lambda t, f=reduce: f(t, "add", rg()), 1)
        check(run_graph(program, x, dy, replication=4), right)


WAYS = ("", "_identical_inputs", "_identical_grad_inputs")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("strided_too", [False, True])
def test_gradients_of_reductions_need_the_gradient_alone(way, strided_too):
    module = strided if strided_too else replicated_all_reduce_TP
    name = "replicated_all_reduce_strided" if strided_too else "replicated_all_reduce"
    reduce = getattr(module, f"{name}{way}")
    with popxl.Ir(replication=2).main_graph:
        spec = popxl.TensorSpec((2,), popxl.float32)
        graph = popxl.gir().create_graph(lambda x: reduce(x), spec)
        (output,) = graph.outputs
        info = autodiff(graph)
        assert graph.outputs == (output,)
        kinds = [c.connection_type.name for c in info.expected_inputs]
        kind = "strided" if strided_too else "TP"
        assert kinds == ["FwdGrad"] and output.name == f"replicated_all_reduce_{kind}_out"


def test_strided_collectives():
    x = rand(4, 2, 3)

    def program(t):
        rg = popxl.gir().replica_grouping(2, 2)
        names = addons.NamedTensors.from_dict({"b": t, "a": t})
        graph, order = strided.replicated_all_reduce_strided_graph(names, group=rg)
        assert graph.graph.name.startswith("replica_reduce") and order == ["a", "b"]
        assert graph.args.a.name == "a"
        whole = strided.replicated_all_gather_strided(t, rg)
        assert (whole.name, whole.shape) == ("replicated_all_gather_strided_out", (12,))
        shard = strided.replicated_reduce_scatter_strided(t, "add", rg, True)
        again = strided.replicated_all_gather_strided(shard, rg)
        assert again.shape == t.shape
        total = strided.replicated_all_reduce_strided(t, "add", rg)
        return total, whole, shard, again, graph.bind(names).call()[0]

    total, whole, shard, again, named = run_graph(program, x, replication=4)
    pairs = [[r % 2, r % 2 + 2] for r in range(4)]
    sums = [x[p].sum(0) for p in pairs]
    check([total, whole], [sums, [x[p].ravel() for p in pairs]])
    check([shard], [[s.ravel()[3 * (r // 2) :][:3] for r, s in enumerate(sums)]])
    check([again, named], [sums, sums])


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
        sin, cos = trig_table_constants(5, rotary)
        return rotary_pos_embed(x, sin, cos, rotary)

    check(run_graph(with_gradients(program, 1), x, dy), torchs(turned, 1, x, dy))


def test_small_ops():
    a, x = rand(3, 4), rand(3, 2, 4)
    dense = random_sparse(rand(4, 3))
    multiply = lambda x: dense_const_sparse_matmul(x, sparse.csr_matrix(dense), 3)  # noqa: E731
    norm, scaled, product, same = run_graph(
        lambda a, s, x: (
            grad_reduce_square_add(a, 2.0),
            grad_reduce_square_add(a, s),
            multiply(x),
            linear_layout(x, 4),
        ),
        *(a, np.float16(4.0), x),
    )
    squares = (a**2).sum()
    check([norm, scaled, product, same], [squares / 4, squares / 16, x @ dense, x])
    with popxl.Ir().main_graph:
        assert grad_reduce_square_add(popxl.constant(a), 1.0).name == "grad_reduced"


def test_streams_have_the_names_of_their_tensors():
    with popxl.Ir().main_graph:
        data, stream, t = addons.host_load(np.ones(3), popxl.float16, "x")
        assert (data.dtype, stream.name) == (np.float16, "x_stream") and t.name.startswith("x")
        assert addons.host_store(t).name == f"{t.name}_stream"
        assert addons.host_load(np.ones(3), popxl.float16, None)[2].shape == (3,)


def test_random_elements_stay():
    dense = np.ones((50, 40))
    assert random_sparse(dense, 0.25) is dense
    assert 0.15 < dense.mean() < 0.35
    assert random_sparse(np.ones(9), 0.0).sum() == 1


PATHS = {
    "cross_entropy_sharded_loss": "cross_entropy_sharded_loss",
    "cross_entropy_sharded_wr_loss": "cross_entropy_sharded_wr_loss",
    "fp8_mse_scale": "fp8_mse_scale",
    "grad_reduce_square_add": "grad_reduce_square_add",
    "group_quantize_decompress": "group_quantize_decompress",
    "layer_norm_distributed": "layer_norm_distributed",
    "linear_layout": "linear_layout",
    "replicated_all_reduce_TP": "replicated_all_reduce_identical_inputs",
    "rotary_pos_embed": "rotary_pos_embed",
}


@pytest.mark.parametrize("package, name", PATHS.items(), ids=PATHS)
def test_ops_are_packages_of_their_own(package, name):
    outer = importlib.import_module(f"popxl_addons.ops.{package}")
    inner = importlib.import_module(f"popxl_addons.ops.{package}.{package}")
    assert getattr(outer, name) is getattr(inner, name)
    assert getattr(addons.ops, package) is outer
