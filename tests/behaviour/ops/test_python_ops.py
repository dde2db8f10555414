"""Tests poptorch.op: Python functions as ops of a model, with their gradients, wherever the model
runs.
"""

import copy
import signal
import sys
import threading

import numpy as np
import poptorch
import pytest
import torch
import zygote

X = torch.tensor([1.0, -2.0, 3.0])


@poptorch.op
def power(x, bias, exponent=3):
    return x**exponent + bias, x > 0


@power.gradient
def power_gradient(x, bias, y, is_positive, dy, exponent=3):
    return exponent * x ** (exponent - 1) * dy, dy


def sine_gradient(x, y, dy):
    return np.cos(x) * dy


@poptorch.op(numpy=True, gradient=sine_gradient)
def sine(x):
    assert isinstance(x, np.ndarray)
    return np.sin(x)


class Network(torch.nn.Module):
    """Computes with Python ops, or with torch's ops instead."""

    def __init__(self, own):
        super().__init__()
        self.own = own
        self.first = poptorch.BeginBlock(torch.nn.Linear(6, 8), "front", ipu_id=0)
        self.last = poptorch.BeginBlock(torch.nn.Linear(8, 3), "back", ipu_id=1)

    def forward(self, x, target=None):
        h = self.first(x)
        y = self.last(sine(h) if self.own else torch.sin(h))
        bias = torch.full_like(y, 0.5)
        y = power(y, bias, exponent=2)[0] if self.own else y**2 + bias
        return y if target is None else (y, torch.nn.functional.mse_loss(y, target))


def networks():
    torch.manual_seed(3)
    network = Network(own=True)
    reference = Network(own=False)
    reference.load_state_dict(network.state_dict())
    return network, reference


def trained(network, options):
    optimizer = poptorch.optim.SGD(network.parameters(), lr=0.05)
    model = poptorch.trainingModel(network, options, optimizer)
    torch.manual_seed(5)
    for _ in range(3):
        model(torch.randn(8, 6), torch.randn(8, 3))
    return copy.deepcopy(network.state_dict())


STRATEGIES = {
    "sharded": poptorch.ShardedExecution,
    "pipelined": poptorch.PipelinedExecution,
    "phased": lambda: poptorch.SerialPhasedExecution(
        poptorch.Phase("front").ipus(0), poptorch.Phase("back").ipus(1)
    ),
}


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_training_on_several_ipus(strategy, replicas):
    weights = []
    for network in networks():
        options = poptorch.Options().replicationFactor(replicas)
        options.setExecutionStrategy(STRATEGIES[strategy]())
        options.Training.gradientAccumulation(1 if strategy == "phased" else 4)
        weights.append(trained(network, options))
    for name, value in weights[1].items():
        torch.testing.assert_close(weights[0][name], value, msg=name)


def test_values():
    model = poptorch.inferenceModel(lambda x: (*power(x, x, exponent=2), sine(x)))
    y, is_positive, s = model(X)
    assert torch.equal(y, X**2 + X) and torch.equal(is_positive, X > 0)
    torch.testing.assert_close(s, torch.sin(X))


def test_outside_of_a_model_torch_differentiates_it():
    x = X.clone().requires_grad_()
    y, is_positive = power(x, torch.ones(3))
    assert not is_positive.requires_grad
    sine(y).sum().backward()
    found, x.grad = x.grad, None
    torch.sin(x**3 + 1).sum().backward()
    torch.testing.assert_close(found, x.grad)


@pytest.mark.parametrize(
    "x",
    [torch.tensor([1, 2]), torch.tensor([1.5]).half(), torch.tensor([1.5]).bfloat16(), X > 0],
    ids=lambda x: str(x.dtype),
)
def test_element_types(x):
    seen = []

    @poptorch.op
    def same(x):
        seen.append(x.dtype)
        return x.clone()

    expected = x.int() if x.dtype == torch.int64 else x
    for call in (same, poptorch.inferenceModel(lambda x: same(x))):
        y = call(x)
        assert torch.equal(y.to(expected.dtype), expected)
    assert set(seen) == {expected.dtype}


