"""Tests values and gradients of poptorch.custom_op with libraries' ops, in every way that a model
runs.

The ops are those of examples/custom_ops and tests/custom_ops; tests/errors has the refusals.
"""

import ctypes
import re
import subprocess
import sys

import poptorch
import pytest
import torch
from poptorch_core import _core

pytestmark = pytest.mark.usefixtures("custom_ops")


def cube(x, bias):
    return poptorch.custom_op([x, bias], "Cube", "com.acme", 1, example_outputs=[x, x])


def leaky(x, **attributes):
    return poptorch.custom_op(
        [x], "LeakyRelu", "com.acme", 1, example_outputs=[x], attributes=attributes
    )[0]


def trial(name, x, outputs=1, **attributes):
    return poptorch.custom_op([x], name, "trial", 1, [x] * outputs, attributes)


class Network(torch.nn.Module):
    """Computes with custom ops, or with torch's ops instead."""

    def __init__(self, custom):
        super().__init__()
        self.custom = custom
        self.first, self.last = torch.nn.Linear(6, 8), torch.nn.Linear(8, 3)

    def forward(self, x, target=None):
        h = self.first(x)
        h = leaky(h, alpha=0.25) if self.custom else torch.nn.functional.leaky_relu(h, 0.25)
        y, bias = self.last(h), torch.full_like(target, 0.5) if target is not None else h[:, :3]
        if self.custom:
            cubes, squares = cube(y, bias)
        else:
            cubes, squares = y**3 + bias, y**2
        out = cubes - squares
        return out if target is None else (out, torch.nn.functional.mse_loss(out, target))


def networks():
    torch.manual_seed(11)
    network = Network(custom=True)
    reference = Network(custom=False)
    reference.load_state_dict(network.state_dict())
    return network, reference


@pytest.mark.shared
def test_values():
    network, reference = networks()
    x = torch.randn(4, 6)
    torch.testing.assert_close(poptorch.inferenceModel(network)(x), reference(x))


def trained(network, options=None, steps=3):
    optimizer = poptorch.optim.SGD(network.parameters(), lr=0.05)
    model = poptorch.trainingModel(network, options, optimizer)
    torch.manual_seed(5)
    for _ in range(steps):
        model(torch.randn(8, 6), torch.randn(8, 3))
    return {name: value.clone() for name, value in network.state_dict().items()}


def same_weights(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, msg=name)


@pytest.mark.shared
def test_training():
    network, reference = networks()
    same_weights(trained(network), trained(reference))


class Placed(Network):
    """Computes its two parts on two IPUs."""

    def __init__(self, custom):
        super().__init__(custom)
        self.first = poptorch.BeginBlock(self.first, "front", ipu_id=0)
        self.last = poptorch.BeginBlock(self.last, "back", ipu_id=1)


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
    torch.manual_seed(11)
    network, reference = Placed(True), Placed(False)
    reference.load_state_dict(network.state_dict())
    weights = []
    for each in (network, reference):
        options = poptorch.Options().replicationFactor(replicas)
        options.setExecutionStrategy(STRATEGIES[strategy]())
        options.Training.gradientAccumulation(1 if strategy == "phased" else 4)
        weights.append(trained(each, options))
    same_weights(*weights)


def test_replicas_are_known_to_the_op():
    options = poptorch.Options().replicationFactor(4)
    model = poptorch.inferenceModel(lambda x: trial("Replica", x, 2), options)
    x, numbers = model(torch.arange(8.0))
    assert torch.equal(x, torch.arange(8.0))
    assert numbers.reshape(4, 2).tolist() == [[0, 4], [1, 4], [2, 4], [3, 4]]


class MeanOfReplicas(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]))

    def forward(self, x):
        (mean,) = trial("MeanOfReplicas", self.weight * x)
        return mean, poptorch.identity_loss((mean * x).sum(), "none")


