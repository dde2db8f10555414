"""Tests messages of single calls: ops, deprecated options, repeated calls, unusual inputs."""

import poptorch
import pytest
import torch

X = torch.randn(4, 8)
START = torch.tensor([0])
OVERLAP = poptorch.OverlapMode.OverlapDeviceIterationLoop


@pytest.fixture
def log(caplog):
    return caplog


@pytest.mark.parametrize(
    "wrong, error, text",
    [
        (
            lambda: poptorch.identity_loss(X, "max"),
            AssertionError,
            "Unsupported reduction type!",
        ),
        (
            lambda: poptorch.dynamic_slice(X, 1, START, 0, 1),
            poptorch.Error,
            "The start and end of a slice must be different.",
        ),
        (
            lambda: poptorch.dynamic_slice(X, 1, START, -1, 1),
            poptorch.Error,
            "Taking a slice of a tensor with the end less than the start is not supported.",
        ),
        (
            lambda: poptorch.dynamic_slice(X, 1, START, 7, 1),
            poptorch.Error,
            r"The size of the slice \(7\) must be a factor of the slicing dimension \(8\).",
        ),
        (
            lambda: poptorch.dynamic_update(X, X.int(), 1, START, 0),
            poptorch.Error,
            "The start and end of a slice must be different.",
        ),
        (
            lambda: poptorch.dynamic_update(X, X[:, :7], 1, START, 9),
            poptorch.Error,
            r"the slice of 9 is longer than the dimension \(8\)",
        ),
        (
            lambda: poptorch.dynamic_slice(X, "x", START, 2, 1),
            poptorch.Error,
            "Dimension must be an integer.",
        ),
        (
            lambda: poptorch.dynamic_slice(X, 1, START, 2.0, 1),
            poptorch.Error,
            "Size must be an integer.",
        ),
        (
            lambda: poptorch.dynamic_slice(X, 1, START, 2, None),
            poptorch.Error,
            "Step must be an integer.",
        ),
        (
            lambda: poptorch.dynamic_slice(X, 1, 2, 2, 1),
            poptorch.Error,
            "Start must be a torch.tensor of one integer.",
        ),
        (
            lambda: poptorch.dynamic_update(X, X[:, :2], 1, torch.tensor(2.0), 2),
            poptorch.Error,
            "Start must be a torch.tensor of one integer.",
        ),
        (lambda: poptorch.nop(1), poptorch.Error, "nop must take a torch.tensor argument."),
        (
            lambda: poptorch.set_available_memory([X], 0.5),
            poptorch.Error,
            "You may only set available memory for torch.tensor values.",
        ),
        (
            lambda: poptorch.set_overlap_for_input([X, 1], OVERLAP),
            poptorch.Error,
            "You may only set overlap for torch.tensor inputs.",
        ),
        (
            lambda: poptorch.set_overlap_for_output({"x": None}, OVERLAP),
            poptorch.Error,
            "You may only set overlap for torch.tensor outputs.",
        ),
        (
            lambda: poptorch.dynamic_update(X, X[0], 0, START, 1),
            poptorch.Error,
            r"input and src tensors must have same dimensionality. \(2\) vs \(1\)",
        ),
        (
            lambda: poptorch.dynamic_update(X, X[:1].half(), 0, START, 1),
            poptorch.Error,
            r"input and src tensor must have same dtype. \(torch.float32 vs torch.float16\)",
        ),
        (lambda: poptorch.recomputationCheckpoint(X, 3), ValueError, "All inputs must be tensors"),
        (
            lambda: poptorch.set_available_memory(X, 1.5),
            poptorch.Error,
            "from 0 to 1 but is 1.5",
        ),
        (
            lambda: poptorch.serializedMatMul(
                X, X.t(), poptorch.MatMulSerializationMode.ReducingDim, 3
            ),
            poptorch.Error,
            "factor 3 does not divide the dimension of ReducingDim, 8",
        ),
        (
            lambda: poptorch.serializedMatMul(
                X[0], X.t(), poptorch.MatMulSerializationMode.ReducingDim, 2
            ),
            poptorch.Error,
            r"lhs must have two dimensions or more but is \[8\]",
        ),
        (
            lambda: poptorch.serializedMatMul(X, X.t(), "reducing_dim", 2),
            AssertionError,
            "Expected a poptorch.MatMulSerializationMode but got 'reducing_dim'",
        ),
    ],
)
def test_ops(wrong, error, text):
    with pytest.raises(error, match=text):
        wrong()


