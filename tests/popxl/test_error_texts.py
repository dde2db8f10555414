"""Errors begin as programs expect and contain the words that programs search for."""

import re
import tempfile

import numpy as np
import popxl
import pytest
from popart import popart_exception
from popxl import ops, transforms
from popxl.ops import var_updates
from popxl.ops.utils import check_in_graph, check_tensor_ipu_and_tile_set
from program import ids, t

F32, F16, F8 = popxl.float32, popxl.float16, popxl.float8_143


def graph(function=lambda a, b: a + b):
    return popxl.gir().create_graph(function, t(2), t(2))


def call(*inputs, named=lambda g: {}):
    g = graph()
    return ops.call(g, *inputs, inputs_dict=named(g))


def repeat(*inputs, named=lambda g: {}):
    g = graph()
    return ops.repeat(g, 2, *inputs, inputs_dict=named(g))


# Wrong inputs of calls and loops.
GIVEN = {
    "too many": (
        ValueError,
        "^Too many inputs have been provided",
        lambda run: run(t(2), t(2), t(2)),
    ),
    "twice": (
        ValueError,
        "^Graph input tensor is specified twice",
        lambda run: run(t(2), t(2), named=lambda g: {g.inputs[0]: t(2)}),
    ),
    "missing": (ValueError, "^Not enough inputs have been provided", lambda run: run(t(2))),
    "foreign": (
        ValueError,
        "not in the called graph",
        lambda run: run(t(2), named=lambda g: {t(2): t(2)}),
    ),
    "shape": (popart_exception, "does not fit input", lambda run: run(t(2), t(3))),
    "dtype": (popart_exception, "does not fit input", lambda run: run(t(2), ids(2))),
}


def own_code():
    def build(a, b):
        ops.remote_code_load(popxl.gcg(), "executable")

    graph(build)


def session():
    popxl.gir().num_host_transfers = 1
    y = t(2) + 1
    return popxl.Session(popxl.gir()), y


def written():
    def build(a, b):
        ops.add_(a, b)

    return transforms.autodiff(graph(build))


def ambiguous():
    v = popxl.variable(np.ones(2), F32)
    ops.add_(v, v * 2)
    _ = v + 1
    return popxl.Session(popxl.gir())


def memmap(dtype="f4", order="C"):
    return np.memmap(tempfile.NamedTemporaryFile(), dtype, "w+", shape=(2, 3), order=order)


def buffer():
    return popxl.remote_buffer((2,), F32, 1)


def assign(name):
    setattr(buffer(), name, None)


def on_two(a, b):
    with popxl.ipu(0):
        x = popxl.constant(1.0) + 1
    with popxl.ipu(a), popxl.io_tiles() if b else popxl.name_scope("n"):
        y = popxl.constant(1.0) + 1
    check_tensor_ipu_and_tile_set(one=x, two=y, three=t(2))


def adam(name, **arguments):
    return getattr(var_updates, f"{name}_updater")(t(2), t(2), **arguments)


def eighths(*shape):
    return popxl.constant(np.ones(shape), F8)


TAKES_SCALES = {
    "matmul": lambda scale: ops.matmul_pow2scaled(eighths(2, 2), eighths(2, 2), scale),
    "conv": lambda scale: ops.conv_pow2scaled(eighths(1, 1, 3, 3), eighths(1, 1, 2, 2), scale),
    "conv_transpose": lambda scale: ops.conv_transpose_pow2scaled(
        eighths(1, 1, 3, 3), eighths(1, 1, 2, 2), scale
    ),
    "cast to": lambda scale: ops.pow2scale_cast_to_fp8(t(2), scale, F8),
    "cast from": lambda scale: ops.pow2scale_cast_from_fp8(eighths(2), scale, F32),
}
# A float32 of one dimension is wrong twice: the error names its shape.
SCALES = {
    "scale's shape": (ValueError, "must be a scalar tensor", (1,)),
    "scale's dtype": (TypeError, "must be of type popxl.int32", ()),
}


