"""Writes one operator in Python and in C++, with gradients, and trains a pipeline with each.

It compiles examples/custom_ops, and therefore needs CMake and a C++ compiler.
"""

import ctypes
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import poptorch
import poptorch_core
import torch

SOURCES = Path(__file__).resolve().parents[1] / "custom_ops"
SLOPE = np.float32(0.1)


@poptorch.op(numpy=True)
def leaky_relu(x):
    return np.where(x < 0, SLOPE * x, x)


@leaky_relu.gradient
def leaky_relu_gradient(x, y, dy):
    return np.where(x < 0, SLOPE * dy, dy)


def leaky_relu_of_cpp(x):
    """Calls the op of leaky_relu.cpp, whose library must be loaded."""
    attributes = {"alpha": float(SLOPE)}
    (y,) = poptorch.custom_op(
        [x], "LeakyRelu", "com.acme", 1, example_outputs=[x], attributes=attributes
    )
    return y


class Network(torch.nn.Module):
    """Two layers on two IPUs, with an operator between them."""

    def __init__(self, operator):
        super().__init__()
        self.first = poptorch.BeginBlock(torch.nn.Linear(1, 32), "first", ipu_id=0)
        self.last = poptorch.BeginBlock(torch.nn.Linear(32, 1), "last", ipu_id=1)
        self.operator = operator

    def forward(self, x, target):
        return torch.nn.functional.mse_loss(self.last(self.operator(self.first(x))), target)


def train(operator):
    """Returns the losses of all steps."""
    torch.manual_seed(0)
    network = Network(operator)
    options = poptorch.Options().showCompilationProgressBar(False)
    options.Training.gradientAccumulation(4)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    training = poptorch.trainingModel(network, options, optimizer)
    x = torch.linspace(-1, 1, 64).reshape(64, 1)
    return [training(x, torch.sin(3 * x)).item() for _ in range(200)]


def main():
    with tempfile.TemporaryDirectory() as folder:
        prefix = f"-DCMAKE_PREFIX_PATH={poptorch_core.cmake_prefix_path}"
        configure = ["cmake", "-S", SOURCES, "-B", folder, prefix]
        build = ["cmake", "--build", folder, "--target", "custom_leaky_relu_op"]
        for command in configure, build:
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        ctypes.cdll.LoadLibrary(str(Path(folder, "libcustom_leaky_relu_op.so")))
    of_python, of_cpp = train(leaky_relu), train(leaky_relu_of_cpp)
    print(f"first loss {of_python[0]:.3f}")
    print(f"C++ has the losses of Python: {of_cpp == of_python}, last loss {of_cpp[-1]:.5f}")


if __name__ == "__main__":
    main()
