"""Runs the MNIST programs of tests/popxl/tutorials as a peer: a step is session.run on data in
memory.

W1 is the program with SGD, W2 the program with Adam. The tutorial's Adam corrects no bias and keeps
its first moment in float16. Its losses therefore differ from those of torch's Adam from the second
step.
"""

import sys
from pathlib import Path

from benchmarks.workloads import Instance

TUTORIALS = Path(__file__).resolve().parents[1] / "tests/popxl/tutorials"
PROGRAMS = {"SGD": "sgd", "Adam": "adam"}


def make_step(instance: Instance, batch: tuple, _iterations: int):
    """The step of the training program, with the instance's weights."""
    sys.path.append(str(TUTORIALS))
    from train_digits import train_program

    name, _ = instance.row.optimiser
    session, streams, variables, loss = train_program(8, PROGRAMS[name])
    data = {}
    for i, layer in enumerate(instance.model.network.layers, 1):
        linear = variables[f"fc{i}"]
        data[linear.weight] = layer.weight.detach().numpy().T.copy()
        data[linear.bias] = layer.bias.detach().numpy().copy()
    session.write_variables_data(data)
    images, labels = batch
    arrays = [images.reshape(8, 28, 28).numpy(), labels.int().numpy()]
    inputs = dict(zip(streams, arrays, strict=True))
    session.__enter__()  # attached for the life of the process
    return lambda: session.run(inputs)[loss]
