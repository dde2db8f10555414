"""Listings 4.23 to 4.26: loading a library of custom ops, calling the ops, and their attributes.

The program looks for the libraries of examples/custom_ops below the folder `tests`.
"""

import ctypes
import pathlib

import poptorch
import torch
from torch import nn

myso = list(pathlib.Path("tests").rglob("libcustom_cube_op.*"))
assert myso, "Failed to find libcustom_cube_op"
myop = ctypes.cdll.LoadLibrary(myso[0])

for name in ("leaky_relu", "many_attribute"):
    ctypes.cdll.LoadLibrary(next(pathlib.Path("tests").rglob(f"libcustom_{name}_op.*")))


def test_inference():
    class BasicNetwork(nn.Module):
        def forward(self, x, bias):
            x, y = poptorch.custom_op([x, bias], "Cube", "com.acme", 1, example_outputs=[x, x])
            return x, y

    model = poptorch.inferenceModel(BasicNetwork())
    print(*model(torch.tensor([1.0, 2.0, -3.0]), torch.ones(3)))


def test_attribute():
    class Model(torch.nn.Module):
        def forward(self, x):
            x = poptorch.custom_op(
                [x],
                "LeakyRelu",
                "com.acme",
                1,
                example_outputs=[x],
                attributes={"alpha": 0.02},
            )
            return x[0]

    print(poptorch.inferenceModel(Model())(torch.tensor([-100.0, 5.0])))


def test_many_attributes_examples():
    class Model(torch.nn.Module):
        def forward(self, x):
            attributes = {
                "float_one": 1.0,
                "float_minus_two": -2.0,
                "int_zero": 0,
                "int_minus_five": -5,
                "floats_one_two_three": [1.0, 2.0, 3.0],
                "floats_minus_one_two_three": [-1.0, -2.0, -3.0],
                "ints_one_two_three": [1, 2, 3],
                "ints_minus_one_two_three": [-1, -2, -3],
                "a_string": "string with quotes and slash \" ' \\ end",
                "strs": ["abc", "def", "ghi"],
            }

            x = poptorch.custom_op(
                [x],
                "ManyAttributeOp",
                "test.poptorch",
                1,
                example_outputs=[x],
                attributes=attributes,
            )
            return x[0]

    print(poptorch.inferenceModel(Model())(torch.tensor([3.0])))


test_inference()
test_attribute()
test_many_attributes_examples()
