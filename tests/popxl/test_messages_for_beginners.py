"""Messages about mistakes in a first program say what is wrong, where, and what to do instead."""

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl.errors import popart_exception
from popxl.transforms import autodiff

F32 = popxl.float32
X = np.ones((2, 3), np.float32)


class Program:
    """Builds out = x + v, on streams of these names, and a graph of x * w."""

    def __init__(self, replicas=1):
        self.ir = popxl.Ir(replication=replicas)
        with self.ir.main_graph:
            self.stream = popxl.h2d_stream((2, 3), F32, "x")
            self.x = ops.host_load(self.stream)
            self.v = popxl.variable(X, name="v")
            self.y = self.x + self.v
            self.out = popxl.d2h_stream((2, 3), F32, "out")
            ops.host_store(self.out, self.y)
            self.graph = self.ir.create_graph(lambda x, w: x * w, self.x, self.v)
            self.buffer = popxl.remote_buffer((2, 3), F32)

    def run(self, *inputs):
        with popxl.Session(self.ir, "ipu_hw") as session:
            return session.run(*inputs)


MISTAKES = []


def refused(error, text, written=False):
    """Registers a mistake that must raise `error`. written: it runs inside the main graph."""
    return lambda function: MISTAKES.append((function, error, text, written)) or function


@refused(ValueError, r"\[x .* of shape \(2, 3\) but got \(3, 2\)\. Reshape the data")
def shape_of_data(p):
    p.run({p.stream: X.T})


@refused(ValueError, r"missing: \[.*\[x .*Pass a dict with an array for each stream\.")
def no_data(p):
    p.run()


@refused(ValueError, r"not expected: \['x'\].* whose keys are the streams and not their names")
def data_by_name(p):
    p.run({"x": X})


@refused(TypeError, r"run takes a dict \{stream: array\} for \[.*\[x .* but got a ndarray")
def data_without_a_stream(p):
    p.run(X)


@refused(TypeError, "run takes a dict .* but got a list")
def data_in_a_list(p):
    p.run([X])


@refused(ValueError, r"\[x .*float32 but got int64\. Convert .*np.asarray\(data, 'float32'\)")
def dtype_of_data(p):
    p.run({p.stream: X.astype(np.int64)})


@refused(ValueError, r"shape \(2, 2, 3\), \(2, 3\) for each of 2 replicas, but got \(2, 3\)")
def data_of_one_replica(_):
    p = Program(replicas=2)
    p.run({p.stream: X})


@refused(ValueError, "Session.run works only attached: use it inside `with session:`")
def run_outside(p):
    popxl.Session(p.ir).run({p.stream: X})


@refused(KeyError, r"'out' is not a result of the program\. The keys are \[.*\[out ")
def result_by_name(p):
    p.run({p.stream: X})["out"]


@refused(TypeError, "Session takes a popxl.Ir but got a Graph")
def session_of_a_graph(p):
    popxl.Session(p.ir.main_graph)


@refused(TypeError, r"\[v .*is a variable of Ir\[id=\d+\] but the session runs Ir\[id=\d+\]")
def variable_of_another_program(p):
    popxl.Session(p.ir).write_variable_data(Program().v, X)


@refused(
    TypeError,
    r"Tensor 'v' is not of type Variable\. Pass what popxl.variable returned, one of \[.*\[v ",
)
def variable_by_name(p):
    popxl.Session(p.ir).write_variable_data("v", X)


@refused(ValueError, r"\[late .*was made after this session\. Make a new session")
def variable_made_later(p):
    session = popxl.Session(p.ir)
    with p.ir.main_graph:
        late = popxl.variable(X, name="late")
    session.get_tensor_data(late)


@refused(TypeError, r"\[add_out .*is not of type Constant or Variable\. .*ops.host_store")
def result_as_a_variable(p):
    popxl.Session(p.ir).get_tensor_data(p.y)


@refused(RuntimeError, "no current graph. Write ops inside `with ir.main_graph:`")
def stream_outside(p):
    ops.host_load(p.stream)


@refused(popart_exception, r"AddLhsInplace.*both use .*\[v .*`with popxl.in_sequence\(\):`")
def in_place_in_no_order(p):
    with p.ir.main_graph:
        ops.add_(p.v, p.x)
    popxl.Session(p.ir)


@refused(TypeError, r"\[i .*int32 \(3,\)\] has no gradient.*ops.cast", written=True)
def gradient_of_ints(p):
    i = popxl.variable([1, 2, 3], name="i")
    graph = p.ir.create_graph(lambda i: ops.cast(i, F32) * 2.0, i)
    autodiff(graph, grads_required=graph.inputs)


@refused(TypeError, r"\[argmax_out .*int32.* has no gradient", written=True)
def gradient_given_for_ints(p):
    graph = p.ir.create_graph(ops.argmax, p.x)
    autodiff(graph, grads_provided=graph.outputs)


@refused(ValueError, r"needs \['w'\] as well\. Pass them to the call", written=True)
def too_few_inputs(p):
    ops.call(p.graph, p.x)


@refused(ValueError, r"\[v .*belongs to graph main.* Pass it as an input", written=True)
def tensor_of_the_graph_around(p):
    p.ir.create_graph(lambda x: x + p.v, p.x)


@refused(ValueError, r"Add .*one dtype but x_hostload .*float32 .*float16\. Use ops.cast", True)
def two_dtypes(p):
    _ = p.x + popxl.variable(X, popxl.float16)


