"""Tests the messages about frequent mistakes in models and programs."""

import pickle
import re
import sys
import types

import numpy as np
import poptorch
import pytest
import torch
import zygote

X = torch.randn(4, 3)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)

    def forward(self, x, target=None):
        y = self.fc(x)
        return y if target is None else (y, torch.nn.functional.mse_loss(y, target))


def inference(*args):
    return poptorch.inferenceModel(Model().eval())(*args)


def training(optimiser=None, options=None):
    model = Model()
    made = None if optimiser is None else optimiser(model)
    wrapped = poptorch.trainingModel(model, options, made)
    wrapped(X, X)
    return wrapped


def of_another_model(_):
    return poptorch.optim.SGD(Model().parameters(), lr=0.1)


def other_accumulator():
    wrapped = training(lambda m: poptorch.optim.Adam(m.parameters()))
    wrapped.setOptimizer(poptorch.optim.Adam(wrapped.model.parameters(), accum_type=torch.float16))


def other_moments():
    wrapped = training(lambda m: poptorch.optim.Adam(m.parameters()))
    half = {"first_order_momentum_accum_type": torch.float16}
    wrapped.setOptimizer(poptorch.optim.Adam(wrapped.model.parameters(), **half))


def groups_of_other_loss_scaling(model):
    groups = [{"params": [model.fc.weight]}, {"params": [model.fc.bias]}]
    made = poptorch.optim.SGD(groups, lr=0.1)
    made.param_groups[0]["loss_scaling"], made.param_groups[1]["loss_scaling"] = 2.0, 4.0
    return made


class Holder:
    def __init__(self, held):
        self.held = held + 1

    def __del__(self):
        pass


def returning(make):
    """Returns a call of a model that returns a function of a traced tensor."""
    return lambda: poptorch.inferenceModel(lambda x: make(x + 1))(X)


def call_with_other_number():
    wrapped = poptorch.inferenceModel(lambda x, y: x * y)
    wrapped(X, 2)
    wrapped(X, 3)


class Trained(Model):
    """Trains by a loss of its result and a target."""

    def __init__(self, loss):
        super().__init__()
        self.loss = loss

    def forward(self, x, target):
        y = self.fc(x)
        return y, self.loss(y, target)


def by_loss(loss, target=X):
    return lambda: poptorch.trainingModel(Trained(loss))(X, target)


functional = torch.nn.functional
RETURNED = r"\[outputs\] the model returns a"
LINE = r"\(\S*test_model_mistakes\.py:\d+\)"
CALLED = r"\(called at \S*test_model_mistakes\.py:\d+\)"


def set_random_state():
    wrapped = poptorch.inferenceModel(torch.relu)
    wrapped(X)
    wrapped.rng_state = 3