def test_deprecated_options_say_so(log):
    options = poptorch.Options()
    options.Jit.traceModel(False)
    options.Precision.halfFloatCasting(None)
    options.Precision.runningStatisticsAlwaysFloat(True)
    for name in ("traceModel", "halfFloatCasting", "runningStatisticsAlwaysFloat"):
        assert f"{name} is deprecated" in log.text


def test_a_second_compile_is_ignored(log):
    wrapped = poptorch.inferenceModel(torch.relu)
    wrapped.compile(X)
    wrapped.compile(X)
    assert log.text.count("Call to compile() ignored: the executable is already compiled") == 1


def test_factories_without_a_device_are_moved(capfd):
    def model(x):
        return x + torch.ones(8) + torch.ones(8) + torch.arange(8)

    assert torch.equal(poptorch.inferenceModel(model)(X), model(X))
    written = capfd.readouterr().err
    assert written.count("No device set in torch.ones(): forcing to IPU") == 1
    assert written.count("No device set in torch.arange(): forcing to IPU") == 1


class Penalised(torch.nn.Module):
    """Has a loss and a penalty, marked as the loss or not."""

    def __init__(self, marks):
        super().__init__()
        self.fc = torch.nn.Linear(8, 8)
        self.marks = marks

    def forward(self, x):
        loss = torch.nn.functional.mse_loss(self.fc(x), x) + self.fc.weight.square().sum()
        return poptorch.identity_loss(loss, reduction="none") if self.marks else loss


@pytest.mark.parametrize("marks", [False, True])
def test_arithmetic_after_the_loss_has_no_gradient(capfd, marks):
    poptorch.trainingModel(Penalised(marks)).compile(X)
    written = capfd.readouterr().err
    assert ("the result of 'add' (" in written and ") has none" in written) is not marks


def test_inputs_that_are_not_as_they_should_be(log):
    wrapped = poptorch.inferenceModel(lambda d: d["x"] * 2)
    wrapped({"x": X.clone().requires_grad_()})
    wrapped({"x": X.clone().requires_grad_()})
    assert log.text.count("Dicts as inputs only have partial support, ") == 1
    detached = (
        "Input tensor has requires_grad=True set. This tensor will be detached because backward "
        "pass via inputs is not supported."
    )
    assert log.text.count(detached) == 1
    strided = poptorch.inferenceModel(lambda x: x * 2)
    for _ in range(2):
        strided(X.t())
    text = "At least one input tensor is not contiguous: non-contiguous tensors will be converted."
    assert log.text.count(text) == 1


def test_inference_has_no_optimiser():
    with pytest.raises(poptorch.Error, match="an inferenceModel has no optimiser"):
        poptorch.inferenceModel(torch.relu).setOptimizer(None)


class Endless(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(torch.arange(8.0))


def test_the_length_of_an_endless_data_set():
    with pytest.raises(TypeError, match="object of type 'Endless' has no len|'Endless' has no len"):
        len(poptorch.DataLoader(poptorch.Options(), Endless()))


def test_members_that_forward_changes():
    class Changing(torch.nn.Module):
        def __init__(self, change):
            super().__init__()
            self.w = torch.nn.Parameter(torch.zeros(8))
            self.change = change

        def forward(self, x):
            self.change(self)
            return x + 1

    def reassign(module):
        module.w = torch.nn.Parameter(torch.ones(8))

    def remove(module):
        del module.w

    with pytest.raises(poptorch.Error, match="Parameter w is reassigned within the model when cal"):
        poptorch.inferenceModel(Changing(reassign))(X)
    with pytest.raises(poptorch.Error, match="Parameter w is removed from the model when calling"):
        poptorch.inferenceModel(Changing(remove))(X)
