"""Ops have the types and default output names that programs see, and each op has a test."""

import inspect
import re
from pathlib import Path

import cases_ops
import numpy as np
import popxl
import pytest
from popxl import ops
from popxl._impl.records import of
from popxl.ops import collectives, var_updates

F32, F16, I32, U32 = popxl.float32, popxl.float16, popxl.int32, popxl.uint32


def v(*shape, dtype=F32, name="x"):
    return popxl.variable(np.ones(shape), dtype, name)


def x():
    return v(4, 4)


def row(call, op_type, *names):
    return call, op_type, names


def unary(name, op_type, out=None):
    return row(lambda: getattr(ops, name)(x()), op_type, out or f"{name}_out")


def binary(name, op_type):
    return row(lambda: getattr(ops, name)(x(), x()), op_type, f"{name}_out")


def truth(name, op_type, out, count=2):
    return row(
        lambda: getattr(ops, name)(*[v(2, dtype=popxl.bool) for _ in range(count)]), op_type, out
    )


def in_place(name, op_type, out, *more):
    return row(lambda: getattr(ops, name)(x() + 0.0, *more), op_type, out)


def reduction(name, op_type, *names):
    return row(lambda: getattr(ops, name)(x(), 0), op_type, *(names or (f"{name}_out",)))


def update(call, op_type, out):
    return row(call, op_type, out)


SEED = [1, 2]


def seed():
    return popxl.variable(SEED, U32, "seed")


def ids(*shape):
    return v(*shape, dtype=I32)


def image():
    return v(1, 2, 4, 4)