@refused(TypeError, r"<class 'numpy.float32'> is not a dtype of .*\. Write popxl.float32\.", True)
def dtype_of_numpy(p):
    popxl.h2d_stream((2,), np.float32)


@refused(TypeError, r"(?s)Add takes tensors but got a ndarray: .*popxl.constant or", True)
def array_for_a_tensor(p):
    ops.add(p.x, X)


@refused(TypeError, r"IPUs are counted by ints from 0 but '1' was given")
def name_of_an_ipu(p):
    with popxl.ipu("1"):
        pass


@refused(TypeError, r"The repeat count must be an int but is 2\.5", True)
def half_a_round(p):
    ops.repeat(p.ir.create_graph(lambda x: x * 2.0, p.x), 2.5, p.x)


@refused(ValueError, "The main graph .*has no gradient graph.*ir.create_graph")
def gradient_of_the_main_graph(p):
    autodiff(p.ir.main_graph)


class Scale(addons.Module):
    def build(self, x: popxl.Tensor):
        return x * self.add_variable_input("w", lambda: X)


class Unmade(Scale):
    def __init__(self):
        self.size = 3


@refused(
    ValueError, r"'w' is state of a Scale.*the main graph has no inputs.*create_graph.*bind", True
)
def module_in_the_main_graph(p):
    Scale()(p.x)


@refused(
    TypeError, r"takes variables for \['w'\] but got their factories.*factories.init\(\)", True
)
def factories_for_variables(p):
    factories, graph = Scale().create_graph(p.x)
    graph.bind(factories)


@refused(RuntimeError, r"Call super\(\).__init__\(\) first in Unmade.__init__", True)
def module_that_was_not_made(p):
    Unmade().create_graph(p.x)


@pytest.mark.parametrize(
    "mistake, error, text, written", MISTAKES, ids=[mistake.__name__ for mistake, *_ in MISTAKES]
)
def test_a_mistake_is_told(mistake, error, text, written):
    program = Program()
    with pytest.raises(error, match=text):
        if written:
            with program.ir.main_graph:
                mistake(program)
        else:
            mistake(program)


def test_a_gradient_comes_before_calls():
    p = Program()
    with p.ir.main_graph:
        graph = p.ir.create_graph(lambda x: ops.sin(ops.sin(x)), p.x)
        call = ops.call_with_info(graph, p.x)
        text = r"Call.\d+ of graph main calls .*return \[.*\[sin_out .*autodiff before calling the"
        with pytest.raises(popart_exception, match=text):
            autodiff(graph)
        out = popxl.d2h_stream((2, 3), F32)
        ops.host_store(out, call.outputs[0])
    got = p.run({p.stream: X})[out]  # the refused gradient leaves no trace
    np.testing.assert_allclose(got, np.sin(np.sin(X)), rtol=1e-5)


@pytest.mark.parametrize(
    "use, cure",
    [
        (lambda p, other: p.x + other.x, "Programs do not share tensors"),
        (lambda p, other: ops.call(other.graph, p.x, p.v), "Make the graph in the current program"),
        (lambda p, other: ops.host_load(other.stream), "Make a stream in the current program"),
        (lambda p, other: ops.host_store(other.out, p.x), "Make a stream in the current program"),
        (lambda p, other: ops.remote_load(other.buffer, 0), "Make a buffer in the current program"),
        (
            lambda p, other: ops.remote_store(other.buffer, 0, p.x),
            "Make a buffer in the current program",
        ),
        (
            lambda p, other: popxl.remote_variable(X, other.buffer),
            "Make a buffer in the current program",
        ),
    ],
)
def test_programs_share_nothing(use, cure):
    p, other = Program(), Program()
    there, here = (rf"Ir\[id={q.ir.id}\]" for q in (other, p))
    text = f"belongs to {there} but the current program is {here}. {cure}"
    with p.ir.main_graph, pytest.raises(ValueError, match=text):
        use(p, other)


TAKE_DTYPES = [
    lambda dtype: popxl.variable(X, dtype),
    lambda dtype: popxl.constant(X, dtype),
    lambda dtype: popxl.TensorSpec((2,), dtype),
    lambda dtype: popxl.d2h_stream((2,), dtype),
    lambda dtype: popxl.remote_buffer((2,), dtype),
    lambda dtype: ops.init((2,), dtype),
    lambda dtype: ops.cast(popxl.constant(X), dtype),
    lambda dtype: ops.random_normal(popxl.constant([1, 2], popxl.uint32), (2,), dtype=dtype),
]


@pytest.mark.parametrize("take", TAKE_DTYPES)
@pytest.mark.parametrize(
    "dtype, meant",
    [
        (np.float16, "popxl.float16"),
        ("half", "popxl.float16"),
        (int, "popxl.int64"),
        (3, "e.g. popxl.float32"),
    ],
)
def test_dtypes_are_popxls(take, dtype, meant):
    with (
        popxl.Ir().main_graph,
        pytest.raises(TypeError, match=f"is not a dtype of .*Write {meant}"),
    ):
        take(dtype)


@pytest.mark.parametrize("shape", [3, (2.5,), (2, "a"), None])
def test_shapes_are_tuples_of_ints(shape):
    with pytest.raises(TypeError, match="A shape is a tuple of ints"):
        popxl.TensorSpec(shape, F32)
    assert popxl.TensorSpec([np.int64(2), 3], F32).shape == (2, 3)
