"""Tests poptorch.CPU: functions and modules that run on the host in the middle of an inference
model.
"""

import poptorch
import pytest
import torch

X = torch.tensor([[1.0, -2.0]])


class Between(torch.nn.Module):
    """One layer on the device, one on the host, one on the device."""

    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(2, 3), torch.nn.Linear(3, 2)
        self.middle = torch.nn.Linear(3, 3)
        self.cpu = poptorch.CPU(self.middle, "middle")

    def forward(self, x):
        return self.last(torch.relu(self.cpu(self.first(x))))


def test_a_module_in_the_middle():
    network = Between()
    assert not network.middle.weight.requires_grad
    model = poptorch.inferenceModel(network)
    for _ in range(2):
        x = torch.randn(4, 2)
        torch.testing.assert_close(model(x), network(x))
    assert network.cpu.in_shapes == network.cpu.out_shapes == [torch.Size([4, 3])]


def test_it_is_called_on_zeros_and_then_for_each_run():
    seen = []

    def layer(x):
        seen.append((x.device.type, x.clone()))
        return x + 1

    cpu = poptorch.CPU(layer, "layer")
    model = poptorch.inferenceModel(lambda x: cpu(x * 2) * 3)
    for x in (X, X + 5):
        assert torch.equal(model(x), (x * 2 + 1) * 3)
    assert {device for device, _ in seen} == {"cpu"}
    assert torch.equal(seen[0][1], torch.zeros(1, 2))
    assert torch.equal(seen[-1][1], (X + 5) * 2)


def test_several_results_and_several_calls():
    cpu = poptorch.CPU(lambda x, y: (x + y, (x > y).int()), "both")
    other = poptorch.CPU(lambda x: x.sum(), "other")

    def forward(x, y):
        total, greater = cpu(x, y)
        assert isinstance(cpu(y, x), list)
        return total, greater, cpu(y, total)[1], other(total)

    y = torch.tensor([[0.0, 3.0]])
    found = poptorch.inferenceModel(forward)(X, y)
    for a, b in zip(found, forward_on_host(X, y), strict=True):
        assert torch.equal(a, b)


def forward_on_host(x, y):
    return x + y, (x > y).int(), (y > x + y).int(), (x + y).sum()


def test_on_the_host_it_is_a_call():
    cpu = poptorch.CPU(torch.relu, "relu")
    x = X.clone().requires_grad_()
    cpu(x).sum().backward()
    assert torch.equal(x.grad, torch.tensor([[1.0, 0.0]]))


def test_execute_and_persistent_data():
    cpu = poptorch.CPU(lambda x: x + 1, "more")
    poptorch.inferenceModel(lambda x: cpu(x))(X)
    cpu.registerPersistentData()
    assert torch.equal(cpu.inputs[0], torch.zeros(1, 2))
    cpu.inputs = [X]
    cpu.execute()
    assert torch.equal(cpu.outputs[0], X + 1)


def test_one_may_not_be_in_another():
    inner = poptorch.CPU(torch.relu, "inner")
    outer = poptorch.CPU(lambda x: inner(x), "outer")
    with pytest.raises(poptorch.Error) as caught:
        poptorch.inferenceModel(lambda x: outer(x))(X)
    assert "Trying to enter CPU from another CPU op! CPU ops must not overlap." in str(caught.value)


def test_not_in_training():
    cpu = poptorch.CPU(torch.relu, "relu")

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)

        def forward(self, x):
            return poptorch.identity_loss(cpu(self.layer(x)), "sum")

    network = Model()
    model = poptorch.trainingModel(network, optimizer=torch.optim.SGD(network.parameters(), lr=1.0))
    with pytest.raises(poptorch.Error, match="'relu' is in a model for training: no gradient"):
        model(X)


def test_what_is_no_function_is_refused():
    with pytest.raises(ValueError, match="expected a callable but got 3"):
        poptorch.CPU(3, "three")


def test_each_micro_batch_of_each_replica(world):
    """In a pipeline, the function gets the actual values, once each."""
    if world is not None:
        pytest.skip("it places its model itself")
    seen = []

    def layer(x):
        seen.append(x.clone())
        return x * 10, x.sum(1)

    cpu = poptorch.CPU(layer, "layer")
    first, last = torch.nn.Linear(2, 3), torch.nn.Linear(3, 2)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = first, last

        def forward(self, x):
            with poptorch.Block("first", ipu_id=0):
                y, total = cpu(self.first(x))
            with poptorch.Block("last", ipu_id=1):
                return self.last(y), total

    options = poptorch.Options().deviceIterations(3).replicationFactor(2)
    options.setExecutionStrategy(poptorch.PipelinedExecution("first", "last"))
    x = torch.randn(12, 2)
    found = poptorch.inferenceModel(Model(), options)(x)
    calls, seen[:] = seen[1:], []
    with torch.no_grad():
        for ours, eager in zip(found, Model()(x), strict=True):
            torch.testing.assert_close(ours, eager)
        expected = first(x).split(2)
    key = lambda part: part.flatten().tolist()  # noqa: E731
    for ours, eager in zip(sorted(calls, key=key), sorted(expected, key=key), strict=True):
        torch.testing.assert_close(ours, eager)


def test_ops_of_poptorch_in_it():
    def layer(x):
        assert x.device.type == "cpu" and not poptorch.isRunningOnIpu()
        chosen = poptorch.fps(x, [0, 4], 0.5).long()
        return poptorch.nop(x[chosen]) + poptorch.dynamic_slice(x, 0, torch.tensor([1]), 2, 1)

    cpu = poptorch.CPU(layer, "layer")
    x = torch.randn(4, 3)
    assert torch.equal(poptorch.inferenceModel(lambda x: cpu(x) * 2)(x), layer(x) * 2)


def test_methods_and_hidden_modules_stay_on_the_host():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = [torch.nn.Linear(2, 2)]
            self.cpus = [poptorch.CPU(self.hidden[0], "hidden"), poptorch.CPU(self.add, "add")]

        def add(self, x):
            return [x + 1, x.long()]

        def forward(self, x):
            return self.cpus[1](self.cpus[0](x))

    network = Model()
    assert not network.hidden[0].weight.requires_grad
    model = poptorch.inferenceModel(network)
    more, whole = model(X)
    torch.testing.assert_close(more, network.hidden[0](X) + 1)
    assert torch.equal(whole, network.hidden[0](X).int())
    assert not model.state_dict()
    with torch.no_grad():  # the program has no copy of it: its current contents count
        network.hidden[0].weight.zero_()
    torch.testing.assert_close(model(X)[0], (network.hidden[0].bias + 1).expand(1, 2))


def test_what_it_raises_names_it():
    def layer(x):
        if x.sum() > 0:
            raise LookupError("no such thing")
        return x

    cpu = poptorch.CPU(layer, "lookup")
    model = poptorch.inferenceModel(lambda x: cpu(x * 2))
    assert torch.equal(model(-X.abs()), -X.abs() * 2)
    with pytest.raises(poptorch.Error, match="CPU.lookup.*no such thing"):
        model(X.abs())
    assert torch.equal(model(-X.abs()), -X.abs() * 2)
