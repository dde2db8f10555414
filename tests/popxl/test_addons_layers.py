"""Layers of popxl_addons with torch's data agree with torch, on one replica and on several."""

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from gradients import check, rand, rng
from popxl import ops
from popxl_addons import layers
from popxl_addons.layers.layer_norm_distributed import LayerNormDistributed
from popxl_addons.layers.linear_fp8 import LinearFP8
from popxl_addons.layers.linear_gq import LinearGQ
from popxl_addons.ops.fp8_mse_scale import fp8_mse_scale
from popxl_addons.ops.group_quantize_decompress import (
    group_quantize_compress_numpy,
    group_quantize_decompress_numpy,
)
from popxl_addons.testing_utils import TensorInput, run_module
from program import run_graph

torch = pytest.importorskip("torch")
F = torch.nn.functional


def run_layer(module, layer, x, *args, replication=1, **mapping):
    """Runs the module on x with the data of torch's layer; several replicas are the first
    dimension."""
    ir, feeds = popxl.Ir(replication=replication), {}
    shape = x.shape[1:] if replication > 1 else x.shape
    with ir.main_graph:
        stream = popxl.h2d_stream(shape, popxl.dtype.as_dtype(x))
        feeds[stream], t = x, ops.host_load(stream)
        facts, graph = module.create_graph(t, *args)
        variables = facts.init()
        out = addons.ops.host_store(graph.bind(variables).call(t)[0])
    weights = type(module).torch_mapping(variables, layer, **mapping)
    assert isinstance(weights, addons.WeightsDict)
    assert set(weights) == set(variables.to_dict().values())
    session = popxl.Session(ir, "ipu_hw")
    session.write_variables_data(weights)
    with session:
        return session.run(feeds)[out]


def expected_of(layer, x):
    return layer(torch.tensor(x).float()).detach().numpy()


def random_norm(kind, *args, **kwargs):
    layer = kind(*args, **kwargs)
    with torch.no_grad():
        layer.weight.uniform_(0.5, 1.5)
        layer.bias.uniform_(-1, 1)
    return layer


LAYERS = {
    "linear": (layers.Linear(3), lambda: torch.nn.Linear(4, 3), (5, 4)),
    "linear of a vector": (layers.Linear(3), lambda: torch.nn.Linear(4, 3), (4,)),
    "linear of rank 3": (layers.Linear(3, False), lambda: torch.nn.Linear(4, 3, False), (2, 5, 4)),
    "layer norm": (layers.LayerNorm(), lambda: random_norm(torch.nn.LayerNorm, 6), (5, 6)),
    "layer norm, eps": (
        layers.LayerNorm(),
        lambda: random_norm(torch.nn.LayerNorm, 6, eps=0.5),
        (5, 6),
        0.5,
    ),
    **{
        f"group norm of rank {len(shape)}": (
            layers.GroupNorm(3, eps=0.1, cache=True),
            lambda: random_norm(torch.nn.GroupNorm, 3, 6, eps=0.1),
            shape,
        )
        for shape in ((2, 6), (2, 6, 5), (2, 6, 3, 4))
    },
    "conv with a bias": (
        layers.Conv2D(4, (3, 2)),
        lambda: torch.nn.Conv2d(2, 4, (3, 2)),
        (1, 2, 5, 5),
    ),
}


@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.parametrize("case", LAYERS.values(), ids=LAYERS)
def test_layers_take_the_data_of_torchs(case, kind):
    torch.manual_seed(2)
    module, layer, shape, *args = case
    x, layer = rand(*shape).astype(kind), layer()
    y = run_layer(module, layer, x, *args, dtype=popxl.dtype.as_dtype(kind))
    check([y], [expected_of(layer, x)], 1e-4 if kind == "float32" else 2e-2)