def test_attributes_of_every_type():
    @poptorch.op
    def sized(x, *, words, number, scale, ints, floats):
        assert (words, number, ints, floats) == (["a", "b"], 2, [1, 2], [0.5])
        return x * scale

    def forward(x):
        return sized(x, words=("a", "b"), number=2, scale=0.25, ints=[1, 2], floats=[0.5])

    assert torch.equal(poptorch.inferenceModel(forward)(X), X / 4)


def test_a_shape_function_spares_the_call_on_zeros():
    calls = []

    @poptorch.op(shape=lambda x, rows: ((rows, x[0][0]), x[1]))
    def repeated(x, rows):
        calls.append(x.clone())
        return x.expand(rows, -1)

    model = poptorch.inferenceModel(lambda x: repeated(x, rows=2))
    assert torch.equal(model(X), X.expand(2, -1))
    assert len(calls) >= 1 and all(torch.equal(x, X) for x in calls)


def test_it_is_called_on_zeros_once():
    calls = []

    @poptorch.op
    def scaled(x, factor):
        calls.append(x.clone())
        return x * factor

    model = poptorch.inferenceModel(lambda x: scaled(x, factor=0.1))
    torch.testing.assert_close(model(X), X * 0.1)
    assert [int((x == 0).all()) for x in calls[:2]] == [1, 0]


def test_what_a_function_keeps_or_changes_is_its_own():
    kept = []

    @poptorch.op
    def keeps(x):
        kept.append(x)
        return x + 1

    @poptorch.op
    def spoils(x):
        return x.mul_(0)

    model = poptorch.inferenceModel(lambda x: (keeps(x), spoils(x), x * 2))
    for _ in range(2):
        y, zeros, twice = model(X)
        assert torch.equal(y, X + 1) and torch.equal(zeros, X * 0) and torch.equal(twice, X * 2)
    assert torch.equal(kept[-1], X)


def test_closures_of_one_name_are_ops_of_their_own():
    def times(factor):
        @poptorch.op
        def scaled(x):
            return x * factor

        return scaled

    two, three = times(2), times(3)
    first = poptorch.inferenceModel(lambda x: two(x))
    second = poptorch.inferenceModel(lambda x: three(x))
    assert torch.equal(first(X), X * 2) and torch.equal(second(X), X * 3)
    assert torch.equal(first(X), X * 2)


