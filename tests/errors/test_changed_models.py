"""Tests the warnings of a wrapper when its compiled model changes, and refusals by name."""

import contextlib
import json

import poptorch
import pytest
import torch

X = torch.randn(4, 3)
LINE = r"test_changed_models\.py:\d+"
HERE = r"test_changed_models\.py:\d+"


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)
        self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3)])
        self.register_buffer("scale", torch.ones(3))

    def forward(self, x):
        y = self.layers[0](self.fc(x)) * self.scale
        return poptorch.identity_loss(y.square(), reduction="mean")


@pytest.fixture
def log(caplog):
    return caplog


def freeze_by_method(model):
    model.fc.requires_grad_(False)


def freeze_by_attribute(model):
    model.fc.weight.requires_grad = False
    model.fc.bias.requires_grad = False


@pytest.mark.parametrize("freeze", [freeze_by_method, freeze_by_attribute])
def test_freezing_after_compilation_is_warned_about_once(log, freeze):
    wrapped = poptorch.trainingModel(Model())
    wrapped(X)
    freeze(wrapped.model)
    for _ in range(2):
        wrapped(X)
    assert log.text.count("fc.weight, fc.bias should get no gradients from here on") == 1
    assert "Call destroy() on the wrapper" in log.text

    wrapped.destroy()
    held = wrapped.model.fc.weight.clone()
    moved = wrapped.model.layers[0].weight.clone()
    wrapped(X)
    assert torch.equal(wrapped.model.fc.weight, held)
    assert not torch.equal(wrapped.model.layers[0].weight, moved)


def test_releasing_after_compilation_is_warned_about(log):
    model = Model()
    model.fc.requires_grad_(False)
    wrapped = poptorch.trainingModel(model)
    wrapped(X)
    model.fc.weight.requires_grad_(True)
    wrapped(X)
    assert log.text.count("fc.weight should get gradients from here on") == 1


def test_flags_that_end_as_they_were_are_no_change(log):
    wrapped = poptorch.trainingModel(Model())
    wrapped(X)
    wrapped.model.requires_grad_(False)
    wrapped.model.requires_grad_(True)
    wrapped(X)
    assert "gradients from here on" not in log.text


REPLACED = {
    "fc of a Model": lambda m: setattr(m, "fc", torch.nn.Linear(3, 3)),
    "0 of a ModuleList": lambda m: m.layers.__setitem__(0, torch.nn.Linear(3, 3)),
    "weight of a Linear": lambda m: setattr(m.fc, "weight", torch.nn.Parameter(torch.ones(3, 3))),
    "scale of a Model": lambda m: setattr(m, "scale", torch.zeros(3)),
}


@pytest.mark.parametrize("wrap", [poptorch.trainingModel, poptorch.inferenceModel])
@pytest.mark.parametrize("what", REPLACED)
def test_replacing_a_member_is_warned_about_once(log, wrap, what):
    wrapped = wrap(Model())
    wrapped(X)
    for _ in range(2):
        REPLACED[what](wrapped.model)
    assert log.text.count(f"{what} was replaced after the model was wrapped") == 1


DELETED = {
    "fc of a Model": lambda m: delattr(m, "fc"),
    "0 of a ModuleList": lambda m: m.layers.__delitem__(0),
    "bias of a Linear": lambda m: delattr(m.fc, "bias"),
    "scale of a Model": lambda m: delattr(m, "scale"),
}


@pytest.mark.parametrize("wrap", [poptorch.trainingModel, poptorch.inferenceModel])
@pytest.mark.parametrize("what", DELETED)
def test_deleting_a_member_is_warned_about(log, wrap, what):
    model = Model()
    wrapped = wrap(model)
    expected = wrapped(X).shape
    DELETED[what](model)
    assert log.text.count(f"{what} was deleted after the model was wrapped") == 1
    assert wrapped(X).shape == expected  # with the previous member


def test_deleting_anything_else_is_no_change(log):
    model = Model()
    model.note, model.spare = 1, None
    poptorch.inferenceModel(model)(X)
    del model.note, model.spare
    other = Model()
    del other.fc
    with pytest.raises(AttributeError):
        del model.nothing
    assert "deleted" not in log.text