def test_a_layer_norm_of_several_dimensions_is_one_of_rows():
    layer = random_norm(torch.nn.LayerNorm, (2, 3))
    x = rand(4, 2, 3)
    y = run_layer(layers.LayerNorm(), layer, x.reshape(4, 6))
    check([y.reshape(4, 2, 3)], [expected_of(layer, x)])


def test_a_layer_normalises_columns_on_replicas():
    x, layer = rand(3, 8), random_norm(torch.nn.LayerNorm, 8, eps=0.5)
    shards = np.stack(np.split(x, 4, -1))
    y = run_layer(LayerNormDistributed(), layer, shards, 0.5, replication=4)
    check([np.concatenate(y, -1)], [expected_of(layer, x)])


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    "stride, padding, groups, torchs",
    [
        (1, 0, 1, 0),
        (2, 1, 2, 1),
        ((1, 2), (2, 0), 1, (2, 0)),
        ((1, 1), (1, 1, 1, 1), 4, 1),
        ((1, 1), "same_upper", 1, "same"),
        ((1, 1), "valid", 1, "valid"),
    ],
)
def test_conv2d(bias, stride, padding, groups, torchs):
    x, layer = rand(2, 4, 7, 8), torch.nn.Conv2d(4, 8, 3, stride, torchs, 1, groups, bias)
    module = layers.Conv2D(8, 3, stride, padding, 1, groups, bias, [0.1] * 3, None, [1] * 3)
    check([run_layer(module, layer, x)], [expected_of(layer, x)])


def test_variables_of_layers_have_groups_and_shapes():
    ir = popxl.Ir(replication=2)
    with ir.main_graph:
        rg, x = ir.replica_grouping(group_size=1), popxl.constant(rand(1, 4, 3, 3))
        facts, _ = layers.GroupNorm(2, rg).create_graph(x)
        assert facts.init().weight.shape_on_host == (2, 4)
        facts, _ = layers.Conv2D(5, 2).create_graph(x)
        assert facts.bias.shape == (1, 5, 1, 1)


def test_embedding():
    indices, layer = np.int32([[1, 4], [0, 1]]), torch.nn.Embedding(5, 3)
    module = layers.Embedding(popxl.float32, 5, 3)
    expected = layer(torch.tensor(indices)).detach().numpy()
    check([run_layer(module, layer, indices)], [expected])


def test_embedding_in_shards():
    indices, layer = rng.integers(0, 50, (2, 3)).astype(np.int32), torch.nn.Embedding(50, 4)
    kind = layers.Embedding
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


METRICS = [("amax", 0), ("mse", 0), ("manual_scale", 2)]


def float8(x, dtype, metric, scale):
    """Returns x rounded to float8, times 2**scale, and that scale."""
    x = x.astype(np.float32)
    if metric != "manual_scale":
        find = addons.ops.fp8_amax_scale if metric == "amax" else fp8_mse_scale
        (found,) = run_graph(lambda t: find(t, dtype), x)
        scale = int(found)
    held = popxl.fp8_utils.host_pow2scale_cast_to_fp8(x, dtype, scale)
    return popxl.fp8_utils.host_pow2scale_cast_from_fp8(held, popxl.float32, 0), scale


@pytest.mark.parametrize("metric, scale", METRICS)
@pytest.mark.parametrize("kind", ["float16", "float32"])
@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_layer_of_float8(metric, scale, kind, bias):
    x, layer = rand(4, 16).astype(kind), torch.nn.Linear(16, 8, bias)
    module = LinearFP8(8, bias, metric, scale)
    y = run_layer(module, layer, x, dtype=popxl.dtype.as_dtype(kind))
    assert y.dtype == kind
    weight = layer.weight.detach().numpy().T.astype(kind)
    w8, a_w = float8(weight, popxl.float8_143, metric, scale)
    x8, a_x = float8(x, popxl.float8_143, metric, scale)
    expected = np.ldexp(x8 @ w8, -a_w - a_x).astype(np.float16).astype(np.float32)
    if bias:
        expected += layer.bias.detach().numpy()
    check([y], [expected], 2e-3)
    assert np.abs(y - expected_of(layer, x)).max() < 0.1


