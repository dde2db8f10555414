"""Tests poptorch.ipu_print_tensor: what it prints, in which format, how often and with which
gradients.
"""

import re

import poptorch
import pytest
import torch

X = torch.tensor([[1.25, -2.5], [3.75, 0.5]])


def under(title, text):
    """Returns the texts printed under a title, in order, without the title."""
    return re.findall(rf"^{title}: ((?:.*\n)(?:[ )}}\]>].*\n)*)", text, re.M)


def show(capfd, x, **keywords):
    """Returns the text of a tensor, printed in every round of a model that returns it."""
    model = poptorch.inferenceModel(lambda x: poptorch.ipu_print_tensor(x, "t", **keywords))
    torch.testing.assert_close(model(x), x, rtol=0, atol=0, equal_nan=True)
    (text,) = set(under("t", capfd.readouterr().err))
    return text.removesuffix("\n")


CURLY = {"separator": " ", "open_bracket": "{", "close_bracket": "}"}
LAYOUTS = {
    "rows": (
        [[1.25, 2.5], [3.75, 5.0]],
        {"digits": 8, **CURLY},
        "{\n {1.2500000 2.5000000}\n {3.7500000 5.0000000}\n}",
    ),
    "a number": (2.5, {}, "2.500"),
    "a vector": ([1.0, -20.0], {}, "(  1.00, -20.00)"),
    "positions": (
        [1.0, -20.0],
        {"summarise_threshold": 5},
        "(  1.00, -20.00)",
    ),
    "three levels": (
        [[[1.0], [2.0]], [[3.0], [4.0]]],
        {"digits": 2},
        "(\n (\n  (1.0)\n  (2.0)\n )\n (\n  (3.0)\n  (4.0)\n )\n)",
    ),
    "integers": ([[1, 200], [-30, 4]], {}, "(\n (  1, 200)\n (-30,   4)\n)"),
    "truth": ([True, False], {}, "(1, 0)"),
    "exponents": (
        [1.25, 0.5],
        {"float_format": "scientific", "digits": 8},
        "(1.2500000e+00, 5.0000000e-01)",
    ),
    "large": ([123456.0, 1.0], {}, "(1.235e+05, 1.000e+00)"),
    "small beside large": ([1.0, 1e-5], {}, "(1.000e+00, 1.000e-05)"),
    "fixed, whatever the range": ([123456.0, 1.0], {"float_format": "fixed"}, "(123456,      1)"),
    "none": ([1.25, -10.0], {"float_format": "none"}, "(1.25, -10)"),
    "no digits": ([1.25, -10.0], {"digits": 0}, "(1.25, -10)"),
    "no digits, fixed": (
        [1.25, -10.0],
        {"digits": 0, "float_format": "fixed"},
        "(1.250000, -10.000000)",
    ),
    "no numbers": ([float("nan"), float("inf"), -1.0], {"digits": 3}, "(  nan,   inf, -1.00)"),
    "broken rows": (
        list(range(8)),
        {"max_line_width": 12, "separator": ","},
        "(0,1,2,3,4,\n  5,6,7)",
    ),
    "broken rows of a matrix": (
        [list(range(5)), list(range(5))],
        {"max_line_width": 8, "separator": ","},
        "(\n (0,1,2,\n   3,4)\n (0,1,2,\n   3,4)\n)",
    ),
    "rows of any length": (
        list(range(60)),
        {"max_line_width": 0, "separator": ",", "digits": 0},
        "(" + ",".join(map(str, range(60))) + ")",
    ),
    "ends": (
        [[10 * i + k for k in range(5)] for i in range(4)],
        {"summarise_threshold": 19, "edge_items": 1},
        "(\n ( 0, ...,  4)\n ...\n (30, ..., 34)\n)",
    ),
    "at the threshold": ([1, 2, 3], {"summarise_threshold": 3, "edge_items": 1}, "(1, 2, 3)"),
    "no threshold": (
        [7] * 1001,
        {"summarise_threshold": 0, "max_line_width": 0, "separator": ""},
        "(" + "7" * 1001 + ")",
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(capfd, name):
    values, keywords, expected = LAYOUTS[name]
    x = torch.tensor(values)
    x = x.int() if x.dtype == torch.int64 else x
    assert show(capfd, x, **keywords) == expected


def test_halves_show_their_own_digits(capfd):
    text = show(capfd, torch.tensor([0.1], dtype=torch.float16), digits=6)
    assert text == "(0.09998)"


def test_arguments_by_position(capfd):
    def forward(x):
        return poptorch.ipu_print_tensor(x, "all", False, 3, 1, 40, 5, "fixed", ";", "[", "]")

    poptorch.inferenceModel(forward)(X)
    assert set(under("all", capfd.readouterr().err)) == {
        "[\n [ 1.2500;-2.5000]\n [ 3.7500; 0.5000]\n]\n"
    }


class Layers(torch.nn.Module):
    """Prints between two layers; blocks put them on two IPUs if requested."""

    def __init__(self, blocks=False, **keywords):
        super().__init__()
        self.first, self.last = torch.nn.Linear(2, 3), torch.nn.Linear(3, 1)
        self.keywords = keywords
        if blocks:
            self.first = poptorch.BeginBlock(self.first, "first", ipu_id=0)
            self.last = poptorch.BeginBlock(self.last, "last", ipu_id=1)

    def forward(self, x):
        y = poptorch.ipu_print_tensor(self.first(x), "y", **self.keywords)
        loss = poptorch.identity_loss(self.last(y).square(), "sum")
        return loss


def numbers(texts):
    """Printed matrices as sorted lists of rows."""
    found = [[float(n) for n in re.findall(r"[-+.\de]+", text)] for text in texts]
    return torch.tensor(sorted(found))


def eager(network, x):
    """Returns the middle value of the network for each micro-batch, and its gradient."""
    values, gradients = [], []
    for part in x:
        y = network.first(part).detach().requires_grad_()
        (network.last(y) ** 2).sum().backward()
        values.append(y.detach().flatten().tolist())
        gradients.append(y.grad.flatten().tolist())
    return torch.tensor(sorted(values)), torch.tensor(sorted(gradients))


def test_gradients_are_printed_behind(capfd):
    network = Layers()
    expected, gradient = eager(network, X[None])
    poptorch.trainingModel(network, optimizer=torch.optim.SGD(network.parameters(), lr=0.0))(X)
    text = capfd.readouterr().err
    assert text.index("\ny: ") < text.index("\ny_gradient: ")
    for title, wanted in (("y", expected), ("y_gradient", gradient)):
        torch.testing.assert_close(numbers(set(under(title, text))), wanted, rtol=1e-2, atol=2e-3)


def test_gradients_on_request_alone(capfd):
    network = Layers(print_gradient=False)
    poptorch.trainingModel(network, optimizer=torch.optim.SGD(network.parameters(), lr=0.0))(X)
    text = capfd.readouterr().err
    assert "\ny: " in text and "gradient" not in text
    poptorch.inferenceModel(Layers())(X)
    assert "gradient" not in capfd.readouterr().err


@pytest.mark.parametrize("recomputes", [False, True])
def test_each_micro_batch_of_each_replica(capfd, recomputes):
    """In a pipeline each value is printed once, although a stage recomputes."""
    options = poptorch.Options().replicationFactor(2).deviceIterations(2)
    options.Training.gradientAccumulation(3)
    options.setExecutionStrategy(poptorch.PipelinedExecution("first", "last"))
    if not recomputes:
        options._Popart.set("autoRecomputation", 0)
    network = Layers(blocks=True, digits=8)
    x = torch.randn(12, 2)
    optimizer = poptorch.optim.SGD(network.parameters(), lr=0.0)
    expected, gradient = eager(network, x[:, None])
    poptorch.trainingModel(network, options, optimizer)(x)
    text = capfd.readouterr().err
    for title, wanted in (("y", expected), ("y_gradient", gradient)):
        torch.testing.assert_close(numbers(under(title, text)), wanted, rtol=1e-5, atol=1e-5)


def test_each_round_of_a_loop(capfd):
    def forward(x):
        def body(x):
            return [poptorch.ipu_print_tensor(x + 1, "round")]

        return poptorch.for_loop(3, body, [x])[0]

    poptorch.inferenceModel(forward)(torch.zeros(1))
    rounds = under("round", capfd.readouterr().err)
    assert rounds[:3] == ["(1.000)\n", "(2.000)\n", "(3.000)\n"]


def test_what_nobody_uses_is_printed(capfd):
    def forward(x):
        poptorch.ipu_print_tensor(x + 1, "unused")
        return x * 2

    assert torch.equal(poptorch.inferenceModel(forward)(X), X * 2)
    assert set(under("unused", capfd.readouterr().err)) == {
        "(\n ( 2.250, -1.500)\n ( 4.750,  1.500)\n)\n"
    }


def test_what_is_known_stays_known(capfd):
    """The device prints the length of a range, which is also read while the model is compiled."""

    def forward(x):
        ends = poptorch.ipu_print_tensor(torch.arange(3, device=x.device), "ends", digits=0)
        return x * int(ends.max().item())

    model = poptorch.inferenceModel(forward)
    model.compile(X)
    assert under("ends", capfd.readouterr().err) == []
    assert torch.equal(model(X), X * 2)
    assert set(under("ends", capfd.readouterr().err)) == {"(0, 1, 2)\n"}


def test_complex_numbers_are_printed_as_pairs(capfd):
    def forward(x):
        return torch.view_as_real(poptorch.ipu_print_tensor(torch.view_as_complex(x), "pairs"))

    assert torch.equal(poptorch.inferenceModel(forward)(X), X)
    assert set(under("pairs", capfd.readouterr().err)) == {
        "(\n ( 1.250, -2.500)\n ( 3.750,  0.500)\n)\n"
    }


def test_on_the_cpu_it_is_the_identity(capfd):
    x = X.clone().requires_grad_()
    y = poptorch.ipu_print_tensor(x, "t")
    y.sum().backward()
    assert torch.equal(y, x) and torch.equal(x.grad, torch.ones(2, 2))
    assert capfd.readouterr().err == ""


def test_what_it_does_not_take():
    with pytest.raises(
        poptorch.Error, match=r"ipu print tensor must take a torch.tensor argument."
    ):
        poptorch.ipu_print_tensor([1.0])
    with pytest.raises(KeyError, match="hex"):
        poptorch.ipu_print_tensor(X, float_format="hex")
    with pytest.raises(poptorch.Error, match="digits must be from 0 to 32 but is -1"):
        poptorch.ipu_print_tensor(X, digits=-1)
