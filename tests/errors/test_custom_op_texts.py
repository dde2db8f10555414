"""Tests the refusals of poptorch.custom_op: attributes, uses, missing gradients, libraries that are
not loaded.
"""

import sys

import poptorch
import pytest
import torch
import zygote

pytestmark = pytest.mark.usefixtures("custom_ops")


def leaky(x, **attributes):
    return poptorch.custom_op(
        [x], "LeakyRelu", "com.acme", 1, example_outputs=[x], attributes=attributes
    )[0]


def trial(name, x):
    return poptorch.custom_op([x], name, "trial", 1, [x])


def gathered(data, indices):
    return poptorch.custom_op(
        [data, indices], "FastGatherLastDim", "poptorch.custom_ops", 1, [indices]
    )[0]


def forward_error(forward, *inputs):
    with pytest.raises(poptorch.Error) as caught:
        poptorch.inferenceModel(forward)(*inputs)
    return str(caught.value)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({1: 2.0}, "All attribute keys must be strings."),
        (
            {"a": None},
            "Attribute values must be floats, ints, strings or a list/tuple of float, ints of "
            "strings.",
        ),
        ({"a": [None]}, "Attribute values must be floats, ints, strings or a list/tuple of float"),
        ({"a": [1, 2.0]}, "The types in a list/tuple attribute must all be the same."),
        ({"a": "ä"}, "ä contains non-ASCII characters."),
        ({"ä": 1.0}, "ä contains non-ASCII characters."),
        ({"a": ("b", "ö")}, "ö contains non-ASCII characters."),
    ],
)
def test_attributes_are_checked_in_python(attributes, text):
    with pytest.raises(ValueError) as caught:
        poptorch.custom_op([torch.ones(1)], "LeakyRelu", "com.acme", 1, [0], attributes)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (sys.float_info.max, "1.79769e+308 is too high for a Popart float attribute."),
        (-sys.float_info.max, "-1.79769e+308 is too low for a Popart float attribute."),
        ([0.0, 3.5e38], "3.5e+38 is too high for a Popart float attribute."),
        (2**63, "9223372036854775808 is too high for a Popart int attribute."),
        ([0, -(2**63) - 1], "-9223372036854775809 is too low for a Popart int attribute."),
        (1, "has attribute 'alpha' as a float but got an int, 1."),
        ([1.0], "has attribute 'alpha' as a float but got a list of floats, [1.0]."),
        ("a\0b", "holds a zero byte"),
    ],
)
def test_attributes_are_checked_at_compilation(value, text):
    assert text in forward_error(lambda x: leaky(x, alpha=value), torch.ones(1))


X = torch.ones(2)


@pytest.mark.parametrize(
    ("forward", "text"),
    [
        (
            lambda x: poptorch.custom_op([x], "LeakyRelo", "com.acme", 1, [x])[0],
            "there is no op 'LeakyRelo' of domain 'com.acme', version 1, in this process. Did you "
            "mean 'LeakyRelu' of domain 'com.acme', version 1?",
        ),
        (
            lambda x: poptorch.custom_op([x], "LeakyRelu", "com.acme", 2, [x])[0],
            "Did you mean 'LeakyRelu' of domain 'com.acme', version 1?",
        ),
        (
            lambda x: poptorch.custom_op([x, x], "LeakyRelu", "com.acme", 1, [x])[0],
            "op 'LeakyRelu' of domain 'com.acme', version 1 takes 1 inputs but got 2.",
        ),
        (
            lambda x: poptorch.custom_op([x], "LeakyRelu", "com.acme", 1, [x, x])[0],
            "has 1 outputs but example_outputs has 2. Pass a template for each.",
        ),
        (lambda x: leaky(x, alpa=1.0), "has no attribute 'alpa'. Did you mean 'alpha'?"),
        (lambda x: trial("FailsAbove", x)[0], "needs attribute 'limit', a float."),
        (
            lambda x: leaky(x.to(torch.int32)),
            "refuses its inputs or attributes: x must be float32 (/",
        ),
        (
            lambda x: trial("OtherInterface", x)[0],
            "op 'OtherInterface' of domain 'trial', version 1 cannot be used: its library was "
            "built for version 2 of the interface of custom ops, but this PopTorch has version 1. "
            "Build the library again.",
        ),
        (lambda x: leaky(x[:0]), "cannot take f32[0] as input 0"),
        (lambda x: leaky(torch.complex(x, x)), "cannot take c64[2] as input 0"),
    ],
)
def test_uses_are_refused_at_compilation(forward, text):
    assert text in forward_error(forward, X)