MISTAKES = {
    "numpy": (lambda: inference(X.numpy()), poptorch.Error, r"x is a numpy.ndarray, not a tensor"),
    "numpy scalar": (lambda: inference(np.float32(1)), poptorch.Error, r"x is a numpy.float32"),
    "meta": (lambda: inference(X.to("meta")), poptorch.Error, r"x is a tensor of device meta"),
    "sparse": (lambda: inference(X.to_sparse()), poptorch.Error, r"torch.sparse_coo.*\.to_dense"),
    "lazy layer": (
        lambda: poptorch.inferenceModel(torch.nn.LazyLinear(3))(X),
        poptorch.Error,
        r"\[model\] weight has no shape yet",
    ),
    "optimiser of another model": (
        lambda: training(of_another_model),
        poptorch.Error,
        "none of the 2 parameters of the SGD belongs to the model, which has 2",
    ),
    "class of optimiser": (
        lambda: poptorch.trainingModel(Model(), None, torch.optim.SGD),
        AssertionError,
        "Unsupported optimizer type: class SGD",
    ),
    "optimiser for options": (
        lambda: poptorch.trainingModel(Model(), torch.optim.SGD(Model().parameters())),
        poptorch.Error,
        r"'options' is of type .*SGD.* Pass the optimiser by name: optimizer=\.\.\.",
    ),
    "compiled model": (
        lambda: poptorch.inferenceModel(torch.compile(Model())),
        poptorch.Error,
        "the model comes from torch.compile",
    ),
    "pickled wrapper": (
        lambda: pickle.dumps(training()),
        poptorch.Error,
        "a PoplarExecutor cannot be copied or pickled once it is compiled: save its model",
    ),
    "swapped arguments of the loader": (
        lambda: poptorch.DataLoader(torch.utils.data.TensorDataset(X), poptorch.Options()),
        poptorch.Error,
        "Invalid type: 'options' is of type .*TensorDataset",
    ),
    "loader without options": (
        lambda: poptorch.DataLoader(torch.utils.data.TensorDataset(X), batch_size=2),
        poptorch.Error,
        "Invalid type: 'options' is of type .*TensorDataset",
    ),
    "misspelt option": (
        lambda: poptorch.Options().deviceIteration(3),
        AttributeError,
        r"Invalid attribute deviceIteration\. Did you mean deviceIterations\?",
    ),
    "option of a group": (
        lambda: poptorch.Options().gradientAccumulation(3),
        AttributeError,
        r"Invalid attribute gradientAccumulation\. Did you mean Training.gradientAccumulation\?",
    ),
    "strategy of means": (
        lambda: poptorch.Options().Training.setMeanAccumulationAndReplicationReductionStrategy(7),
        ValueError,
        "expected a MeanReductionStrategy but got 7",
    ),
    "other accumulator": (
        other_accumulator,
        ValueError,
        "needs MeanReductionStrategy.Running, but the model, .*Post, is already compiled",
    ),
    "other moments": (
        other_moments,
        poptorch.Error,
        "first_moment_type is compiled in as the constant f32 but is now f16",
    ),
    "loss scaling of zero": (
        lambda: training(lambda m: poptorch.optim.SGD(m.parameters(), lr=0.1, loss_scaling=0.0)),
        poptorch.Error,
        "loss_scaling must be a number above zero but is 0.0",
    ),
    "loss scaling by group": (
        lambda: training(groups_of_other_loss_scaling),
        poptorch.Error,
        r"loss_scaling is one number for all parameter groups, but they have \[2.0, 4.0\]",
    ),
    "unknown attribute": (
        lambda: poptorch.optim.SGD(Model().parameters(), lr=0.1).variable_attrs.isConstant("x"),
        AssertionError,
        "Unknown attribute x: the optimiser has lr",
    ),
    "object of tensors with __del__": (
        lambda: poptorch.inferenceModel(lambda x: Holder(x))(X),
        poptorch.Error,
        "returns a Holder whose held is a tensor of the trace",
    ),
    "set of tensors": (returning(lambda y: {y}), poptorch.Error, f"{RETURNED} set whose element 0"),
    "proxy of tensors": (
        returning(lambda y: types.MappingProxyType({"a": y})),
        poptorch.Error,
        f"{RETURNED} mappingproxy that holds a tensor of the trace. Return tensors, tuples, l",
    ),
    "values of a dict": (
        returning(lambda y: {"a": y}.values()),
        poptorch.Error,
        f"{RETURNED} dict_values whose element 0",
    ),
    "generator of tensors": (
        returning(lambda y: (y + i for i in range(2))),
        poptorch.Error,
        f"{RETURNED} generator, whose elements are computed lazily",
    ),
    "map of tensors": (
        returning(lambda y: map(torch.neg, [y, y])),
        poptorch.Error,
        rf"{RETURNED} map, .* Return a list of them: list\(",
    ),
    "function of tensors": (
        returning(lambda y: lambda: y + 1),
        poptorch.Error,
        f"{RETURNED} function whose y is a tensor of the trace",
    ),
    "number that changes": (
        call_with_other_number,
        poptorch.Error,
        r"Value mismatch for y: expected 2 but got 3\. Pass a tensor for a number that changes\.",
    ),
    "no rows": (
        lambda: inference(X[:0]),
        poptorch.Error,
        rf"input x\. Pass at least one element, or leave the argument out\. {CALLED}",
    ),
    "no multiple of rows": (
        lambda: poptorch.inferenceModel(Model(), poptorch.Options().deviceIterations(3))(X),
        AssertionError,
        rf"Change the batch size or these options\. {CALLED}",
    ),
    "arguments of compile": (
        lambda: poptorch.inferenceModel(Model()).compile(X, X, X),
        AssertionError,
        rf"Too many arguments provided: .* {CALLED}",
    ),
    "class of model": (
        lambda: poptorch.inferenceModel(Model),
        poptorch.Error,
        rf"but got <class .*>\. Pass the model, an object of its class {LINE}\.$",
    ),
    "class of options": (
        lambda: poptorch.inferenceModel(Model(), poptorch.Options),
        poptorch.Error,
        rf"Pass an object: poptorch\.Options\(\)\. {LINE}",
    ),
    "setter as value": (
        lambda: setattr(poptorch.Options(), "deviceIterations", 4),
        AttributeError,
        r"Invalid attribute deviceIterations\. It is a method: call deviceIterations\(\.\.\.\)",
    ),
    "anchor that nobody named": (
        lambda: poptorch.inferenceModel(Model()).getAnchoredTensor("y"),
        AssertionError,
        r"No tensor with name y found\. Options.anchorTensor named \[\] before",
    ),
    "floats as classes": (
        by_loss(functional.cross_entropy, torch.zeros(4)),
        poptorch.Error,
        rf"shape of the input f32\[4,3\], but got f32\[4\]\. Pass classes as integers.* {LINE}",
    ),
    "a column of floats as classes": (
        by_loss(functional.cross_entropy, torch.zeros(4, 1)),
        poptorch.Error,
        r"shape of the input f32\[4,3\], but got f32\[4,1\]",
    ),
    "floats as classes of nll_loss": (
        by_loss(functional.nll_loss, torch.zeros(4)),
        poptorch.Error,
        rf"classes are whole numbers, but got f32\[4\]\. Pass integers: .* {LINE}",
    ),
    "another shape in hinge_embedding_loss": (
        by_loss(functional.hinge_embedding_loss, torch.zeros(4, 2)),
        poptorch.Error,
        r"does not broadcast with the values': bool\[4,2\] and f32\[4,3\]\.",
    ),
    "two losses": (
        by_loss(lambda y, t: (functional.mse_loss(y, t), functional.l1_loss(y, t))),
        poptorch.Error,
        rf"Wrap final graph loss in poptorch.identity_loss. {LINE} {LINE}",
    ),
    "random state": (set_random_state, poptorch.Error, r"expected \[seed, state\], .* but got 3"),
    "period": (
        lambda: poptorch.Options().outputMode(poptorch.OutputMode.EveryN),
        AssertionError,
        "OutputMode.EveryN needs a positive period but got None",
    ),
}