def test_a_new_wrapper_sees_the_new_member(log):
    model = Model()
    wrapped = poptorch.inferenceModel(model)
    wrapped(X)
    model.fc = torch.nn.Linear(3, 3)
    again = poptorch.inferenceModel(model)
    torch.testing.assert_close(again(X), model(X).detach())


def test_what_stays_the_same_object_is_no_change(log):
    model = Model()
    poptorch.inferenceModel(model)
    model.fc = poptorch.BeginBlock(model.fc)
    model.fc.weight = model.fc.weight
    Model().fc = torch.nn.Linear(3, 3)  # of another model
    assert "replaced" not in log.text


INTEGERS = torch.ones(4, 3, dtype=torch.int32)
PRODUCTS = {
    "linear": lambda x: torch.nn.functional.linear(x, torch.ones(2, 3)),
    "matmul": lambda x: torch.matmul(x, torch.ones(3, 2)),
    "addmm": lambda x: torch.addmm(torch.ones(2), x, torch.ones(3, 2)),
    "conv1d": lambda x: torch.nn.functional.conv1d(x[None], torch.ones(2, 4, 1)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_integers_and_floats_are_refused_as_in_torch(name):
    function = PRODUCTS[name]
    with pytest.raises(RuntimeError):
        function(INTEGERS)
    with pytest.raises(
        poptorch.Error, match=f"same kind of dtype but got i32 and f32.*float.*{HERE}"
    ):
        poptorch.inferenceModel(function)(INTEGERS)


def test_products_of_one_kind_are_taken():
    square = INTEGERS.t() @ INTEGERS
    ours = poptorch.inferenceModel(lambda x: (x.t() @ x, x.half() @ torch.ones(3, 2)))(INTEGERS)
    assert torch.equal(ours[0], square) and torch.equal(ours[1], torch.full((4, 2), 3.0))


def test_loops_repeat():
    def step(x, y):
        x.mul_(2)  # a copy: the input stays
        return x + 1, x * y

    def model(x, y):
        results = poptorch.for_loop(3, step, [x, y])
        return results, x

    expected = model(X.clone(), X.clone())
    ours = poptorch.inferenceModel(model)(X, X)
    assert isinstance(ours[0], list)
    for a, b in zip([*ours[0], ours[1]], [*expected[0], X], strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("condition", [True, False])
def test_branches_select(condition):
    def model(c, x):
        return poptorch.cond(c, lambda x: x + 1, [x], lambda x: (x * 2,), [x])

    condition = torch.tensor([condition])
    expected = model(condition, X)
    ours = poptorch.inferenceModel(model)(condition, X)
    assert isinstance(ours, list) and torch.equal(ours[0], expected[0])


CONTROL = {
    "for_loop": lambda inputs: poptorch.for_loop(2, lambda x: x, inputs),
    "cond": lambda inputs: poptorch.cond(X.sum() > 0, torch.relu, inputs, torch.relu, [X]),
    "cond, else": lambda inputs: poptorch.cond(X.sum() > 0, torch.relu, [X], torch.relu, inputs),
}


@pytest.mark.parametrize("name", CONTROL)
def test_inputs_of_loops_and_branches(name):
    with pytest.raises(ValueError, match=r"\(Object is not list\)"):
        CONTROL[name](X)
    text = r"\(Object contained in list at index 1 is not torch.tensor\)"
    with pytest.raises(ValueError, match=text):
        CONTROL[name]([X, 3 if name == "for_loop" else "3"])  # branches accept numbers


def test_bodies_that_give_something_else():
    with pytest.raises(poptorch.Error, match="the body must return tensors like its inputs"):
        poptorch.for_loop(2, lambda x: x[:1], [X])
    two = poptorch.inferenceModel(
        lambda x: poptorch.cond(x.sum() > 0, lambda x: x, [x], lambda x: x[:1], [x])
    )
    with pytest.raises(poptorch.Error, match="both bodies must return the same shapes and dtypes"):
        two(X)


@pytest.mark.parametrize("function", ["for_loop", "cond"])
def test_loops_and_branches_do_not_train(function):
    class Training(Model):
        def forward(self, x):
            loss = super().forward(x)
            if function == "cond":
                poptorch.cond(loss > 0, torch.relu, [x], torch.relu, [x])
            else:
                poptorch.for_loop(2, torch.relu, [x])
            return loss

    text = rf"poptorch\.{function}\(\) is only supported in inference\..*{LINE}"
    with pytest.raises(poptorch.Error, match=text):
        poptorch.trainingModel(Training())(X)


def test_name_scopes_are_parts_of_names():
    class Scoped(Model):
        def forward(self, x):
            with poptorch.NameScope("outer"):
                return torch.tanh(x)

    wrapped = poptorch.inferenceModel(Scoped())
    wrapped(X)
    assert "outer" in wrapped.graph("traced")
    with pytest.raises(AssertionError, match="expected a string but got 3"):
        poptorch.NameScope(3)


def test_attributes_of_ops_change_nothing():
    def scoped(x):
        with poptorch.Attribute(__outline={"layer": "embedding"}):
            x = torch.tanh(x)
            with poptorch.Attribute(__outline={"layer": "inner"}, other={}):
                return torch.relu(x)

    wrapped = poptorch.inferenceModel(scoped)
    assert torch.equal(wrapped(X), poptorch.inferenceModel(lambda x: torch.relu(torch.tanh(x)))(X))
    torch.testing.assert_close(scoped(X), wrapped(X))
    for wrong in ("x", {"layer": 1}, {1: "x"}):
        with pytest.raises(ValueError, match="__outline must be a dict of strings"):
            poptorch.Attribute(__outline=wrong)


def attributes_by_type(wrapped):
    ops = [op for graph in json.loads(wrapped._debugGetPopartIR()).values() for op in graph]
    return {op["type"]: {k: op["attributes"].get(k) for k in ("layer", "part")} for op in ops}


def test_attributes_are_kept_on_the_ops_made_inside():
    outer = poptorch.Attribute(__outline={"layer": "outer", "part": "1"})

    def scoped(x):
        x = torch.sin(x)
        with outer:
            x = torch.tanh(x)
            with poptorch.Attribute(__outline={"layer": "inner"}):
                x = torch.relu(x)
                with outer:
                    x = torch.floor(x)
                with contextlib.suppress(KeyError), poptorch.Attribute(__outline={"part": "2"}):
                    x = torch.sigmoid(x)
                    raise KeyError
                (x,) = poptorch.for_loop(2, torch.abs, [x])
            x = torch.exp(x)
        return torch.cos(x)

    wrapped = poptorch.inferenceModel(scoped)
    wrapped.compile(X)
    found = attributes_by_type(wrapped)
    assert [found[kind]["layer"] for kind in ("Sin", "Tanh", "Relu", "Floor", "Sigmoid")] == [
        None, "outer", "inner", "outer", "inner"
    ]  # fmt: skip
    assert [found[kind]["layer"] for kind in ("Abs", "Exp", "Cos")] == ["inner", "outer", None]
    assert [found[kind]["part"] for kind in ("Relu", "Sigmoid", "Abs")] == ["1", "2", "1"]


def test_attributes_of_ops_hinder_no_merging_and_are_those_of_gradients_too():
    def twice(x, first, second):
        with poptorch.Attribute(__outline=first):
            y = torch.tanh(x)
        with poptorch.Attribute(__outline=second):
            return y + torch.tanh(x)

    class Training(torch.nn.Module):
        def __init__(self, *attributes):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3))
            self.attributes = attributes

        def forward(self, x):
            return poptorch.identity_loss(twice(x * self.weight, *self.attributes), "sum")

    kinds = []
    for attributes in (({"layer": "a"}, {"layer": "b"}), ({}, {})):
        wrapped = poptorch.trainingModel(Training(*attributes))
        wrapped.compile(X)
        ops = json.loads(wrapped._debugGetPopartIR())["maingraph"]
        kinds.append([op["type"] for op in ops])
        if any(attributes):
            labelled = {op["type"] for op in ops if op["attributes"].get("layer") == "a"}
    assert kinds[0] == kinds[1] and kinds[0].count("Tanh") == 1
    assert len(labelled) > 1, labelled
