"""poptorch.CPU: functions and modules that run on the host in the middle of an inference model."""

import poptorch
import pytest
import torch

X = torch.tensor([[1.0, -2.0]])


class Between(torch.nn.Module):
    """A layer on the device, one on the host, one on the device."""

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
    with pytest.raises(ValueError, match="expected something to call but got 3"):
        poptorch.CPU(3, "three")
