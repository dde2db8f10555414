"""Ops refuse sizes, dtypes and places that do not fit when they are written."""

import functools

import numpy as np
import popxl
import pytest
from popart import popart_exception
from popxl import ops
from popxl.ops import var_updates
from program import ids, image, t

F32, I32, U32 = popxl.float32, popxl.int32, popxl.uint32


def buffer():
    return popxl.remote_buffer((2,), F32, 2)


def ipu(number):
    with popxl.ipu(number):
        pass


def assign(name):
    setattr(buffer(), name, 1)


def make(function, *tensors):
    return popxl.gir().create_graph(function, *tensors)


def sharded_otherwise():
    popxl.gir().replication_factor = 2
    row = popxl.replica_sharded_buffer((4,), F32)
    row.meta_shape = (2, 2)
    popxl.remote_replica_sharded_variable(np.zeros(4, np.float32), row)


def replicate(factor):
    popxl.gir().replication_factor = factor


ERRORS = {
    "replication": (ValueError, "positive int but is 0", lambda: replicate(0)),
    "truth of a scalar": (ValueError, "ops.conditional", lambda: bool(t())),
    "array of a tensor": (TypeError, "holds no data", lambda: np.asarray(t(2))),
    "variable of a tensor": (TypeError, "holds no data", lambda: popxl.variable(t(2))),
    # ValueError and TypeError: raised before the compiler gets the op.
    "partial function": (TypeError, "partial", lambda: make(functools.partial(abs), t(2))),
    "input of a negative size": (
        ValueError,
        "must be static, and 0 or more",
        lambda: make(lambda: popxl.graph_input((-1,), F32)),
    ),
    "spec of a negative size": (
        ValueError,
        "must be static, and 0 or more",
        lambda: popxl.TensorSpec((2, -1), F32),
    ),
    "stream of a negative size": (
        ValueError,
        "must be static, and 0 or more",
        lambda: popxl.h2d_stream((-1,), F32),
    ),
    "buffer of a negative size": (
        ValueError,
        "must be static, and 0 or more",
        lambda: popxl.remote_buffer((-1,), F32),
    ),
    "zeros of a negative size": (
        ValueError,
        "must be static, and 0 or more",
        lambda: ops.init((-1,), F32),
    ),
    "ipu": (ValueError, "from 0 but -1", lambda: ipu(-1)),
    "shape of a buffer": (AttributeError, "tensor_shape", lambda: assign("tensor_shape")),
    "dtype of a buffer": (AttributeError, "tensor_dtype", lambda: assign("tensor_dtype")),
    "id of a buffer": (AttributeError, "remote_buffer_id", lambda: assign("remote_buffer_id")),
    "meta shape of a buffer": (ValueError, r"\(2, 2\) but .* \(4,\)", lambda: sharded_otherwise()),
    "row that is loaded": (ValueError, "Row 2 is not one", lambda: ops.remote_load(buffer(), 2)),
    "row that is loaded in place": (
        ValueError,
        "Row 7 is not one",
        lambda: ops.remote_load_(buffer(), 7, t(2)),
    ),
    "row that is stored": (
        ValueError,
        "Row -1 is not one",
        lambda: ops.remote_store(buffer(), -1, t(2)),
    ),
    "row by a float": (TypeError, "is an int", lambda: ops.remote_load(buffer(), t())),
    "stored row": (ValueError, "is not a row", lambda: ops.remote_store(buffer(), 0, t(3))),
    "copied dtype": (
        ValueError,
        "one dtype",
        lambda: var_updates.copy_var_update_(popxl.variable([1.0]), ids(1)),
    ),
    "betas of lamb": (
        ValueError,
        "^Bias correction requires both beta1 and beta2 to not be None.",
        lambda: var_updates.lamb_updater(t(2), t(2), time_step=popxl.variable(1.0)),
    ),
    "brackets": (
        ValueError,
        "one character",
        lambda: ops.print_tensor(t(2), open_bracket="[["),
    ),
    "seed's shape": (
        ValueError,
        r"shape \(2,\)",
        lambda: ops.dropout(t(2), t(3, dtype=U32), 0.5),
    ),
    "seed's dtype": (ValueError, "uint32", lambda: ops.random_normal(ids(2), (2,))),
    "values of a onehot": (ValueError, "two values", lambda: ops.onehot(ids(2), 3, t(3), 0)),
    "size of a dynamic slice": (
        ValueError,
        "do not fit",
        lambda: ops.dynamic_slice(t(4), ids(1), [0], [9], True),
    ),
    "strides of a pool": (
        ValueError,
        "2 strides",
        lambda: ops.average_pool(image(), (2, 2), stride=(1,)),
    ),
    "dilations of a pool": (
        ValueError,
        "2 strides and dilations",
        lambda: ops.max_pool(image(), (2, 2), dilation=(1,)),
    ),
    "strides of a conv": (
        ValueError,
        "2 strides",
        lambda: ops.conv(image(), t(1, 2, 1, 1), stride=(1,)),
    ),
    "lines between ints": (
        TypeError,
        "floating point",
        lambda: ops.interpolate(ids(1, 1, 2, 2), (1.0, 1.0, 2.0, 2.0), "linear"),
    ),
    # popart_exception: the compiler refuses the op, which is named with its inputs.
    "shapes of a sum": (
        popart_exception,
        r"Add\(.*\(2,\).*, .*\(3,\).*\): .*broadcast",
        lambda: ops.add(t(2), t(3)),
    ),
    "shapes of a choice": (
        popart_exception,
        "Where.*broadcast",
        lambda: ops.where(t(2, dtype=popxl.bool), t(2), t(3)),
    ),
    "shapes of a concat": (popart_exception, "Concat", lambda: ops.concat([t(2, 2), t(3, 3)])),
    "scattered values": (popart_exception, "Scatter", lambda: ops.scatter(t(4), ids(2), t(3))),
    "scale of a norm": (
        popart_exception,
        "GroupNormalization.*weight",
        lambda: ops.group_norm(t(2, 4), t(3), t(4), 2),
    ),
    "kernel of a conv": (
        popart_exception,
        "Conv.*larger than",
        lambda: ops.conv(image(), t(1, 2, 5, 5)),
    ),
    "kernel of a pool": (
        popart_exception,
        "MaxPool.*does not fit",
        lambda: ops.max_pool(image(), (5, 5)),
    ),
    "condition": (
        popart_exception,
        "If.*must be bool",
        lambda: ops.conditional(t(), make(lambda: t(1)), make(lambda: t(1))),
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_ops_say_what_is_wrong(name):
    error, text, call = ERRORS[name]
    with popxl.Ir().main_graph, pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("name", ["uint16", "uint32", "uint64", "float8_143", "float8_152"])
def test_dtypes_without_a_torch_counterpart(name):
    with pytest.raises(TypeError, match=f"{name} has no torch counterpart"):
        getattr(popxl, name).as_torch()


def test_runs_and_transfers_of_weights_need_an_attached_session():
    ir = popxl.Ir()
    with ir.main_graph:
        ops.host_store(popxl.d2h_stream((2,), F32), t(2) + 1.0)
    session = popxl.Session(ir)
    names = ("run", "run_with_outputs", "weights_to_host", "weights_from_host")
    for name in names:
        arguments = [{}, session.create_host_outputs()] if name == "run_with_outputs" else []
        with pytest.raises(ValueError, match="only attached"):
            getattr(session, name)(*arguments)