@pytest.mark.shared
@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake(mistake):
    wrong, error, text = MISTAKES[mistake]
    with pytest.raises(error, match=text):
        wrong()


def test_a_tensor_of_another_device_after_compilation():
    wrapped = poptorch.inferenceModel(Model())
    wrapped(X)
    with pytest.raises(poptorch.Error, match="input 0 is a tensor of device meta"):
        wrapped(X.to("meta"))


def test_the_order_of_keys_is_of_no_matter():
    def model(d, **more):
        return d["a"] - d["b"]["c"] * more["x"] + more["y"]

    wrapped = poptorch.inferenceModel(model)
    expected = X - 2 * X * X + 3 * X
    for d in ({"a": X, "b": {"c": X * 2}}, {"b": {"c": X * 2}, "a": X}):
        torch.testing.assert_close(wrapped(d, x=X, y=X * 3), expected)
        torch.testing.assert_close(wrapped(d, y=X * 3, x=X), expected)


def test_models_made_in_inference_mode():
    with torch.inference_mode():
        model = Model().eval()
        torch.testing.assert_close(poptorch.inferenceModel(model)(X), model(X))


def test_a_wrapped_parameter_prints_like_its_own():
    wrapped = training()
    shown = repr(wrapped.model.fc.weight)
    assert shown.startswith("Parameter containing:\ntensor([[") and "Poptorch" not in shown


def test_a_half_accumulator_takes_the_mean_as_it_goes():
    options = poptorch.Options()
    options.Training.gradientAccumulation(2)
    adam = poptorch.optim.Adam
    wrapped = training(lambda m: adam(m.parameters(), accum_type=torch.float16), options)
    running = poptorch.MeanReductionStrategy.Running
    strategy = "meanAccumulationAndReplicationReductionStrategy"
    assert getattr(wrapped.options.Training, strategy) == running
    assert getattr(options.Training, strategy) == poptorch.MeanReductionStrategy.Post
    assert "accumulate" in wrapped.graph() and "scale=0.5" in wrapped.graph()


@pytest.mark.shared
def test_a_program_without_main_guard(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import poptorch, torch\n"
        "data = torch.utils.data.TensorDataset(torch.ones(4))\n"
        "mode = poptorch.DataLoaderMode.Async\n"
        "list(poptorch.DataLoader(poptorch.Options(), data, mode=mode))\n"
    )
    done = zygote.run(
        [sys.executable, program],
        env={"PYTHONPATH": ":".join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "Put the program into `if __name__ == '__main__':`" in done.stderr
    *_, last = done.stderr.strip().splitlines()
    assert "exit code 1. " in last and "put the program into `if __name__ == '__main__':`" in last
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("cut", [True, False])
def test_a_loss_that_trains_nothing_is_warned_about(cut, capfd):
    def loss(y, target):
        return functional.mse_loss(y.detach() if cut else y, target)

    by_loss(loss)()
    line = r"\[warning\] \[loss\] no parameter is trained: no gradient reaches one from the loss"
    assert bool(re.search(rf"{line} {LINE}", capfd.readouterr().err)) == cut


@pytest.mark.parametrize("operator", ["scatter", "scatter_add"])
def test_an_index_that_is_larger_than_its_source_is_named(operator):
    class Scattered(torch.nn.Module):
        def forward(self, x, i):
            return getattr(x, operator)(0, i.expand(3, 4), x * 2)

    model = poptorch.inferenceModel(Scattered())
    with pytest.raises(poptorch.Error, match=r"index has the shape \[3, 4\].*source \[2, 4\]") as e:
        model(torch.randn(2, 4), torch.zeros(3, 1, dtype=torch.int32))
    assert "test_model_mistakes.py:" in str(e.value)
