"""A model of a thousand layers compiles in five seconds of CPU time: `python
tests/nightly/deep.py`.
"""

import sys
import time

import poptorch
import torch

LAYERS, SECONDS = 1000, 5


class Deep(torch.nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(16, 16) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = torch.nn.functional.gelu(layer(x), approximate="tanh")
        return poptorch.identity_loss(x, reduction="sum")


def main():
    x = torch.randn(4, 16)
    poptorch.trainingModel(Deep(2)).compile(x)  # costs of the first trace of a process
    wrapped = poptorch.trainingModel(Deep(LAYERS))
    start = time.process_time()
    wrapped.compile(x)
    seconds = time.process_time() - start
    print(f"deep: {LAYERS} layers compile in {seconds:.2f} s of CPU time, at most {SECONDS}")
    return int(seconds > SECONDS)


if __name__ == "__main__":
    sys.exit(main())