ROWS = {
    **{n: unary(n, n.capitalize()) for n in ("abs", "ceil", "floor", "sign", "sqrt", "exp")},
    **{n: unary(n, n.capitalize()) for n in ("log", "sin", "cos", "tanh", "relu", "gelu")},
    "negate": unary("negate", "Neg"),
    "geluerf": unary("geluerf", "GeluErf"),
    "swish": unary("swish", "Swish"),
    "isnan": unary("isnan", "IsNaN"),
    "isinf": unary("isinf", "IsInf"),
    "clip": unary("clip", "Clip"),
    "detach": unary("detach", "Detach"),
    "lamb_square": unary("lamb_square", "LambSquare"),
    "cumsum": unary("cumsum", "CumSum"),
    "argmin": unary("argmin", "ArgMin"),
    "argmax": unary("argmax", "ArgMax"),
    "logical_not": truth("logical_not", "Not", "not_out", 1),
    "logical_and": truth("logical_and", "And", "and_out"),
    "logical_or": truth("logical_or", "Or", "or_out"),
    **{n: binary(n, n.capitalize()) for n in ("add", "sub", "mul", "div", "fmod", "equal")},
    "greater": binary("greater", "Greater"),
    "maximum": binary("maximum", "Max"),
    "matmul": binary("matmul", "MatMul"),
    "pow": row(lambda: ops.pow(x(), 2.0), "Pow", "pow_out"),
    "where": row(lambda: ops.where(v(4, dtype=popxl.bool), x(), x()), "Where", "where_out"),
    "scaled_add": row(lambda: ops.scaled_add(x(), x()), "ScaledAdd", "scaled_add_out"),
    "scaled_add_": row(
        lambda: ops.scaled_add_(x(), v(4, 4, name="y")), "ScaledAddLhsInplace", "scaled_add__x"
    ),
    "identity": row(lambda: ops.identity(x(), "same"), "Identity", "same"),
    "cast": row(lambda: ops.cast(x(), F16), "Cast", "x_float16"),
    "increment_mod": row(
        lambda: ops.increment_mod(ids(2), 1, 3), "IncrementMod", "increment_mod_out"
    ),
    "increment_mod_": row(
        lambda: ops.increment_mod_(ids(2), 1, 3),
        "IncrementModInplace",
        "increment_mod_inplace_out",
    ),
    **{
        f"{n}_": in_place(f"{n}_", f"{t}Inplace", f"{n}_inplace_out")
        for n, t in (("exp", "Exp"), ("relu", "Relu"), ("gelu", "Gelu"), ("swish", "Swish"))
    },
    "geluerf_": in_place("geluerf_", "GeluErfInplace", "geluerf_inplace_out"),
    "detach_": in_place("detach_", "DetachInplace", "detach_out"),
    "add_": row(lambda: ops.add_(x(), x()), "AddLhsInplace", "add_lhs_inplace_out"),
    "softmax": row(lambda: ops.softmax(x(), 0), "Softmax", "softmax_out"),
    "batch_norm_inference": row(
        lambda: ops.batch_norm_inference(image(), *[v(2) for _ in range(4)]),
        "BatchNormalization",
        "batch_norm_out",
    ),
    "group_norm": row(
        lambda: ops.group_norm(v(2, 4), v(4), v(4), 2),
        "GroupNormalization",
        *("group_norm_out", "group_norm_mean", "group_norm_inv_std_dev"),
    ),
    "dropout": row(lambda: ops.dropout(x(), seed(), 0.5), "Dropout", "dropout_out"),
    "shaped_dropout": row(
        lambda: ops.shaped_dropout(x(), seed(), (4, 1), 0.5), "ShapedDropout", "shapeddropout_out"
    ),
    **{
        n: reduction(n, f"Reduce{t}")
        for n, t in (
            *(("sum", "Sum"), ("mean", "Mean"), ("min", "Min"), ("max", "Max")),
            *(("prod", "Prod"), ("sumsquare", "SumSquare"), ("l1", "L1"), ("l2", "L2")),
            *(("logsum", "LogSum"), ("logsumexp", "LogSumExp")),
        )
    },
    "median": reduction("median", "ReduceMedian", "median_out", "median_indices_out"),
    "topk": row(
        lambda: ops.topk(x(), 2, 1, True, True), "TopK", "topk_out_value", "topk_out_indices"
    ),
    "histogram": row(lambda: ops.histogram(v(4), [0.5], False), "Histogram", "histogram_out"),
    "reshape": row(lambda: ops.reshape(x(), (2, 8)), "Reshape", "x_reshaped"),
    "reshape_": row(lambda: ops.reshape_(x(), (2, 8)), "ReshapeInplace", "x_reshaped"),
    "transpose": row(lambda: ops.transpose(x()), "Transpose", "x_T"),
    "transpose_": row(lambda: ops.transpose_(x()), "TransposeInplace", "x_T"),
    "concat": row(lambda: ops.concat([x(), x()]), "Concat", "concat_out"),
    "concat_": row(lambda: ops.concat_([x(), x()]), "ConcatInplace", "concat_out"),
    "split": row(lambda: ops.split(x(), 2), "Split", "x_split_0", "x_split_1"),
    "slice": row(lambda: ops.slice(x(), 1, 2), "Slice", "slice_out"),
    "slice_": row(lambda: ops.slice_(x(), 1, 2), "SliceInplace", "slice_out"),
    "subsample": row(lambda: ops.subsample(x(), [2, 1]), "Subsample", "subsample_out"),
    "gather": row(lambda: ops.gather(x(), ids(2)), "Gather", "gather_out"),
    "tied_gather": row(lambda: ops.tied_gather(x(), ids(2)), "PopartTiedGather", "tiedgather_out"),
    "groupedgather": row(
        lambda: ops.groupedgather(v(2, 4), ids(2, 3), 1, 2), "Gather", "gather_out"
    ),
    "scatter": row(lambda: ops.scatter(x(), ids(2, 4), v(2, 4)), "Scatter", "scatter_out"),
    "scatter_reduce": row(
        lambda: ops.scatter_reduce(x(), ids(4), "sum", axis_size=5),
        "ScatterReduce",
        "scatterreduce_out",
    ),
    "dynamic_slice": row(
        lambda: ops.dynamic_slice(x(), v(1, dtype=U32), [0], [2], False),
        "DynamicSlice",
        "dynamic_slice_out",
    ),
    "dynamic_update": row(
        lambda: ops.dynamic_update(x(), v(1, dtype=U32), v(2, 4), [0], [2], False),
        "DynamicUpdate",
        "dynamic_update_out",
    ),
    "dynamic_update_": row(
        lambda: ops.dynamic_update_(x(), v(1, dtype=U32), v(2, 4), [0], [2], False),
        "DynamicUpdateInplace",
        "dynamicupdateinplace_out",
    ),
    "onehot": row(
        lambda: ops.onehot(ids(3), popxl.constant(4, I32), v(2), 0), "OneHot", "onehot_out"
    ),
    "conv": row(lambda: ops.conv(image(), v(3, 2, 2, 2)), "Conv", "conv_out"),
    "conv_transpose": row(
        lambda: ops.conv_transpose(image(), v(2, 3, 2, 2)), "ConvTranspose", "convtranspose_out"
    ),
    "average_pool": row(
        lambda: ops.average_pool(image(), (2, 2)), "AveragePool", "averagepool_out"
    ),
    "max_pool": row(lambda: ops.max_pool(image(), (2, 2)), "MaxPool", "maxpool_out"),
    "interpolate": row(
        lambda: ops.interpolate(image(), (1.0, 1.0, 2.0, 2.0)), "Resize", "interpolate_out"
    ),
    "roi_align": row(
        lambda: ops.roi_align(image(), v(1, 4), ids(1), (1, 1), 1.0, 1), "RoiAlign", "roi_align_out"
    ),
    "nll_loss": row(lambda: ops.nll_loss(x(), ids(4)), "Nll", "loss"),
    "nll_loss_with_softmax_grad": row(
        lambda: ops.nll_loss_with_softmax_grad(x(), ids(4)),
        "NlllWithSoftmaxGradDirect",
        *("loss", "dx"),
    ),
    "matmul_pow2scaled": row(
        lambda: ops.matmul_pow2scaled(*[v(2, 2, dtype=popxl.float8_143) for _ in range(2)], 0),
        "MatMul",
        "matmul_pow2scaled_out",
    ),
    "pow2scale_cast_to_fp8": row(
        lambda: ops.pow2scale_cast_to_fp8(x(), 0, popxl.float8_143),
        "Pow2ScaleThenCast",
        "x_float8_143",
    ),
    "pow2scale_cast_from_fp8": row(
        lambda: ops.pow2scale_cast_from_fp8(v(2, dtype=popxl.float8_143), 0, F16),
        "CastThenPow2Scale",
        "x_float16",
    ),
    "random_uniform": row(
        lambda: ops.random_uniform(seed(), (2,)), "RandomUniform", "random_uniform_out"
    ),
    "random_normal": row(
        lambda: ops.random_normal(seed(), (2,)), "RandomNormal", "random_normal_out"
    ),
    "create_random_seed": row(
        lambda: ops.create_random_seed(seed(), 1), "ModifyRandomSeed", "modified_seed"
    ),
    "init": row(lambda: ops.init((2,), F32, "fresh"), "Init", "fresh"),
    "host_load": row(
        lambda: ops.host_load(popxl.h2d_stream((), F32), "a"), "HostLoad", "a_hostload"
    ),
    "remote_load": row(
        lambda: ops.remote_load(popxl.remote_buffer((2,), F32), 0, "a"),
        "RemoteLoad",
        "a_remote_loaded",
    ),
    "remote_load_": row(
        lambda: ops.remote_load_(popxl.remote_buffer((4, 4), F32), 0, x()),
        "RemoteLoadInplace",
        "remote_load_inplace_out",
    ),
    "ipu_copy": row(lambda: ops.ipu_copy(x(), 1, 0), "IpuCopy", "x_c1"),
    "io_tile_copy": row(lambda: ops.io_tile_copy(x()), "IoTileCopy", "x_iotilecopy"),
    "print_tensor": row(lambda: ops.print_tensor(x()), "PrintTensor", "print_out"),
    "replicated_all_reduce": row(
        lambda: collectives.replicated_all_reduce(x()), "ReplicatedAllReduce", "x_all_reduce"
    ),
    "replicated_all_reduce_": row(
        lambda: collectives.replicated_all_reduce_(x()),
        "ReplicatedAllReduceInplace",
        "x_all_reduce",
    ),
    "replicated_all_gather": row(
        lambda: collectives.replicated_all_gather(collectives.replica_sharded_slice(x())),
        "ReplicatedAllGather",
        "x_sliced_all_gathered",
    ),
    **{
        name: row(call, op_type, f"{prefix}__x")
        for name, call, op_type, prefix in (
            ("accumulate_", lambda: var_updates.accumulate_(x(), x()), "Accumulate", "accumulate"),
            (
                "accumulate_square_",
                lambda: var_updates.accumulate_square_(x(), x()),
                *("Accumulate", "accumulate_square"),
            ),
            (
                "accumulate_mean_",
                lambda: var_updates.accumulate_mean_(x(), x(), 1.0),
                *("Accumulate", "accumulate_mean"),
            ),
            (
                "accumulate_moving_average_",
                lambda: var_updates.accumulate_moving_average_(x(), x(), 0.5),
                *("Accumulate", "accumulate_moving_avg"),
            ),
            (
                "accumulate_moving_average_square_",
                lambda: var_updates.accumulate_moving_average_square_(x(), x(), 0.5),
                *("Accumulate", "accumulate_moving_avg_square"),
            ),
            (
                "sparse_accumulate_",
                lambda: var_updates.sparse_accumulate_(x(), v(2, 4), ids(2)),
                *("PopartSparseAccumulate", "sparse_accumulate"),
            ),
            (
                "accumulator_scale_",
                lambda: var_updates.accumulator_scale_(x(), 0.5),
                *("AccumulatorScale", "accumulator_scale"),
            ),
            (
                "copy_var_update_",
                lambda: var_updates.copy_var_update_(x(), x()),
                *("CopyVarUpdate", "updated"),
            ),
        )
    },
    "adam_var_update": row(
        lambda: var_updates.adam_var_update(x(), x(), v(), v()),
        "AdamVarUpdate",
        "adam_var_update_out",
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_types_and_output_names(name):
    call, op_type, names = ROWS[name]
    ir = popxl.Ir()
    with ir.main_graph:
        call()
    op = of(ir.main_graph).ops[-1]
    # Variables are named "x", "x__t0" and so on: one of these names may be the output's.
    assert op.op_type == op_type
    assert [re.sub(r"__t\d+$", "", t.name) for t in op.outputs] == list(names)


def public(module):
    """Returns the functions that are ops: those that the module has, except helpers."""
    return {
        name
        for name, f in vars(module).items()
        if inspect.isfunction(f) and name[0] != "_" and f.__module__ not in HELPERS
    } - {"collective_attrs"}


HELPERS = ("popxl.ops.build", "popxl.context", "popxl.dtypes")


def test_every_op_is_tested():
    sources = "".join(p.read_text() for p in Path(__file__).parent.glob("*.py"))
    sources += "\n".join(case.name for case in cases_ops.ELEMENTWISE)
    for name in sorted(public(ops) | public(collectives) | public(var_updates)):
        assert re.search(rf"\b{name}\b", sources), f"{name} has no test"


def test_everything_public_says_what_it_does():
    for module in (popxl, ops, collectives, var_updates, popxl.transforms):
        for name in public(module):
            text = inspect.getdoc(getattr(module, name))
            assert text, f"{module.__name__}.{name} has no docstring"
