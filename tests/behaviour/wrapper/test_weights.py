"""Tests where weights are, when they move, and the contents of copies and pickles of wrapped
objects.
"""

import copy
import io
import pickle
import re

import poptorch
import pytest
import torch


class Model(torch.nn.Module):
    """A linear layer with batch norm: parameters and buffers that training changes."""

    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 3)
        self.norm = torch.nn.BatchNorm1d(3)

    def forward(self, x, target=None):
        y = self.norm(self.fc(x))
        if self.training:
            return y, torch.nn.functional.mse_loss(y, target)
        return y


class Case:
    """A model with a training and an inference wrapper, and eager torch's result of a step."""

    def __init__(self, micro_batches):
        torch.manual_seed(1)
        self.micro_batches = micro_batches
        self.x, self.target = torch.randn(6 * micro_batches, 4), torch.randn(6 * micro_batches, 3)
        self.model = Model().eval()
        self.inference = poptorch.inferenceModel(self.model)
        self.model.train()
        self.eager = copy.deepcopy(self.model)
        self.optimiser = torch.optim.SGD(self.eager.parameters(), lr=0.1)
        self.training = self.wrapped()

    def wrapped(self):
        options = poptorch.Options()
        options.Training.gradientAccumulation(self.micro_batches)
        optimiser = torch.optim.SGD(self.model.parameters(), lr=0.1)
        return poptorch.trainingModel(self.model, options, optimiser)

    def step(self):
        self.optimiser.zero_grad()
        for x, target in zip(self.x.split(6), self.target.split(6), strict=True):
            loss = self.eager(x, target)[1]
            (loss / self.micro_batches).backward()
        self.optimiser.step()
        ours = self.training(self.x, self.target)
        torch.testing.assert_close(ours[1], loss.detach())

    def check(self, state):
        expected = self.eager.state_dict()
        assert list(state) == list(expected)
        for name, tensor in state.items():
            torch.testing.assert_close(tensor, expected[name], rtol=1e-5, atol=1e-6)


@pytest.fixture
def case(micro_batches):
    return Case(micro_batches)


def test_reading_after_training_sees_every_weight_and_buffer(case):
    for _ in range(3):
        case.step()
    case.check(case.model.state_dict())
    assert case.model.norm.num_batches_tracked == 3 * case.micro_batches


@pytest.mark.parametrize(
    "read",
    [
        lambda w: w.clone(),
        lambda w: w.detach(),
        lambda w: w.data,
        lambda w: w + 0,
        lambda w: torch.tensor(w.tolist()),
        lambda w: torch.from_numpy(w.detach().numpy()),
        lambda w: torch.stack(list(w)),
        lambda w: copy.copy(w),
        lambda w: copy.deepcopy(w),
        lambda w: pickle.loads(pickle.dumps(w)),
    ],
)
def test_every_way_of_reading_a_weight_fetches_it(case, read):
    held = case.model.fc.weight
    case.step()
    found = read(held)
    torch.testing.assert_close(found.detach(), case.eager.fc.weight.detach())
    assert type(found) in (torch.Tensor, torch.nn.Parameter)


def test_equal_and_repr_fetch(case):
    case.step()
    assert torch.equal(case.model.fc.weight, case.model.fc.weight.clone())
    case.step()
    assert repr(case.model.fc.bias).startswith("Parameter containing")


def test_saved_and_copied_models_are_of_their_own_classes(case):
    case.step()
    buffer = io.BytesIO()
    torch.save(case.model.state_dict(), buffer)
    buffer.seek(0)
    case.check(torch.load(buffer))
    for made in (copy.deepcopy(case.model), pickle.loads(pickle.dumps(case.model))):
        assert type(made) is Model
        assert type(made.fc.weight) is torch.nn.Parameter
        case.check(made.state_dict())
    assert type(copy.copy(case.model)) is Model


def test_inference_follows_training_without_explicit_copies(case):
    case.inference(case.x)
    for _ in range(2):
        case.step()
        case.eager.eval()
        expected = case.eager(case.x).detach()
        case.eager.train()
        torch.testing.assert_close(case.inference(case.x), expected, rtol=1e-4, atol=1e-5)


