"""Parameters that an optimiser holds and the model does not are named; uses of them are refused."""

import poptorch
import pytest
import torch

X = torch.ones(2, 3)
HERE = r"test_foreign_parameters\.py:\d+"


class Model(torch.nn.Module):
    """A head, and layers that forward uses though torch does not know them."""

    def __init__(self, layers=None, use=None):
        super().__init__()
        self.head = torch.nn.Linear(3, 3)
        self.layers = layers
        self.use = use

    def forward(self, x):
        y = self.head(x)
        if self.use is not None:
            y = self.use(self, y)
        return poptorch.identity_loss(y.square(), "mean")


def sgd(*parameters):
    return torch.optim.SGD([p for some in parameters for p in some], lr=0.1)


def linear():
    return torch.nn.Linear(3, 3)


beside = linear()


def in_closure():
    inner = linear()
    return Model(use=lambda _, y: inner(y)), inner


def in_list():
    layers = [linear(), linear()]
    return Model(layers, lambda m, y: m.layers[1](y)), layers[1]


def in_dict():
    layers = {"deep": [linear()]}
    return Model(layers, lambda m, y: m.layers["deep"][0](y)), layers["deep"][0]


def in_tensors():
    weight = torch.nn.Parameter(torch.ones(3, 3))
    holder = torch.nn.ParameterList([weight])
    return Model([weight], lambda m, y: torch.matmul(y, m.layers[0])), holder


USED = {
    "layers[1].weight": in_list,
    "layers['deep'][0].weight": in_dict,
    "layers[0]": in_tensors,
    "a parameter (group 0, number 2, shape [3, 3])": in_closure,
    "global": lambda: (Model(use=lambda _, y: beside(y)), beside),
    "in several": lambda: (Model(use=lambda _, y: torch.cat([y, beside.weight])), beside),
    "method": lambda: (Model(use=lambda _, y: beside.weight.mul(2) + y[:1]), beside),
    "lstm": lambda: (lambda n: (Model(use=lambda _, y: n(y)[0]), n))(torch.nn.LSTM(3, 3)),
}


@pytest.mark.parametrize("name", USED)
def test_used_parameters_are_refused_with_their_names(name):
    model, layer = USED[name]()
    optimizer = sgd(model.parameters(), layer.parameters())
    wrapped = poptorch.trainingModel(model, optimizer=optimizer)
    with pytest.raises(poptorch.Error, match=HERE) as error:
        wrapped(X)
    said = name if name in ("layers[0]",) or "[" in name else "a parameter (group 0"
    assert f"[optimiser] forward uses {said}" in error.value.message
    assert all(type(p) is torch.nn.Parameter for p in layer.parameters())


def test_registered_layers_are_trained_as_in_torch():
    torch.manual_seed(0)
    model = Model(torch.nn.ModuleList([linear()]), lambda m, y: m.layers[0](y))
    eager = Model(torch.nn.ModuleList([linear()]), lambda m, y: m.layers[0](y))
    eager.load_state_dict(model.state_dict())
    wrapped = poptorch.trainingModel(model, optimizer=sgd(model.parameters()))
    optimizer = sgd(eager.parameters())
    for _ in range(2):
        wrapped(X)
        optimizer.zero_grad()
        eager(X).backward()
        optimizer.step()
    torch.testing.assert_close(model.state_dict(), eager.state_dict())


def without_grad(y):
    with torch.no_grad():
        return y.detach() * beside(y)


WITHOUT_GRADIENT = {
    "no_grad": lambda y: y * without_grad(y),
    "detach": lambda y: y * beside.weight.detach().sum(),
    "shape": lambda y: y * beside.weight.shape[0],
}


@pytest.mark.parametrize("name", WITHOUT_GRADIENT)
def test_uses_without_gradient_are_taken(name, caplog):
    use = WITHOUT_GRADIENT[name]
    model, eager = (Model(use=lambda _, y: use(y)) for _ in range(2))
    eager.load_state_dict(model.state_dict())
    wrapped = poptorch.trainingModel(model, optimizer=sgd(model.parameters(), beside.parameters()))
    optimizer = sgd(eager.parameters())
    eager(X).backward()
    optimizer.step()
    wrapped(X)
    torch.testing.assert_close(model.state_dict(), eager.state_dict())


def test_a_rebuilt_head_is_warned_about_by_name(caplog):
    model = Model(use=lambda m, y: m.tail(y))
    model.tail = linear()
    optimizer = torch.optim.SGD(model.named_parameters(), lr=0.1)
    model.head = linear()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    wrapped = poptorch.trainingModel(model, optimizer=optimizer)
    for _ in range(2):
        wrapped(X)
        wrapped.setOptimizer(optimizer)
    text = (
        "the SGD holds head.weight (group 0, number 0, shape [3, 3]), head.bias (group 0, number "
        "1, shape [3]), which the model does not have: no step changes them, and does not hold "
        "head.weight, head.bias of the model"
    )
    assert caplog.text.count(text) == 1
    same = {name: torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items()}
    assert same["head.weight"] and not same["tail.weight"]


@pytest.mark.parametrize("change", ["group", "setOptimizer"])
def test_other_parameters_are_warned_about(caplog, change):
    model = Model()
    optimizer = sgd(model.parameters())
    wrapped = poptorch.trainingModel(model, optimizer=optimizer)
    if change == "setOptimizer":
        wrapped(X)
        assert "does not have" not in caplog.text
        wrapped.setOptimizer(sgd(model.parameters(), [linear().bias]))
        place = "group 0, number 2"
    else:
        optimizer.add_param_group({"params": [linear().bias]})
        wrapped(X)
        place = "group 1, number 0"
    assert f"holds a parameter ({place}, shape [3]), which" in caplog.text
    assert "no step changes it. Create" in caplog.text


def test_an_optimiser_of_another_model_names_both_sides():
    model = Model([linear()])
    wrapped = poptorch.trainingModel(model, optimizer=sgd(model.layers[0].parameters()))
    with pytest.raises(poptorch.Error, match="none of the 2 parameters of the SGD") as error:
        wrapped(X)
    assert "holds layers[0].weight (group 0, number 0, shape [3, 3])" in error.value.message
    assert "the model has head.weight, head.bias." in error.value.message


def test_one_optimiser_for_two_models(caplog):
    first, second = Model(), Model()
    optimizer = sgd(first.parameters(), second.parameters())
    wrapped = poptorch.trainingModel(first, optimizer=optimizer)
    held = second.head.weight.clone()
    wrapped(X)
    assert "no step changes them" in caplog.text and torch.equal(second.head.weight, held)


MODES = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "set_grad_enabled": lambda: torch.set_grad_enabled(False),
}


@pytest.mark.parametrize("compiles", ["__call__", "compile"])
@pytest.mark.parametrize("mode", MODES)
def test_a_first_training_call_without_gradients_is_refused(mode, compiles):
    model = Model()
    wrapped = poptorch.trainingModel(model)
    before = model.head.weight.clone()
    said = "inference_mode" if mode == "inference_mode" else "no_grad"
    match = rf"\[loss\] Model for training is compiled under torch\.{said}\(\).*{HERE}"
    with MODES[mode](), pytest.raises(poptorch.Error, match=match):
        getattr(wrapped, compiles)(X)
    wrapped(X)
    assert not torch.equal(model.head.weight, before)


def test_inference_without_gradients_is_the_usual_case():
    model = Model().eval()
    with torch.no_grad():
        torch.testing.assert_close(poptorch.inferenceModel(model)(X), model(X))