def test_inputs_are_tensors():
    with pytest.raises(ValueError, match="inputs must be a list or tuple of tensors but is"):
        poptorch.custom_op([1.0], "LeakyRelu", "com.acme", 1, [0])
    with pytest.raises(ValueError, match="inputs must be a list or tuple of tensors but is"):
        poptorch.custom_op(X, "LeakyRelu", "com.acme", 1, [0])


class Trained(torch.nn.Module):
    def __init__(self, op):
        super().__init__()
        self.weight, self.op = torch.nn.Parameter(torch.ones(3)), op

    def forward(self):
        return poptorch.identity_loss(trial(self.op, self.weight)[0], "sum")


@pytest.mark.parametrize(
    ("op", "text"),
    [
        ("SumOfAll", "[autodiff] custom op 'SumOfAll' of domain 'trial', version 1 (/"),
        ("SumOfAll", ") has no gradient op, but a parameter's gradient passes through it."),
        ("WrongGradient", "has a gradient op that gives f32[] for input 0, which is f32[3]."),
        ("LostGradient", "there is no op 'Elsewhere' of domain 'trial', version 1"),
    ],
)
def test_gradients_that_there_are_not(op, text):
    network = Trained(op)
    model = poptorch.trainingModel(network, optimizer=torch.optim.SGD(network.parameters(), lr=1.0))
    with pytest.raises(poptorch.Error) as caught:
        model()
    assert text in str(caught.value)


SAVED = """
import sys
from poptorch_core import _core
{}
try:
    _core.load(open(sys.argv[1]).read())
    print("loaded")
except Exception as error:
    print(error.message)
"""


@pytest.mark.shared
def test_a_program_names_its_ops_and_loads_no_library(custom_op_folder, tmp_path):
    model = poptorch.inferenceModel(lambda x: leaky(x, alpha=0.5))
    model(X)
    text = model.graph("program")
    (tmp_path / "program.txt").write_text(text)
    outputs = []
    load = f"import ctypes; ctypes.cdll.LoadLibrary({str(custom_op_folder / 'libcustom_leaky_relu_op.so')!r})"  # noqa: E501
    for first in ("", load):
        done = zygote.run(
            [sys.executable, "-c", SAVED.format(first), tmp_path / "program.txt"],
            capture_output=True,
            text=True,
            check=True,
        )
        outputs.append(done.stdout)
    assert (
        "there is no op 'LeakyRelu' of domain 'com.acme', version 1, in this process. Load the "
        "library that has it with ctypes.cdll.LoadLibrary before the model is compiled or the "
        "program is loaded." in outputs[0]
    )
    assert outputs[1] == "loaded\n"


@pytest.mark.parametrize(
    ("data", "indices", "text"),
    [
        ((2, 3), (3, 3), "shapes are equal but for the last dimension"),
        ((2, 3), (2, 3, 1), "shapes are equal but for the last dimension"),
    ],
)
def test_fast_gather_last_dim_checks_shapes(data, indices, text):
    data, indices = torch.ones(data), torch.zeros(indices, dtype=torch.int32)
    assert text in forward_error(gathered, data, indices)
    with pytest.raises(poptorch.Error, match=text):
        gathered(data, indices)


@pytest.mark.parametrize(
    ("inputs", "attributes", "text"),
    [
        ([torch.ones(2, 3)], {}, "takes 2 inputs, data and indices"),
        ([torch.ones(2, 3)], {"axis": -1}, "takes 2 inputs, data and indices"),
        ([torch.ones(2, 3), torch.zeros(2, 1)], {}, "takes integers as indices but got f32[2,1]"),
    ],
)
def test_fast_gather_last_dim_checks_what_it_gets(inputs, attributes, text):
    def forward(*inputs):
        return poptorch.custom_op(
            list(inputs), "FastGatherLastDim", "poptorch.custom_ops", 1, [0], attributes
        )[0]

    assert text in forward_error(forward, *inputs)
    with pytest.raises((poptorch.Error, RuntimeError), match="takes 2 inputs|int"):
        forward(*inputs)


def test_the_op_of_the_package_is_suggested_too():
    def forward(x):
        return poptorch.custom_op([x, x], "FastGatherLastDims", "poptorch.custom_ops", 1, [x])[0]

    assert "Did you mean 'FastGatherLastDim' of domain 'poptorch.custom_ops'" in forward_error(
        forward, X
    )
