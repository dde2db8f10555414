"""`wrapper.model` is the copy that the wrapper traces: changes of it reach no other model."""

import copy
import pickle

import poptorch
import pytest
import torch

X = torch.ones(4, 8)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(8, 8)
        self.drop = torch.nn.Dropout(0.5)
        self.parts = torch.nn.ModuleList([torch.nn.Dropout(0.5)])
        self.factor = 1.0
        self.seen = None

    def forward(self, x):
        self.seen_class = type(self).__name__
        y = self.parts[0](self.drop(self.fc(x))) * self.factor
        if not self.training:
            return y
        return y, poptorch.identity_loss(y.square(), "mean")


def result(value):
    return value[0] if isinstance(value, tuple) else value


def in_eval(model):
    return copy.deepcopy(model).eval()(X).detach()


def test_an_inference_model_of_a_training_model():
    model = Model()
    training = poptorch.trainingModel(model)
    inference, other = poptorch.inferenceModel(training), poptorch.inferenceModel(training)
    assert inference.model.eval() is inference.model
    torch.testing.assert_close(inference(X), in_eval(model))
    assert all(module.training for module in model.modules())
    assert all(module.training for module in training.model.modules())
    assert isinstance(other(X), tuple) and (other(X)[0] == 0).any()
    y, _ = training(X)
    assert (y == 0).any()
    torch.testing.assert_close(inference(X), in_eval(model))  # with the new weights


CHANGES = {
    "eval": lambda m: m.eval(),
    "training": lambda m: (setattr(m.drop, "training", False), m.parts.eval()),
    "attribute": lambda m: (setattr(m, "factor", 3.0), setattr(m.drop, "p", 0.0), m.parts.eval()),
    "module": lambda m: (setattr(m, "drop", torch.nn.Identity()), m.parts.eval()),
    "nested module": lambda m: (m.drop.eval(), m.parts.__setitem__(0, torch.nn.ReLU())),
}


@pytest.mark.parametrize("wrap", [poptorch.trainingModel, poptorch.inferenceModel])
@pytest.mark.parametrize("name", CHANGES)
def test_changes_before_the_first_call_take_effect_here_alone(name, wrap, caplog):
    model = Model()
    wrapped, other = wrap(model), poptorch.inferenceModel(model)
    changed = copy.deepcopy(model)
    CHANGES[name](wrapped.model)
    CHANGES[name](changed)
    if name == "eval" and wrap is poptorch.trainingModel:  # the model has no loss then
        wrapped.model.training = changed.training = True
    expected = result(changed(X)).detach()
    torch.testing.assert_close(result(wrapped(X)), expected)
    assert "replaced" not in caplog.text
    assert all(module.training for module in model.modules()) and model.factor == 1.0
    assert isinstance(model.drop, torch.nn.Dropout) and model.drop.p == 0.5
    assert isinstance(model.parts[0], torch.nn.Dropout)
    assert (other(X)[0] == 0).any()


def test_changes_of_the_users_model_have_no_effect_here():
    model = Model().eval()
    wrapped = poptorch.inferenceModel(model)
    model.train()
    model.factor = 3.0
    expected = in_eval(model) / 3
    torch.testing.assert_close(wrapped(X), expected)
    assert not wrapped.model.training and wrapped.model.factor == 1.0


def test_changes_after_destroy_take_effect(caplog):
    model = Model()
    wrapped = poptorch.inferenceModel(model)
    wrapped(X)
    wrapped.model.drop = torch.nn.Identity()
    assert caplog.text.count("drop of a Model was replaced after the model was wrapped") == 1
    wrapped.destroy()
    wrapped.model.eval().parts[0] = torch.nn.Identity()
    torch.testing.assert_close(wrapped(X), in_eval(model))
    assert "0 of a ModuleList" not in caplog.text


def test_a_copy_for_training_is_of_a_wrapped_class_outside_of_a_trace():
    model = Model()
    wrapped = poptorch.trainingModel(model)
    assert type(wrapped.model).__name__ == type(model).__name__ == "PoptorchModel"
    wrapped(X)
    assert wrapped.model.seen_class == "Model"
    assert wrapped.model.copyWeightsToHostIfNeeded()
    assert wrapped.model.fc.weight is model.fc.weight
    assert "Model for training" in repr(wrapped) and "PoptorchModel for" not in repr(wrapped)
    with pytest.raises(RuntimeError, match="already been wrapped"):
        poptorch.trainingModel(wrapped.model)
    wrapped.model.destroy()
    assert type(wrapped.model) is type(model) is Model


def test_reading_a_weight_of_the_copy_fetches_it():
    model = Model()
    wrapped = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    before = wrapped.model.state_dict()["fc.weight"].clone()
    wrapped(X)
    assert not torch.equal(wrapped.model.state_dict()["fc.weight"], before)
    assert torch.equal(wrapped.model.fc.weight, model.fc.weight)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda w: pickle.loads(pickle.dumps(w))])
def test_copies_of_a_wrapper_keep_its_changes(copied):
    wrapped = poptorch.inferenceModel(Model())
    wrapped.model.eval()
    again = copied(wrapped)
    assert not again.model.training and again.model is not wrapped.model
    assert torch.equal(again(X), wrapped(X))


def test_a_file_has_the_model_that_was_traced(tmp_path):
    wrapped = poptorch.inferenceModel(Model())
    wrapped.model.eval()
    wrapped.compileAndExport(tmp_path / "model.poptorch", X)
    loaded = poptorch.load(tmp_path / "model.poptorch")
    assert not loaded.model.training
    expected = loaded(X)
    loaded.destroy()
    assert torch.equal(loaded(X), expected)
    torch.testing.assert_close(expected, loaded.model(X).detach())


def test_functions_are_their_own_model():
    assert poptorch.inferenceModel(torch.relu).model is torch.relu