MEMMAP = "^When passing a memory-mapped NumPy array, "
WORDS = {
    "order": (TypeError, "`None` cannot be passed to ", lambda: popxl.in_sequence(None)),
    "reshape 0": (ValueError, "Invalid shape value in reshape", lambda: t(2).reshape((0, 2))),
    "reshape -2": (ValueError, "Invalid shape value in reshape", lambda: t(2).reshape((-2,))),
    "reshape -1": (
        ValueError,
        "Reshape shape can contain at most one '-1' value",
        lambda: t(2, 2).reshape((-1, -1)),
    ),
    "reshape of too many": (
        ValueError,
        r"t popxl.dtypes.float32 \(2, 3\)\] of rank 2 has 6 elements.* shape \(4, -1\)",
        lambda: t(2, 3).reshape([4, -1]),
    ),
    "reshape to 0": (
        ValueError,
        r"^Invalid shape value in reshape: \(0, 2\) for .*\(2, 2, 1\)\] of rank 3",
        lambda: ops.reshape_(t(2, 2, 1), [0, 2]),
    ),
    "reshape to a number": (
        TypeError,
        r"reshape takes a shape as a tuple of ints but got 4 for .* of rank 2",
        lambda: t(2, 2).reshape(4),
    ),
    "reshape to a fraction": (
        TypeError,
        r"reshape takes a shape as a tuple of ints but got \(2.5, 2\) for .* of rank 1",
        lambda: t(5).reshape((2.5, 2)),
    ),
    "transpose": (
        ValueError,
        "Values in permutation must be less than",
        lambda: t(2, 2).transpose((0, 2)),
    ),
    "transpose beyond the rank": (
        ValueError,
        r"must be less than 2, the rank of .*\(2, 3\)\], but are \(0, 1, 2\)\.",
        lambda: t(2, 3).transpose([0, 1, 2]),
    ),
    "transpose twice": (
        ValueError,
        r"^\(0, 0\) is not a permutation of \(0, 1\), the dimensions of .* of rank 2",
        lambda: ops.transpose_(t(2, 3), [0, 0]),
    ),
    "transpose of some": (
        ValueError,
        r"^\(1, 0\) is not a permutation of \(0, 1, 2\), the dimensions of .* of rank 3",
        lambda: t(2, 3, 1).transpose([1, 0]),
    ),
    "transpose by a number": (
        TypeError,
        "transpose takes a permutation as a tuple of ints but got 1 for .* of rank 2",
        lambda: t(2, 2).transpose(1),
    ),
    "copy": (
        ValueError,
        "Could not infer the ipu.*Please specify `source`",
        lambda: ops.ipu_copy(t(2), 1),
    ),
    **{
        f"betas of {name}": (
            ValueError,
            "Bias correction requires both beta1 and beta2 to not be None.",
            lambda name=name: adam(name, time_step=t(), weight=t(2), weight_decay=0.1),
        )
        for name in ("adam", "lamb")
    },
    **{
        f"decay of {name}": (
            ValueError,
            "Weight decay requires weight to not be None.",
            lambda name=name: adam(name, weight_decay=t()),
        )
        for name in ("adam", "lamb", "adamax")
    },
    "step": (ValueError, "AdaMax requires time_step to not be None.", lambda: adam("adamax")),
    **{
        f"decay of {name} before its betas": (
            ValueError,
            "Weight decay requires weight to not be None.",
            lambda name=name: adam(name, time_step=t(), weight_decay=0.1),
        )
        for name in ("adam", "lamb")
    },
    "rounds": (
        ValueError,
        "^Repeat count must be >= 0",
        lambda: ops.repeat(graph(), -1, t(2), t(2)),
    ),
    "outputs": (
        ValueError,
        "^To repeat the subgraph",
        lambda: ops.repeat(popxl.gir().create_graph(lambda: t(2)), 2),
    ),
    **{
        f"{what} of {run.__name__}": (kind, words, lambda run=run, wrong=wrong: wrong(run))
        for what, (kind, words, wrong) in GIVEN.items()
        for run in (call, repeat)
    },
    "code": (ValueError, "^The remote_code_load op cannot load the code", own_code),
    "split": (popart_exception, "do not add up", lambda: ops.split(t(5), [2, 2])),
    "concat": (
        TypeError,
        "All inputs to a concat operation must have the same type:",
        lambda: ops.concat([t(2), ids(2)]),
    ),
    **{
        f"{what} of {name}": (kind, words, lambda take=take, scale=scale: take(t(*scale)))
        for what, (kind, words, scale) in SCALES.items()
        for name, take in TAKES_SCALES.items()
    },
    "get": (
        TypeError,
        "is not of type Constant or Variable",
        lambda: (lambda s, y: s.get_tensor_data(y))(*session()),
    ),
    "write": (
        TypeError,
        "^Tensor t.* is not of type",
        lambda: session()[0].write_variable_data(t(2), np.ones(2, np.float32)),
    ),
    "autodiff": (popart_exception, r"^The graph \S+ contains a modifying op", written),
    "inplace": (popart_exception, r"^Inplacing ambiguity detected\.", ambiguous),
    "memmap's dtype": (
        ValueError,
        MEMMAP + "the `dtype` parameter",
        lambda: popxl.variable(memmap(), F16),
    ),
    "memmap's order": (
        ValueError,
        MEMMAP + "it must already be in C-ordered",
        lambda: popxl.variable(memmap(order="F")),
    ),
    "memmap's bits": (
        ValueError,
        MEMMAP + "the dtype None is not supported, as it requires downcasting",
        lambda: popxl.variable(memmap(dtype="f8")),
    ),
    "memmap's own bits": (
        ValueError,
        MEMMAP + "the dtype popxl.dtypes.int64 is not supported, as it requires downcasting",
        lambda: popxl.variable(memmap(dtype="i8"), popxl.int64),
    ),
    **{
        name: (AttributeError, f"^can't set attribute '{name}'$", lambda name=name: assign(name))
        for name in ("tensor_shape", "tensor_dtype")
    },
    "entries": (
        ValueError,
        "^Entries must be a non-zero, positive integer",
        lambda: popxl.remote_buffer((2,), F32, 0),
    ),
    **{
        f"no {name}": (ValueError, "^Entries must be a non-zero, positive integer", wrong)
        for name, wrong in {
            "rows": lambda: popxl.RemoteBuffer((2,), F32, -1),
            "shards": lambda: popxl.replica_sharded_buffer((2,), F32, entries=0),
            "more entries": lambda: setattr(buffer(), "entries", 0),
        }.items()
    },
    **{
        f"{what} of a row of {name}": (
            ValueError,
            r"^Tensor t does not match buffer\.",
            lambda use=use, row=row: use(row()),
        )
        for what, row in {"shape": lambda: t(3), "dtype": lambda: t(2, dtype=F16)}.items()
        for name, use in {
            "store": lambda row: ops.remote_store(buffer(), 0, row),
            "load_": lambda row: ops.remote_load_(buffer(), 0, row),
            "buffer": lambda row: buffer().validate_tensor_matches_buffer(row),
        }.items()
    },
    "ipus": (ValueError, "one.*two.*IPUs", lambda: on_two(1, False)),
    "tile sets": (ValueError, "one.*two.*tile sets", lambda: on_two(0, True)),
    "no tensor": (TypeError, "a must be a tensor", lambda: check_in_graph(popxl.gcg(), a=1)),
    "other graph": (
        ValueError,
        "must be of Graph",
        lambda: check_in_graph(graph(), a=t(2)),
    ),
    "by position": (TypeError, "positional", lambda: check_in_graph(popxl.gcg(), t(2))),
}


@pytest.mark.parametrize("name", WORDS)
def test_errors_have_their_words(name):
    kind, words, wrong = WORDS[name]
    with popxl.Ir().main_graph, pytest.raises(kind) as info:
        wrong()
    assert type(info.value) is kind
    assert re.search(words, info.value.args[0])


def test_what_fits_passes():
    with popxl.Ir().main_graph as main:
        x = t(2, 3)
        check_in_graph(main, x=x)
        check_tensor_ipu_and_tile_set(x=x, y=t(2))
        assert ops.utils.cast_if_needed(x, F32) is x
        assert ops.utils.cast_if_needed(x, F16).dtype is F16
        assert [ops.utils.handle_negative_axis(x, axis) for axis in (-1, 1)] == [1, 1]
        utils = ops.utils
        assert utils.convert_optional_float(None) is None and utils.convert_optional_float(2) == 2.0
        assert utils.convert_optional_int(2.0) == 2 and utils.convert_optional_int(None) is None
        assert utils.convert_optional_int64_list((1, 2)) == [1, 2]
        assert utils.convert_optional_dtype(F16).name == "FLOAT16"
        assert utils.convert_optional_dtype(None) is None
