"""Tests which programs PopXL refuses, and with which exception."""

import numpy as np
import popxl
import pytest
from popxl import ops
from popxl.errors import UndefinedValue, popart_exception
from popxl.transforms import autodiff

F32, I32 = popxl.float32, popxl.int32


@pytest.fixture
def ir():
    ir = popxl.Ir()
    with ir.main_graph:
        yield ir


def tensor(*shape, dtype=F32):
    return popxl.constant(np.zeros(shape), dtype)


OP_ERRORS = {
    "not a tensor": (TypeError, lambda: ops.add(tensor(2), 3)),
    "dtypes differ": (ValueError, lambda: ops.add(tensor(2), tensor(2, dtype=I32))),
    "in place needs room": (ValueError, lambda: ops.add_(tensor(1), tensor(3))),
    "empty operand": (ValueError, lambda: tensor(2) + []),
    "reshape to zero": (ValueError, lambda: ops.reshape(tensor(2), (0, 2))),
    "reshape to -2": (ValueError, lambda: ops.reshape(tensor(2), (-2, 1))),
    "reshape to another count": (ValueError, lambda: ops.reshape(tensor(2), (3,))),
    "squeeze of 2": (ValueError, lambda: ops.squeeze(tensor(2, 1), [0])),
    "no permutation": (ValueError, lambda: ops.transpose(tensor(2, 3), (0, 0))),
    "axis out of range": (ValueError, lambda: ops.softmax(tensor(2, 3), 2)),
    "split that does not add up": (popart_exception, lambda: ops.split(tensor(5), [2, 2])),
    "split into uneven parts": (ValueError, lambda: ops.split(tensor(5), 2)),
    "slice by two": (ValueError, lambda: ops.slice(tensor(5), 0, 4, 2)),
    "matmul sizes": (ValueError, lambda: ops.matmul(tensor(2, 3), tensor(2, 3))),
    "matmul output": (ValueError, lambda: ops.matmul(tensor(2), tensor(2), output_type=I32)),
    "scaled_add shapes": (ValueError, lambda: ops.scaled_add(tensor(2), tensor(1))),
    "scaled_add a and b": (
        ValueError,
        lambda: ops.scaled_add(tensor(2), tensor(2), tensor(), 0.5),
    ),
    "cast to float8": (TypeError, lambda: ops.cast(tensor(2), popxl.float8_143)),
    "topk of too many": (ValueError, lambda: ops.topk(tensor(2), 3, 0, True, True)),
    "falling levels": (ValueError, lambda: ops.histogram(tensor(2), [1, 0], False)),
    "float indices": (TypeError, lambda: ops.gather(tensor(2), tensor(2))),
    "reduction of a scatter": (
        ValueError,
        lambda: ops.scatter_reduce(tensor(2), tensor(2, dtype=I32), "mean", axis_size=2),
    ),
    "no size of a scatter": (
        ValueError,
        lambda: ops.scatter_reduce(tensor(2), tensor(2, dtype=I32), "sum"),
    ),
    "reduction of a loss": (
        ValueError,
        lambda: ops.nll_loss(tensor(2, 3), tensor(2, dtype=I32), reduction="max"),
    ),
    "labels of another shape": (
        ValueError,
        lambda: ops.nll_loss(tensor(2, 3), tensor(3, dtype=I32)),
    ),
    "groups of channels": (
        ValueError,
        lambda: ops.group_norm(tensor(2, 3), tensor(3), tensor(3), 2),
    ),
    "conv channels": (ValueError, lambda: ops.conv(tensor(1, 2, 3, 3), tensor(1, 3, 1, 1))),
    "pad type": (
        ValueError,
        lambda: ops.conv(tensor(1, 2, 3, 3), tensor(1, 2, 1, 1), pad_type="same"),
    ),
    "bias correction without betas": (
        ValueError,
        lambda: ops.var_updates.adam_updater(tensor(2), tensor(2), time_step=tensor()),
    ),
    "adamax without step": (
        ValueError,
        lambda: ops.var_updates.adamax_updater(tensor(2), tensor(2)),
    ),
    "copy without source": (ValueError, lambda: ops.ipu_copy(tensor(2), 1)),
    "separator": (ValueError, lambda: ops.print_tensor(tensor(2), separator=", ")),
    "init type": (ValueError, lambda: ops.init((2,), F32, init_type="one")),
    "len of a scalar": (ValueError, lambda: len(tensor())),
    "iteration": (TypeError, lambda: iter(tensor(2))),
    "membership": (TypeError, lambda: 1 in tensor(2)),
    "index out of range": (IndexError, lambda: tensor(2)[2]),
    "in_sequence of None": (TypeError, lambda: popxl.in_sequence(None)),
    "remote entries": (ValueError, lambda: popxl.remote_buffer((2,), F32, 0)),
    "constructors": (TypeError, lambda: popxl.Graph()),
    "tensor's constructor": (RuntimeError, lambda: popxl.Tensor()),
    "dtype's constructor": (TypeError, lambda: popxl.dtype()),
    "dtype of nothing": (ValueError, lambda: popxl.dtype.as_dtype(None)),
    "dtype without torch": (TypeError, lambda: popxl.uint16.as_torch()),
    "compared Irs": (TypeError, lambda: popxl.gir() == 1),
    "ipu of a constant": (UndefinedValue, lambda: tensor(2).ipu),
    "unknown tensor": (ValueError, lambda: popxl.gcg().get_tensor("nothing")),
    "unknown hook": (ValueError, lambda: popxl.gcg().remove_op_created_hook(7)),
    "foreign IPUs": (ValueError, lambda: _on_two_ipus()),
}