class Around(addons.Module):
    """A float8 layer, called in a separate graph, followed by a product."""

    def __init__(self, *args):
        super().__init__()
        self.args = args

    def build(self, x: popxl.Tensor):
        return self.call_module(LinearFP8(*self.args), "fp8")(x)[0] * 2.0


@pytest.mark.parametrize("metric, scale", METRICS)
@pytest.mark.parametrize("bias, shape", [(True, (4, 16)), (False, (4, 16))])
def test_gradients_of_float8(metric, scale, bias, shape):
    x, dy = rand(*shape).astype(np.float16), rand(*shape[:-1], 8).astype(np.float16)
    layer = torch.nn.Linear(16, 8, bias)
    ir, streams = popxl.Ir(), []
    with ir.main_graph:
        t, dt = popxl.variable(x), popxl.variable(dy)
        facts, graph = Around(8, bias, metric, scale).create_graph(t)
        grad = graph.autodiff()
        variables = facts.init()
        call = graph.bind(variables).call_with_info(t)
        info = grad.grad_graph_info
        back = grad.call_with_info(dt, args=info.inputs_dict(call))
        found = info.fwd_parent_ins_to_grad_parent_outs(call, back)
        for inner in (t, *(variables.fp8[n] for n in ("weight", "bias")[: 1 + bias])):
            assert found[inner].dtype is popxl.float16
            streams.append(addons.ops.host_store(found[inner]))
    session = popxl.Session(ir, "ipu_hw")
    session.write_variables_data(LinearFP8.torch_mapping(variables.fp8, layer, popxl.float16))
    with session:
        got = session.run()
    dx, dw, *db = [got[s] for s in streams]
    weight, dy = layer.weight.detach().numpy().T.astype(np.float16), (2 * dy).astype(np.float16)
    w8, a_w = float8(weight, popxl.float8_143, metric, scale)
    x8, a_x = float8(x, popxl.float8_143, metric, scale)
    _, a_dy = float8(dy, popxl.float8_152, metric, scale)
    dy8, a_dy = float8(dy, popxl.float8_152, "manual_scale", max(-31, min(31, a_dy - 3)))
    check([dx], [np.ldexp(dy8 @ w8.T, -a_dy - a_w)], 2e-3)
    check([dw], [np.ldexp((dy8.T @ x8).T, -a_dy - a_x)], 2e-3)
    check(db, [dy.astype(np.float32).sum(0)] * bias, 5e-3)


def test_a_metric_of_float8_is_one_of_three():
    with pytest.raises(ValueError, match="scale_metric"):
        LinearFP8(8, scale_metric="max")


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dim", [-1, 0])
def test_a_linear_layer_of_4_bits(bias, dim):
    x, layer = rand(4, 64).astype(np.float16), torch.nn.Linear(64, 32, bias)
    module = LinearGQ(32, bias, group_size=16, dim=dim)
    y = run_layer(module, layer, x, dtype=popxl.float16, group_size=16, dim=dim)
    assert y.dtype == np.float16
    weight = layer.weight.detach().numpy().T
    held = group_quantize_decompress_numpy(*group_quantize_compress_numpy(weight, 16, dim), dim)
    expected = x.astype(np.float32) @ held.astype(np.float32)
    if bias:
        expected += layer.bias.detach().numpy()
    check([y], [expected], 5e-3)
    with popxl.Ir().main_graph, pytest.raises(ValueError, match="groups of 0"):
        LinearGQ(8).create_graph(popxl.constant(x))


def test_groups_of_4_bits_begin_as_what_they_stand_for():
    x = np.eye(16, dtype=np.float16)
    (y,) = run_module(LinearGQ(8, False, group_size=8), TensorInput(x))
    assert 0.005 < y.std() < 0.04