def test_inputs_that_arrive_summed_over_the_replicas():
    network = MeanOfReplicas()
    options = poptorch.Options().replicationFactor(2)
    options.Training.accumulationAndReplicationReductionType(poptorch.ReductionType.Sum)
    optimizer = torch.optim.SGD(network.parameters(), lr=1.0)
    model = poptorch.trainingModel(network, options, optimizer)
    x = torch.tensor([[1.0, 2.0], [3.0, 6.0]])
    mean, _ = model(x)
    assert torch.equal(mean, torch.tensor([[2.0, 8.0]] * 2).reshape(mean.shape))
    # Σᵣ d(mean · xᵣ)/dw = (Σᵣ xᵣ)² / 2.
    assert torch.equal(network.weight, torch.tensor([1.0, 2.0]) - torch.tensor([8.0, 32.0]))


@pytest.mark.parametrize(
    ("x", "expected", "number"),
    [
        (torch.tensor([1, 2**30]), torch.tensor([2, -(2**31)], dtype=torch.int32), 3),
        (torch.tensor([1.5], dtype=torch.float16), torch.tensor([1.5], dtype=torch.float16), 11),
        (torch.tensor([True, False]), torch.tensor([False, True]), 0),
    ],
)
def test_element_types(x, expected, number):
    kinds = lambda x: trial("Kinds", x, 2)  # noqa: E731
    for call in (kinds, poptorch.inferenceModel(kinds)):
        y, dtype = call(x)
        assert y.dtype == expected.dtype and torch.equal(y, expected)
        assert dtype.reshape(()) == number  # int64 came as int32


def test_the_op_says_what_comes_back_not_the_template():
    model = poptorch.inferenceModel(lambda x: trial("SumOfAll", x)[0] + torch.zeros(2))
    assert torch.equal(model(torch.tensor([1.0, 2.0, 4.0])), torch.full((2,), 7.0))


def test_outside_of_a_model_torch_differentiates_it():
    x, bias = torch.randn(5, requires_grad=True), torch.randn(5, requires_grad=True)
    cubes, squares = cube(x, bias)
    (leaky(cubes, alpha=0.5) * 3 + squares).sum().backward()
    found = x.grad.clone(), bias.grad.clone()
    x.grad = bias.grad = None
    expected = torch.nn.functional.leaky_relu(x**3 + bias, 0.5) * 3 + x**2
    expected.sum().backward()
    torch.testing.assert_close(found, (x.grad, bias.grad))


def test_default_attributes_hold_in_the_gradient_too():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor([-4.0]))

        def forward(self):
            return poptorch.identity_loss(leaky(self.weight), "sum")

    network = Model()
    model = poptorch.trainingModel(network, optimizer=torch.optim.SGD(network.parameters(), lr=1.0))
    torch.testing.assert_close(model(), torch.tensor(-0.04))
    torch.testing.assert_close(network.weight.detach(), torch.tensor([-4.01]))


def test_the_list_of_an_op_is_the_next_one_s_inputs():
    def forward(x, bias):
        return poptorch.custom_op(cube(x, bias), "Cube", "com.acme", 1, [x, x])[0]

    x, bias = torch.tensor([2.0]), torch.tensor([1.0])
    assert torch.equal(poptorch.inferenceModel(forward)(x, bias), torch.tensor([733.0]))


def test_equal_uses_are_one_op_and_others_are_not():
    def forward(x):
        first, second = leaky(x, alpha=0.5), leaky(x, alpha=0.5)
        return first + second + leaky(x, alpha=0.25)

    model = poptorch.inferenceModel(forward)
    assert torch.equal(model(torch.tensor([-4.0])), torch.tensor([-5.0]))
    assert model.graph("placed").count('name="LeakyRelu"') == 2


def test_the_machine_s_account_has_what_the_op_says_that_it_costs():
    def cycles(forward, op):
        model = poptorch.inferenceModel(forward)
        model(torch.randn(512, 512))
        return int(re.search(rf"= {op}\(.*cycles=(\d+)", model.graph("program"))[1])

    one = cycles(leaky, "custom")  # an operation for each element, by default
    assert one > cycles(lambda x: leaky(x[:1]), "custom")
    assert cycles(lambda x: cube(x, x)[0], "custom") > one  # it says that it needs three


