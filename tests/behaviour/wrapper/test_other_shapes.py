"""A compilation after others, for other shapes or iterations, makes the text of a first one."""

import sys

import pytest
import zygote

PROGRAM = """
import hashlib, sys
import poptorch, torch

class Unrolled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head = torch.nn.LSTMCell(6, 8), torch.nn.Linear(8, 8)

    def forward(self, x):
        hidden = cell = x.new_zeros(x.shape[0], 8)
        for step in range(x.shape[1]):
            hidden, cell = self.cell(x[:, step, :6], (hidden, cell))
        return self.head(hidden)

def blocks():
    arguments = {"dropout": 0.1, "batch_first": True, "activation": "gelu"}
    layers = [torch.nn.TransformerEncoderLayer(8, 2, 16, **arguments) for _ in range(3)]
    return torch.nn.Sequential(*layers)

def convolutions():
    pair = [torch.nn.Conv1d(4, 4, 3, padding=1), torch.nn.BatchNorm1d(4), torch.nn.ReLU()]
    return torch.nn.Sequential(*pair, *pair)

class WithLoss(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return poptorch.identity_loss(self.model(x).square(), reduction="mean")

torch.manual_seed(1)
kinds = {"unrolled": Unrolled, "blocks": blocks, "convolutions": convolutions}
model = WithLoss(kinds[sys.argv[1]]())
for word in sys.argv[2:]:
    batch, iterations = map(int, word.split("x"))
    options = poptorch.Options().showCompilationProgressBar(False).randomSeed(7)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
    wrapped = poptorch.trainingModel(model, options.deviceIterations(iterations), optimiser)
    wrapped.compile(torch.ones(batch * iterations, 4, 8))
    texts = hashlib.sha256()
    for form in ("traced", "normal", "differentiated", "placed", "program", "bound"):
        texts.update(wrapped.graph(form).encode())
    print(word, texts.hexdigest())
    wrapped.destroy()
"""


def texts(model, *compilations):
    """Returns a line for each compilation of one new process."""
    done = zygote.run(
        [sys.executable, "-c", PROGRAM, model, *compilations],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("model", ["unrolled", "blocks", "convolutions"])
def test_a_second_compilation_has_the_text_of_a_first_one(model):
    together = texts(model, "2x1", "2x3", "5x1", "1x2", "5x1")
    assert len({line.split()[1] for line in together}) == 4
    assert together[-1] == together[2]
    for line in together[1:4]:
        assert texts(model, line.split()[0]) == [line]
