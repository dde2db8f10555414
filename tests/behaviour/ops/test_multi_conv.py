"""poptorch.MultiConv changes no values, and is one op in the listing and in the report."""

import json

import poptorch
import pytest
import torch
from torch import nn

PLAN = poptorch.MultiConvPlanType


class Branches(nn.Module):
    """Three convolutions of one input, whose results are combined."""

    def __init__(self, scope=None):
        super().__init__()
        self.scope = scope
        self.convs = nn.ModuleList(nn.Conv2d(3, 4, k, padding=k // 2) for k in (1, 3, 5))
        self.last = nn.Conv2d(12, 2, 1)

    def forward(self, x):
        if self.scope is None:
            parts = [torch.relu(conv(x)) for conv in self.convs]
        else:
            with self.scope:
                parts = [torch.relu(conv(x)) for conv in self.convs]
        y = self.last(torch.cat(parts, 1))
        return y, poptorch.identity_loss(y.square(), "mean")


def twins(scope):
    network = Branches(scope)
    plain = Branches()
    plain.load_state_dict(network.state_dict())
    return network, plain


def trained(network, options=None):
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    return poptorch.trainingModel(network, options, optimizer=optimizer)


X = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(2))
SCOPES = {
    "as it is": poptorch.MultiConv,
    "parallel": lambda: poptorch.MultiConv().planType(PLAN.Parallel).perConvReservedTiles(100),
    "serial": lambda: (
        poptorch.MultiConv()
        .availableMemoryProportions((0.8, 0.7, 0.2))
        .partialsTypes([torch.half, torch.float, torch.float])
        .planType(PLAN.Serial)
        .cycleBackOff(0.3)
        .enableConvDithering([True, False, True])
    ),
    "one for all": lambda: (
        poptorch.MultiConv()
        .availableMemoryProportions(0.5)
        .partialsTypes(torch.float)
        .planType(None)
        .enableConvDithering(True)
    ),
}


@pytest.mark.shared
@pytest.mark.parametrize("name", SCOPES)
def test_values_are_those_without(name):
    network, plain = twins(SCOPES[name]())
    eager = Branches()
    eager.load_state_dict(network.state_dict())
    model, reference = trained(network), trained(plain)
    for _ in range(2):
        y, loss = model(X)
        z, other = reference(X)
        assert torch.equal(y, z) and torch.equal(loss, other)
    for ours, theirs in zip(network.parameters(), plain.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        eager(X)[1].backward()
        optimizer.step()
    torch.testing.assert_close(model(X)[0], eager(X)[0].detach(), rtol=1e-4, atol=1e-5)


def listed(model):
    ops = json.loads(model._debugGetPopartIR())["maingraph"]
    return ops, {op["type"]: op for op in ops if op["type"].startswith("MultiConv")}


def test_the_listing_shows_one_op():
    model = trained(Branches(SCOPES["serial"]()))
    model.compile(X)
    ops, multi = listed(model)
    assert set(multi) == {"MultiConv", "MultiConvWeightsGrad"}  # nothing needs the input's gradient
    assert [op["type"] for op in ops].count("MultiConv") == 1
    assert [op["type"] for op in ops].count("Conv") == 1  # the last one, outside the scope
    op = multi["MultiConv"]
    assert len(op["outputs"]) == 3 and len(op["inputs"]) == 9
    assert op["attributes"] == {
        "availableMemoryProportions": "0.8, 0.7, 0.2",
        "partialsTypes": "half, float, float",
        "planType": "serial",
        "cycleBackOff": "0.3",
        "enableConvDithering": "1, 0, 1",
    }
    assert len(multi["MultiConvWeightsGrad"]["outputs"]) == 3
    known = {name for op in ops for name in op["outputs"]} | {"x"}
    assert set(multi["MultiConvWeightsGrad"]["inputs"]) <= known


def test_transposed_convolutions_and_gradients_of_inputs():
    class Network(nn.Module):
        def __init__(self, together):
            super().__init__()
            self.together = together
            self.first = nn.Conv1d(2, 3, 1)
            self.parts = nn.ModuleList([nn.Conv1d(3, 2, 1), nn.ConvTranspose1d(3, 2, 1)])

        def forward(self, x):
            x = self.first(x)
            with self.together:
                a, b = (part(x) for part in self.parts)
            return poptorch.identity_loss((a * b).square(), "sum")

    torch.manual_seed(1)
    network = Network(poptorch.MultiConv())
    x = torch.randn(2, 2, 5)
    expected = network(x)
    expected.backward()
    gradient = network.first.weight.grad.clone()
    before = network.first.weight.detach().clone()
    model = poptorch.trainingModel(network, optimizer=torch.optim.SGD(network.parameters(), lr=1.0))
    torch.testing.assert_close(model(x), expected.detach())
    torch.testing.assert_close(before - network.first.weight.detach(), gradient)
    _, multi = listed(model)
    assert len(multi["MultiConv"]["outputs"]) == 2
    assert len(multi["MultiConvWeightsGrad"]["outputs"]) == 2
    assert len(multi["MultiConvDataGrad"]["outputs"]) == 1


def account(scope):
    model = poptorch.inferenceModel(Branches(scope))
    model(X)
    counts, cycles = {}, {}
    for row in model.report()["ops"]:
        name = row["op"]
        if "conv" in name:
            counts[name] = counts.get(name, 0) + row["count"]
            cycles[name] = cycles.get(name, 0) + row["cycles"]
    return counts, cycles


def test_the_account_has_one_op(world):
    if world is not None:
        pytest.skip("counts are those of one run on one IPU")
    counts, cycles = account(None)
    assert counts == {"conv": 4}
    alone = cycles["conv"]
    counts, serial = account(poptorch.MultiConv().planType(PLAN.Serial))
    assert counts == {"conv": 1, "multi_conv": 1} and sum(serial.values()) == alone
    counts, parallel = account(poptorch.MultiConv())
    assert counts == {"conv": 1, "multi_conv": 1} and parallel["conv"] == serial["conv"]
    # At the same time, the three take as long as the slowest.
    assert serial["multi_conv"] / 3 < parallel["multi_conv"] < serial["multi_conv"] * 2 / 3


def test_in_a_pipeline_of_replicas():
    class Stages(Branches):
        def forward(self, x):
            with poptorch.Block("first", ipu_id=0), self.scope or poptorch.NameScope("plain"):
                parts = [torch.relu(conv(x)) for conv in self.convs]
            with poptorch.Block("last", ipu_id=1):
                y = self.last(torch.cat(parts, 1))
                return y, poptorch.identity_loss(y.square(), "mean")

    found = []
    state = Branches().state_dict()
    x = torch.randn(16, 3, 6, 6)
    for scope in (poptorch.MultiConv(), None):
        options = poptorch.Options().replicationFactor(2)
        options.Training.gradientAccumulation(4)
        options.outputMode(poptorch.OutputMode.All)
        options.setExecutionStrategy(poptorch.PipelinedExecution("first", "last"))
        network = Stages(scope)
        network.load_state_dict(state)
        model = trained(network, options)
        y, _ = model(x)
        found.append((y, network.convs[2].weight.detach().clone()))
        if scope is not None:
            assert len(listed(model)[1]["MultiConv"]["outputs"]) == 3
            rows = [row for row in model.report()["ops"] if row["op"] == "multi_conv"]
            assert {row["count"] for row in rows} == {4}
    for ours, plain in zip(*found, strict=True):
        assert torch.equal(ours, plain)


def test_on_the_cpu_it_does_nothing():
    network, plain = twins(poptorch.MultiConv())
    assert torch.equal(network(X)[0], plain(X)[0])
    with poptorch.MultiConv(), poptorch.MultiConv():
        pass


def test_an_object_may_be_used_again():
    scope = poptorch.MultiConv().availableMemoryProportions([0.1, 0.2])
    a, b = nn.Conv1d(2, 2, 1), nn.Conv1d(2, 2, 1)

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = a, b

        def forward(self, x):
            with scope:
                x, y = a(x), b(x)
            with scope:
                return a(y) + b(x)

    x = torch.randn(1, 2, 3)
    model = poptorch.inferenceModel(Network())
    torch.testing.assert_close(model(x), Network()(x).detach())
    kinds = [op["type"] for op in json.loads(model._debugGetPopartIR())["maingraph"]]
    assert kinds.count("MultiConv") == 2 and "Conv" not in kinds


SETTINGS = {
    "no proportion": (AssertionError, "Invalid available memory proportion!",
                      lambda m: m.availableMemoryProportions("0.5")),
    "no proportions": (AssertionError, "Invalid available memory proportion!",
                       lambda m: m.availableMemoryProportions([])),
    "integers": (AssertionError, "Invalid available memory proportion!",
                 lambda m: m.availableMemoryProportions([1, 0.5])),
    "partials": (ValueError, "Invalid partials types. Expecting torch.float or torch.half",
                 lambda m: m.partialsTypes(torch.int)),
    "partials by name": (ValueError, "Invalid partials types",
                         lambda m: m.partialsTypes(["half"])),
    "plan": (AssertionError, "Invalid plan type!", lambda m: m.planType("parallel")),
    "tiles": (AssertionError, "tiles", lambda m: m.perConvReservedTiles(1.5)),
    "back-off": (AssertionError, "back-off", lambda m: m.cycleBackOff(1)),
    "dithering": (ValueError, "value must be bool or list of bools",
                  lambda m: m.enableConvDithering([1, 0])),
}  # fmt: skip


@pytest.mark.parametrize("case", SETTINGS)
def test_settings_are_checked(case):
    kind, text, call = SETTINGS[case]
    with pytest.raises(kind, match=text):
        call(poptorch.MultiConv())


def in_scope(body, scope=None):
    conv = nn.Conv1d(2, 2, 1)

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = conv

        def forward(self, x):
            with scope or poptorch.MultiConv():
                return body(conv, x)

    return poptorch.inferenceModel(Network())


def nested(conv, x):
    with poptorch.MultiConv():
        return conv(x)


SCOPED = {
    "nested": (nested, None, "Nested poptorch.MultiConv is not supported."),
    "empty": (lambda conv, x: x + 1, None, "Unexpected end_multi_conv, is the IR malformed?"),
    "chained": (lambda conv, x: conv(conv(x)), None, "convolution 1 of the scope needs the result"),
    "counts": (
        lambda conv, x: conv(x) + conv(2 * x),
        poptorch.MultiConv().availableMemoryProportions([0.1, 0.2, 0.3]),
        "availableMemoryProportions has 3 values but there are 2 convolutions",
    ),
}


@pytest.mark.parametrize("case", SCOPED)
def test_what_is_refused_at_compilation(case):
    body, scope, text = SCOPED[case]
    x = torch.randn(1, 2, 3)
    with pytest.raises(poptorch.Error) as caught:
        in_scope(body, scope)(x)
    assert text in caught.value.message and "test_multi_conv.py" in str(caught.value)
    in_scope(lambda conv, x: conv(x))(x)  # nothing is left of it


def test_an_exception_in_the_scope_is_the_users():
    def body(conv, x):
        raise LookupError("mine")

    with pytest.raises((LookupError, poptorch.Error), match="mine"):
        in_scope(body)(torch.randn(1, 2, 3))
    in_scope(lambda conv, x: conv(x))(torch.randn(1, 2, 3))