def test_threads_do_not_wait_for_each_other_for_ever():
    models = [poptorch.inferenceModel(lambda x: sine(power(x, x)[0])) for _ in range(3)]
    for model in models:
        model(X)
    expected, failed = models[0](X), []

    def work(model):
        for _ in range(20):
            if not torch.equal(model(X), expected):
                failed.append(model)

    threads = [threading.Thread(target=work, args=(models[i % 3],)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not failed


# Refused results.


def error_of(forward, x=X):
    with pytest.raises(poptorch.Error) as caught:
        poptorch.inferenceModel(forward)(x)
    return caught.value


def test_what_a_function_raises_is_the_cause():
    @poptorch.op
    def picky(x):
        if x[0] > 1:
            raise KeyError("too much")
        return x

    model = poptorch.inferenceModel(lambda x: picky(x))
    assert torch.equal(model(X), X)
    for _ in range(2):
        with pytest.raises(poptorch.Error) as caught:
            model(X * 2)
        text = str(caught.value)
        assert "picky' of domain 'python'" in text
        assert "failed: KeyError: 'too much' (" in text and "test_python_ops.py:" in text
        assert isinstance(caught.value.__cause__, KeyError)
        assert torch.equal(model(X), X)


def test_what_it_raises_on_zeros_is_told_at_compilation():
    @poptorch.op
    def inverse(x):
        return torch.linalg.inv(x)

    error = error_of(lambda x: inverse(x), torch.eye(2))
    assert "inverse failed to determine the types of its results for f32[2,2]: " in str(error)
    assert error.__cause__ is not None


@pytest.mark.signals
def test_ctrl_c_in_a_function_is_ctrl_c():
    strikes = []

    @poptorch.op
    def struck(x):
        if strikes:
            signal.raise_signal(strikes.pop())
        return x

    model = poptorch.inferenceModel(lambda x: struck(x))
    model(X)
    strikes.append(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        model(X)
    assert torch.equal(model(X), X)


def test_a_function_may_not_run_a_model():
    inner = poptorch.inferenceModel(torch.nn.ReLU())
    inner(X)
    nested = poptorch.op(lambda x: inner(x), shape=lambda x: x)
    text = str(error_of(lambda x: nested(x)))
    assert "a custom op that a model runs uses a compiled model." in text


def test_results_of_other_shapes_than_on_zeros_are_refused():
    @poptorch.op
    def chosen(x):
        return x[x > 0] if x.any() else x

    text = str(error_of(lambda x: chosen(x)))
    assert "chosen returned f32[2], but for these inputs it should return f32[3]." in text


@pytest.mark.parametrize(
    ("forward", "text"),
    [
        (lambda x: poptorch.op(lambda x: None)(x), "an argument or result of the function is None"),
        (lambda x: poptorch.op(lambda x: x, shape=lambda x: x[0])(x), "must return (shape, dtype)"),
        (lambda x: sine(x.to(torch.complex64)), "is of torch.complex64. Use real tensors."),
    ],
)
def test_what_is_no_tensor_is_refused(forward, text):
    assert text in str(error_of(forward))


def test_arguments_are_tensors():
    with pytest.raises(ValueError, match="takes tensors, and other values by keyword, but got 2"):
        power(X, 2)
    with pytest.raises(ValueError, match="expected a function but got 3"):
        poptorch.op(3)


class Trained(torch.nn.Module):
    def __init__(self, op):
        super().__init__()
        self.weight, self.op = torch.nn.Parameter(torch.ones(3)), op

    def forward(self):
        return poptorch.identity_loss(self.op(self.weight), "sum")


@pytest.mark.parametrize(
    ("gradient", "text"),
    [
        (None, "has no gradient op, but a parameter's gradient passes through it."),
        (lambda x, y, dy: dy[:2], "returns [2] for input 0, which is [3]."),
        (None, "Declare one (in Python: @op.gradient, with the op's name)"),
        (lambda x, dy: dy, "too many positional arguments. It takes 3 tensors: 1 inputs, then the"),
        (lambda x, y, dy, z: dy, "missing a required argument: 'z'."),
        (lambda x, y, dy: (dy, dy), "returns 2 tensors for 1 inputs, of which 1 are floating."),
    ],
)
def test_gradients_are_checked(gradient, text):
    network = Trained(poptorch.op(lambda x: x * 2, gradient=gradient))
    model = poptorch.trainingModel(network, optimizer=torch.optim.SGD(network.parameters(), lr=1.0))
    with pytest.raises(poptorch.Error) as caught:
        model()
    assert text in str(caught.value)


def test_gradients_of_attributes_take_these_by_keyword():
    @poptorch.op
    def scaled(x, scale=2.0):
        return x * scale

    scaled.gradient(lambda x, dy, scale: dy * scale)
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(poptorch.Error, match=r"and scale by keyword. Change .* \(x, dy, scale\)"):
        scaled(x, scale=2.0).sum().backward()


def test_none_is_a_gradient_of_zeros():
    network = Trained(poptorch.op(lambda x: x * 2, gradient=lambda x, y, dy: None))
    model = poptorch.trainingModel(network, optimizer=torch.optim.SGD(network.parameters(), lr=1.0))
    assert model() == 6 and torch.equal(network.weight.detach(), torch.ones(3))


LOAD = """
import sys
from poptorch_core import _core
try:
    _core.load(sys.stdin.read())
except Exception as error:
    print(error.message)
"""


def test_a_saved_program_does_not_hold_the_function():
    model = poptorch.inferenceModel(lambda x: sine(x))
    model(X)
    done = zygote.run(
        [sys.executable, "-c", LOAD],
        input=model.graph("program"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "sine' of domain 'python', version" in done.stdout
    assert "it is a function of Python, and a saved program does not hold it." in done.stdout


def test_a_gradient_comes_before_the_first_call():
    late = poptorch.op(lambda x: x)
    late(X)
    with pytest.raises(poptorch.Error, match="is in use. Set its gradient before its first call."):
        late.gradient(lambda x, y, dy: dy)