def _on_two_ipus():
    with popxl.ipu(0):
        a = tensor(2) + 1
    with popxl.ipu(1):
        b = tensor(2) + 1
    return a + b


@pytest.mark.parametrize("name", OP_ERRORS)
def test_ops_refuse(ir, name):
    error, call = OP_ERRORS[name]
    with pytest.raises(error):
        call()


def test_tensors_of_other_graphs_are_refused(ir):
    outside = tensor(2)
    with pytest.raises(ValueError, match="belongs to graph main"):
        ir.create_graph(lambda x: x + outside, outside)


def make(*results):
    return popxl.gir().create_graph(lambda x, y: results, tensor(2), tensor(2))


CALL_ERRORS = {
    "too many": (ValueError, lambda g: ops.call(g, *[tensor(2)] * 3)),
    "missing": (ValueError, lambda g: ops.call(g, tensor(2))),
    "twice": (
        ValueError,
        lambda g: ops.call(g, tensor(2), inputs_dict={g.inputs[0]: tensor(2)}),
    ),
    "foreign": (ValueError, lambda g: ops.call(g, tensor(2), inputs_dict={tensor(2): tensor(2)})),
    "shape": (popart_exception, lambda g: ops.call(g, tensor(3), tensor(2))),
    "no tensor": (TypeError, lambda g: ops.call(g, tensor(2), object())),
    "rounds": (ValueError, lambda g: ops.repeat(g, -1, tensor(2), tensor(2))),
}


@pytest.mark.parametrize("name", CALL_ERRORS)
def test_calls_refuse(ir, name):
    error, call = CALL_ERRORS[name]
    graph = ir.create_graph(lambda x, y: x + y, tensor(2), tensor(2))
    with pytest.raises(error):
        call(graph)


def test_loops_need_an_input_for_every_output(ir):
    graph = ir.create_graph(lambda x: (x, x + 1), tensor(2))
    with pytest.raises(ValueError, match="must feed an input"):
        ops.repeat(graph, 2, tensor(2))


def test_branches_need_equal_outputs_and_no_references(ir):
    def by_ref(x: popxl.TensorByRef):
        return x + 1

    yes, no = tensor(dtype=popxl.bool), ir.create_graph(lambda x: (x, x), tensor(2))
    with pytest.raises(ValueError, match="equal shapes and dtypes"):
        ops.conditional(yes, ir.create_graph(lambda x: -x, tensor(2)), no, [tensor(2)], [tensor(2)])
    with pytest.raises(NotImplementedError):
        ops.conditional(yes, ir.create_graph(by_ref, tensor(2)), no, [tensor(2)], [tensor(2)])


@pytest.mark.parametrize(
    "error, arguments",
    [
        (TypeError, (3,)),
        (ValueError, (lambda x: x,)),
        (ValueError, (lambda x: 5, popxl.TensorSpec((2,), F32))),
        (TypeError, (lambda x: None, [popxl.TensorSpec((2,), F32), 3])),
    ],
)
def test_graphs_refuse_what_does_not_fit(ir, error, arguments):
    with pytest.raises(error):
        ir.create_graph(*arguments)


def test_variables_belong_to_the_main_graph(ir):
    with pytest.raises(ValueError, match="belong to the main graph"):
        ir.create_graph(lambda x: popxl.variable(1.0), tensor(2))


def test_nothing_is_current_outside_of_graphs():
    for current in (popxl.gcg, popxl.gmg, popxl.gir):
        with pytest.raises(RuntimeError):
            current()


def test_graphs_of_two_irs_do_not_nest(ir):
    with pytest.raises(RuntimeError), popxl.Ir().main_graph:
        pass


def test_graphs_that_write_have_no_gradient(ir):
    graph = ir.create_graph(lambda x: ops.relu_(x + 1), tensor(2))
    with pytest.raises(popart_exception, match="ReluInplace"):
        autodiff(graph)
    with pytest.raises(ValueError, match="not an output"):
        autodiff(ir.create_graph(lambda x: x + 1, tensor(2)), [tensor(2)])


