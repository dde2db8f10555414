"""Functions of PopXL and popxl_addons that have no other test refuse wrong arguments with a clear
message.
"""

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl.errors import UndefinedValue, popart_exception
from popxl.ops import collectives, var_updates
from popxl.transforms import autodiff
from program import ids, image, t

F32, I32 = popxl.float32, popxl.int32


def graph():
    return popxl.gir().create_graph(lambda a: ops.tanh(a), t(2))


def memmap(dtype, order="C"):
    import tempfile

    file = tempfile.NamedTemporaryFile()
    return np.memmap(file, dtype, "w+", shape=(2, 3), order=order)


def linear():
    return addons.layers.Linear(2).create_graph(t(1, 2))


def set_transfers(value):
    popxl.gir().num_host_transfers = value


def used_buffer():
    buffer = popxl.remote_buffer((2,), F32)
    ops.remote_load(buffer, 0)
    buffer.entries = 3


class Late(addons.Module):
    def __init__(self):
        self.layer = addons.layers.Linear(1)


ERRORS = {
    "name of a dtype": (ValueError, "called 'f7'", lambda: popxl.dtype.from_name("f7")),
    "replicas": (ValueError, "positive int", lambda: popxl.Ir(replication=0)),
    "transfers": (ValueError, "at least 1", lambda: set_transfers(0)),
    "module without build": (
        NotImplementedError,
        "must define build",
        lambda: popxl.gir().create_graph(popxl.Module()),
    ),
    "diagonal": (ValueError, "takes a matrix", lambda: t(2).diag()),
    "index by floats": (TypeError, "cannot be indexed", lambda: t(2)[t(1)]),
    "too many indices": (IndexError, "2 indices", lambda: t(2)[0, 0]),
    "index by a string": (TypeError, "by a str", lambda: t(2)["a"]),
    "maximum of nothing": (ValueError, "at least one", lambda: ops.maximum()),
    "foreign parent": (
        ValueError,
        "is not an input or output of this call",
        lambda: ops.call_with_info(graph(), t(2)).parent_to_graph(t(2)),
    ),
    "foreign modified": (
        ValueError,
        "is not an input of this call",
        lambda: ops.call_with_info(graph(), t(2)).set_parent_input_modified(t(2)),
    ),
    "op between IPUs": (
        ValueError,
        "Between IPUs",
        lambda: collectives.all_reduce([t(2)], [0], "sub"),
    ),
    "shapes between IPUs": (
        ValueError,
        "equal shapes",
        lambda: collectives.all_reduce([t(2), t(3)], [0, 1]),
    ),
    "conv padding": (
        ValueError,
        "4 numbers",
        lambda: ops.conv(image(), t(1, 2, 2, 2), padding=(1, 1)),
    ),
    "conv groups": (ValueError, "groups", lambda: ops.conv(image(), t(3, 1, 2, 2), groups=2)),
    "transposed sizes": (
        ValueError,
        "takes 4 sizes",
        lambda: ops.conv_transpose(image(), t(2, 1, 2, 2), output_shape=(3,)),
    ),
    "transposed size": (
        ValueError,
        "larger",
        lambda: ops.conv_transpose(image(), t(2, 1, 2, 2), output_shape=(1, 1, 9, 9)),
    ),
    "transposed channels": (
        ValueError,
        "cannot apply",
        lambda: ops.conv_transpose(image(), t(3, 1, 2, 2)),
    ),
    "pool's kernel": (ValueError, "does not fit", lambda: ops.max_pool(t(2, 2), (2, 2))),
    "pool's pads": (
        ValueError,
        "4 out_pads",
        lambda: ops.average_pool(image(), (2, 2), out_pads=(1, 1)),
    ),
    "pool's distances": (
        ValueError,
        "2 in_dilations",
        lambda: ops.max_pool(image(), (2, 2), in_dilations=(0, 1)),
    ),
    "pool's order": (
        ValueError,
        "storage_order",
        lambda: ops.max_pool(image(), (2, 2), storage_order="columns"),
    ),
    "load from a store": (
        TypeError,
        "to the device",
        lambda: ops.host_load(popxl.d2h_stream((), F32)),
    ),
    "store to a load": (
        TypeError,
        "to the host",
        lambda: ops.host_store(popxl.h2d_stream((), F32), t()),
    ),
    "printed format": (
        ValueError,
        "float_format",
        lambda: ops.print_tensor(t(2), float_format="hex"),
    ),
    "grouped axis": (ValueError, "groups", lambda: ops.groupedgather(t(2, 4), ids(2, 3), 0, 2)),
    "scattered indices": (
        ValueError,
        "do not fit",
        lambda: ops.scatter_reduce(t(4, 4), ids(3), "sum", axis_size=5),
    ),
    "initial values": (
        ValueError,
        "must have shape",
        lambda: ops.scatter_reduce(t(4), ids(4), "sum", t(3), axis_size=5),
    ),
    "classes by a variable": (
        TypeError,
        "num_classes",
        lambda: ops.onehot(ids(2), popxl.variable(3), t(2), 0),
    ),
    "partials": (
        ValueError,
        "partials_type",
        lambda: ops.matmul(t(2, 2), t(2, 2), partials_type=I32),
    ),
    "product of scalars": (ValueError, "not take scalars", lambda: ops.matmul(t(), t(2))),
    "bool as index": (TypeError, "by a bool", lambda: t(2)[True]),
    "text as index": (TypeError, "by a str", lambda: t(2)["x"]),
    "float as index": (TypeError, "by a float", lambda: t(2)[1.0]),
    "seed": (TypeError, "seed tensor", lambda: ops.dropout(t(2), 3, 0.5)),
    "random ints": (
        ValueError,
        "floating",
        lambda: ops.random_uniform(t(2, dtype=popxl.uint32), (2,), dtype=I32),
    ),
    "dropout's shape": (
        ValueError,
        "broadcast",
        lambda: ops.shaped_dropout(t(2), t(2, dtype=popxl.uint32), (3,), 0.5),
    ),
    "no seeds": (
        ValueError,
        "at least 1",
        lambda: ops.split_random_seed(t(2, dtype=popxl.uint32), 0),
    ),
    "axes twice": (ValueError, "twice", lambda: ops.sum(t(2, 2), [0, -2])),
    "coordinates": (
        ValueError,
        "coordinate_transformation_mode",
        lambda: ops.interpolate(
            image(), (1.0, 1.0, 2.0, 2.0), coordinate_transformation_mode="middle"
        ),
    ),
    "factors": (ValueError, "4 scale factors", lambda: ops.interpolate(image(), (2.0,))),
    "resize mode": (ValueError, "mode must", lambda: ops.interpolate(image(), mode="area")),
    "nearest mode": (
        ValueError,
        "nearest_mode",
        lambda: ops.interpolate(image(), nearest_mode="any"),
    ),
    "regions": (
        ValueError,
        "regions, 4",
        lambda: ops.roi_align(image(), t(1, 3), ids(1), (1, 1), 1.0, 1),
    ),
    "region's image": (
        ValueError,
        "batch_index",
        lambda: ops.roi_align(image(), t(1, 4), ids(2), (1, 1), 1.0, 1),
    ),
    "region's bins": (
        popart_exception,
        "RoiAlign.*'rows' must be at least 1",
        lambda: ops.roi_align(image(), t(1, 4), ids(1), (0, 1), 1.0, 1),
    ),
    "concat of nothing": (ValueError, "at least one", lambda: ops.concat([])),
    "concat_ of nothing": (ValueError, "at least one", lambda: ops.concat_([])),
    "slice's lengths": (ValueError, "equal lengths", lambda: ops.slice(t(2, 2), [0, 0], [1])),
    "strides": (ValueError, "positive strides", lambda: ops.subsample(t(2), [0])),
    "accumulated shapes": (
        ValueError,
        "equal shapes",
        lambda: var_updates.accumulate_(popxl.variable([1.0]), t(2)),
    ),
    "decay without weight": (
        ValueError,
        "^Weight decay requires weight to not be None.",
        lambda: var_updates.adam_updater(t(2), t(2), weight_decay=0.1),
    ),
    "entries of a buffer in use": (ValueError, "cannot change", used_buffer),
    "remote variable inside": (
        ValueError,
        "main graph",
        lambda: popxl.gir().create_graph(
            lambda a: popxl.remote_variable(1.0, popxl.remote_buffer((), F32)), t()
        ),
    ),
    "remote variable's dtype": (
        ValueError,
        "^Tensor t does not match buffer.",
        lambda: popxl.remote_variable([1], popxl.remote_buffer((2,), F32)),
    ),
    "retrieval of shards": (
        ValueError,
        "retrieval_mode",
        lambda: popxl.replica_sharded_variable([1.0], retrieval_mode="all"),
    ),
    "remote retrieval": (
        ValueError,
        "retrieval_mode",
        lambda: popxl.remote_variable([1.0], popxl.remote_buffer((1,), F32), retrieval_mode="all"),
    ),
    "shards without replicas": (
        ValueError,
        "several replicas",
        lambda: popxl.replica_sharded_variable([1.0]),
    ),
    "grouping": (RuntimeError, "directly", lambda: popxl.ReplicaGrouping()),
    "stride": (ValueError, "stride 3", lambda: popxl.Ir(replication=4).replica_grouping(3)),
    "group size": (ValueError, "size 3", lambda: popxl.Ir(replication=4).replica_grouping(1, 3)),
    "stride and size": (
        ValueError,
        "do not divide",
        lambda: popxl.Ir(replication=4).replica_grouping(4, 2),
    ),
    "groups of data": (
        ValueError,
        "that many rows",
        lambda: _grouped([1.0, 2.0, 3.0]),
    ),
    "tile set": (UndefinedValue, "tile set", lambda: t(2).tile_set),
    "foreign output": (ValueError, "not a tensor of", lambda: popxl.graph_output(_of_another())),
    "foreign gradient": (
        ValueError,
        "not a tensor of",
        lambda: autodiff(graph(), grads_required=[t(2)]),
    ),
    "memmap's order": (
        ValueError,
        "^When passing a memory-mapped NumPy array, it must already be in C-ordered",
        lambda: popxl.variable(memmap("f4", "F")),
    ),
    "memmap's 64 bits": (
        ValueError,
        "^When passing a memory-mapped NumPy array, the dtype None is not supported, as it "
        "requires downcasting",
        lambda: popxl.variable(memmap("f8")),
    ),
    "memmap's dtype": (
        ValueError,
        "^When passing a memory-mapped NumPy array, the `dtype` parameter",
        lambda: popxl.variable(memmap("f4"), I32),
    ),
    "late init": (RuntimeError, "super", Late),
    "layer norm's rank": (
        ValueError,
        "takes a matrix",
        lambda: addons.layers.LayerNorm().create_graph(t(2, 2, 2)),
    ),
    "input stream": (AttributeError, "no stream", lambda: addons.InputStreams().y),
    "gradient of nothing": (ValueError, "no gradient to accumulate", lambda: _lost_gradient()),
    "cached by an array": (TypeError, "unhashable", lambda: _cached()),
    "not a gradient graph": (
        AttributeError,
        "not made by autodiff",
        lambda: linear()[1].grad_graph_info,
    ),
}


def _grouped(data):
    ir = popxl.Ir(replication=4)
    with _outside(), ir.main_graph:
        popxl.variable(data, replica_grouping=ir.replica_grouping(group_size=2))


class _outside:
    """Leaves the current graphs for a while."""

    def __enter__(self):
        from popxl.context import current

        self.graphs, current.graphs = current.graphs, []

    def __exit__(self, *exception):
        from popxl.context import current

        current.graphs = self.graphs


def _of_another():
    return graph().inputs[0]


def _lost_gradient():
    made = popxl.gir().create_graph(lambda a, b: a * 2.0, t(2), t(2))
    named = addons.GraphWithNamedArgs(made)
    addons.autodiff_with_accumulation(named, [made.inputs[1]])


def _cached():
    addons.GraphCache().create_graph(lambda a, b: a, t(2), np.zeros(2))


@pytest.mark.parametrize("name", ERRORS)
def test_errors_say_what_is_wrong(name):
    error, text, call = ERRORS[name]
    with popxl.Ir().main_graph, pytest.raises(error, match=text):
        call()