def test_models_that_share_parameters_follow_each_other():
    inner = torch.nn.Linear(3, 2)
    inference = poptorch.inferenceModel(inner)

    class WithLoss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return poptorch.identity_loss(self.inner(x), reduction="sum")

    x = torch.ones(1, 3)
    before = inference(x)
    training = poptorch.trainingModel(WithLoss())
    training(x)
    after = inference(x)
    assert (after < before).all()
    torch.testing.assert_close(inner(x).detach(), after)


def test_a_change_on_the_cpu_needs_an_explicit_copy(case):
    before = case.inference(case.x)
    with torch.no_grad():
        case.model.fc.weight.zero_()
    torch.testing.assert_close(case.inference(case.x), before)
    case.inference.copyWeightsToDevice()
    assert (case.inference(case.x) - before).abs().max() > 1e-3
    torch.testing.assert_close(case.inference(case.x)[0], case.inference(case.x)[1])


def test_load_state_dict_of_the_wrapper_reaches_the_device(case):
    case.step()
    saved = case.model.state_dict()
    saved = {name: tensor.clone() for name, tensor in saved.items()}
    case.step()
    case.eager.load_state_dict(saved)
    report = case.training.load_state_dict(saved)
    assert not report.missing_keys
    case.step()
    case.check(case.model.state_dict())


def test_destroy_unwraps_and_keeps_the_weights(case):
    case.step()
    assert type(case.model).__name__ == "PoptorchModel"
    case.model.destroy()
    assert type(case.model) is Model
    assert type(case.model.fc.weight) is torch.nn.Parameter
    assert type(case.model.norm.running_mean) is torch.Tensor
    case.check(case.model.state_dict())
    assert not case.training.isCompiled()
    case.training.destroy()  # nothing left to do


def test_a_destroyed_model_can_be_wrapped_again_and_goes_on(case):
    case.step()
    case.model.destroy()
    case.training = case.wrapped()
    case.step()
    case.check(case.model.state_dict())


def test_wrapping_twice_is_refused(case):
    text = (
        "Model has already been wrapped in 'poptorch.trainingModel'. Call model.destroy() on the "
        "model to unwrap before wrapping again."
    )
    for again in (case.model, case.training):
        with pytest.raises(RuntimeError, match=re.escape(text)):
            poptorch.trainingModel(again)


def test_the_wrapper_keeps_the_training_flag_of_its_wrapping(case):
    case.model.train()
    assert case.inference(case.x).shape == case.target.shape  # still in eval mode: one result
    assert case.training.model.fc.weight is case.model.fc.weight
    assert case.training.fc is case.model.fc


def test_copies_need_a_compiled_model(case):
    with pytest.raises(poptorch.Error, match="Model has not been compiled or has been destroyed."):
        case.training.copyWeightsToHost()
    with pytest.raises(poptorch.Error, match="Model has not been compiled or has been destroyed."):
        case.training.copyWeightsToDevice()


def test_inference_changes_buffers_on_request_only():
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("i", torch.zeros(1))

        def forward(self):
            self.i += 1
            return self.i

    model = Counter()
    wrapped = poptorch.inferenceModel(model)
    assert [wrapped().item() for _ in range(3)] == [1, 2, 3]
    assert model.i == 0
    wrapped.copyWeightsToHost()
    assert model.i == 3


def test_named_buffers_are_uploaded_on_request():
    class Scale(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", torch.ones(1))

        def forward(self, x):
            return x * self.scale

    model = Scale()
    options = poptorch.Options().updatableNamedBuffers(["scale"])
    wrapped = poptorch.inferenceModel(model, options)
    x = torch.ones(2)
    assert wrapped(x).tolist() == [1, 1]
    model.scale.fill_(3)
    wrapped.copyNamedBuffersToDevice()
    assert wrapped(x).tolist() == [3, 3]


def test_an_upload_counts_whatever_the_device_has_learned():
    model = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.ones_(model.weight)

    class WithLoss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            return poptorch.identity_loss(self.model(x), "sum")

    wrapped = poptorch.trainingModel(
        WithLoss(), optimizer=torch.optim.SGD(model.parameters(), lr=1.0)
    )
    wrapped(torch.ones(1, 2))
    wrapped.copyWeightsToDevice()
    assert model.weight.tolist() == [[1.0, 1.0]]
    assert wrapped(torch.ones(1, 2)).item() == 2.0