X = torch.ones(2)


def test_what_compute_throws_ends_the_run_and_nothing_else():
    model = poptorch.inferenceModel(lambda x: trial("FailsAbove", x, limit=3.0)[0])
    assert torch.equal(model(X), X)
    for _ in range(2):
        with pytest.raises(poptorch.Error) as caught:
            model(torch.tensor([1.0, 4.0]))
        assert (
            "op 'FailsAbove' of domain 'trial', version 1 failed: element 1 is above the limit"
            in str(caught.value)
        )
        assert torch.equal(model(X), X)


def test_without_a_gradient_it_may_stand_beside_the_loss():
    network = torch.nn.Linear(1, 3, bias=False)
    network.weight.data.fill_(1)
    network.forward = lambda: (
        trial("SumOfAll", network.weight.detach())[0],
        poptorch.identity_loss(network.weight, "sum"),
    )
    model = poptorch.trainingModel(network, optimizer=torch.optim.SGD(network.parameters(), lr=1.0))
    assert [float(x.sum()) for x in model()] == [3.0, 3.0]


LOADED = """
import ctypes, sys
{}
import torch
def forward(x):
    return poptorch.custom_op([x], "LeakyRelu", "com.acme", 1, [x])[0]
print(poptorch.inferenceModel(forward)(torch.tensor([-100.0])))
"""


@pytest.mark.shared
@pytest.mark.parametrize("order", [("import poptorch", "load"), ("load", "import poptorch")])
def test_a_library_is_loaded_before_or_after_the_package(order, custom_op_folder):
    load = f"ctypes.cdll.LoadLibrary({str(custom_op_folder / 'libcustom_leaky_relu_op.so')!r})"
    lines = "\n".join(load if part == "load" else part for part in order)
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(lines)], capture_output=True, text=True, check=False
    )
    assert done.stdout == "tensor([-1.])\n", done.stderr


def test_a_library_registers_once(custom_ops):
    ctypes.cdll.LoadLibrary(custom_ops / "libcustom_cube_op.so")
    ids = _core.custom_op_ids()
    assert ("com.acme", "Cube", 1) in ids and len(ids) == len(set(ids))


def gathered(data, indices):
    return poptorch.custom_op(
        [data, indices], "FastGatherLastDim", "poptorch.custom_ops", 1, [indices]
    )[0]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_fast_gather_last_dim(dtype):
    data = torch.randn(2, 3, 5)
    indices = torch.randint(0, 5, (2, 3, 7)).to(dtype)
    expected = torch.gather(data, -1, indices.long())
    assert torch.equal(poptorch.inferenceModel(gathered)(data, indices), expected)
    assert torch.equal(gathered(data, indices), expected)


@pytest.mark.parametrize(
    "attributes", [{"axis": -1}, {"axis": 0, "name": "x"}, {"values": [1.0, 2.0]}, {}, None]
)
def test_fast_gather_last_dim_ignores_attributes(attributes):
    def forward(data, indices):
        name, domain = "FastGatherLastDim", "poptorch.custom_ops"
        return poptorch.custom_op([data, indices], name, domain, 1, [indices], attributes)[0]

    data, indices = torch.randn(2, 5), torch.tensor([[4, 0, 1], [2, 2, 3]])
    expected = torch.gather(data, -1, indices)
    assert torch.equal(poptorch.inferenceModel(forward)(data, indices), expected)
    assert torch.equal(forward(data, indices), expected)


def test_fast_gather_last_dim_is_differentiable():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.data = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3))

        def forward(self, indices):
            return poptorch.identity_loss(gathered(self.data, indices), "sum")

    network = Model()
    model = poptorch.trainingModel(network, optimizer=torch.optim.SGD(network.parameters(), lr=1.0))
    model(torch.tensor([[0, 0, 2, 0], [1, 1, 1, 1]]))
    assert torch.equal(network.data.detach(), torch.tensor([[-3.0, 1.0, 1.0], [3.0, 0.0, 5.0]]))