def test_gradient_infos_belong_to_their_graphs(ir):
    a = ir.create_graph(lambda x: ops.tanh(x), tensor(2))
    b = ir.create_graph(lambda x: ops.tanh(x), tensor(2))
    info = autodiff(a)
    with pytest.raises(TypeError):
        info.inputs_dict(ops.call_with_info(b, tensor(2)))


@pytest.fixture
def program(ir):
    stream = popxl.h2d_stream((2,), F32, "x")
    v = popxl.variable(np.zeros(2), F32)
    y = ops.host_load(stream) + v
    out = popxl.d2h_stream((2,), F32)
    ops.host_store(out, y)
    return popxl.Session(ir), stream, v, y


SESSION_ERRORS = {
    "missing stream": (ValueError, lambda s, x, v, y: s.run()),
    "unexpected stream": (ValueError, lambda s, x, v, y: s.run({x: np.zeros(2), "z": 1})),
    "shape of an input": (ValueError, lambda s, x, v, y: s.run({x: np.zeros(3)})),
    "dtype of an input": (ValueError, lambda s, x, v, y: s.run({x: np.zeros(2, np.int32)})),
    "outputs to fill": (ValueError, lambda s, x, v, y: s.run_with_outputs({x: np.zeros(2)}, {})),
    "data of a result": (TypeError, lambda s, x, v, y: s.get_tensor_data(y)),
    "writing a result": (TypeError, lambda s, x, v, y: s.write_variable_data(y, np.zeros(2))),
    "dtype of data": (
        TypeError,
        lambda s, x, v, y: s.write_variable_data(v, np.zeros(2, np.float64)),
    ),
    "shape of data": (
        ValueError,
        lambda s, x, v, y: s.write_variable_data(v, np.zeros(3, np.float32)),
    ),
}


@pytest.mark.parametrize("name", SESSION_ERRORS)
def test_sessions_refuse(program, name):
    error, call = SESSION_ERRORS[name]
    with pytest.raises(error), program[0]:
        call(*program)


def test_detached_sessions_do_not_run(program):
    session, stream, _, _ = program
    for call in (lambda: session.run({stream: np.zeros(2)}), session.weights_to_host):
        with pytest.raises(ValueError, match="only attached"):
            call()


def test_sessions_need_ops_one_ipu_on_cpu_and_the_transfers_of_the_program(ir):
    with pytest.raises(RuntimeError, match="no ops"):
        popxl.Session(ir)
    with popxl.ipu(1):
        _ = tensor(2) + 1
    with pytest.raises(ValueError, match="one IPU"):
        popxl.Session(ir, "cpu")
    with pytest.raises(ValueError, match="device_desc"):
        popxl.Session(ir, "gpu")
    other = popxl.Ir()
    other.num_host_transfers = 3
    with pytest.raises(RuntimeError), other.main_graph:
        pass


def test_transfers_and_replication_are_checked():
    ir = popxl.Ir()
    ir.num_host_transfers = 2
    with ir.main_graph:
        stream = popxl.h2d_stream((), F32)
        ops.repeat(ir.create_graph(lambda: [ops.host_load(stream)][1:]), 3)
    with pytest.raises(ValueError, match="makes 3 transfers"):
        popxl.Session(ir)
    ir.num_host_transfers = 3
    popxl.Session(ir)
    with pytest.raises(RuntimeError, match="once a Session exists"):
        ir.replication_factor = 2


def test_host_stores_fit_their_streams(ir):
    with pytest.raises(ValueError, match="cannot take"):
        ops.host_store(popxl.d2h_stream((3,), F32), tensor(2))


@pytest.mark.parametrize("assignment", [[0, 1, 1, 1], [1, 1, 0, 0], [0, 0]])
def test_groupings_need_equal_groups_in_order(assignment):
    with pytest.raises(ValueError):
        popxl.Ir(replication=4).replica_grouping_from_assignments(assignment)


def test_groupings_without_constant_stride_have_none():
    ir = popxl.Ir(replication=8)
    rg = ir.replica_grouping_from_assignments([0, 0, 1, 1, 1, 1, 0, 0])
    with pytest.raises(NotImplementedError):
        _ = rg.stride
    assert (rg.is_const, rg.const_rg.assignment) == (False, [0, 0, 1, 1, 2, 2, 3, 3])


@pytest.mark.parametrize(
    "stride, size, assignment",
    [(1, 2, [0, 0, 1, 1, 2, 2, 3, 3]), (2, 4, [0, 1] * 4), (4, None, [0, 1, 2, 3] * 2)],
)
def test_groupings_assign(stride, size, assignment):
    rg = popxl.Ir(replication=8).replica_grouping(stride, size)
    assert rg.assignment == assignment
    assert rg.transpose().transpose() == rg


def test_groupings_print():
    rg = popxl.Ir(replication=8).replica_grouping(1, 4)
    text = "ReplicaGrouping(num_replicas=8, stride=1, group_size=4, num_groups=2)"
    assert repr(rg) == text
