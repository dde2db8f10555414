"""Prints a digest of the results of 50 training runs: `python tests/nightly/bits.py`.

Five networks are trained by five optimisers in float32 and in float16. A line for each run has the
digest of its weights; the last line has the digest of all runs and of the goldens of tests/ir.
Compare the output of two versions to see whether a redesign changed any bit.
"""

import hashlib
import itertools
from pathlib import Path

import poptorch
import torch
from torch import nn

STEPS = 4
GOLDENS = Path(__file__).parents[1] / "ir"


class Sequence(nn.Module):
    """An LSTM with a classifier of its last output."""

    def __init__(self):
        super().__init__()
        self.cells, self.head = nn.LSTM(16, 24, batch_first=True), nn.Linear(24, 10)

    def forward(self, x):
        return self.head(self.cells(x)[0][:, -1])


class Attention(nn.Module):
    """A layer of a transformer over embedded tokens."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
        self.head = nn.Linear(32, 10)

    def forward(self, tokens):
        return self.head(self.layer(self.embedding(tokens)).mean(1))


NETWORKS = {
    "dense": lambda: nn.Sequential(
        nn.Linear(40, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 10)
    ),
    "convolution": lambda: nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 16, 3, groups=16), nn.Flatten(), nn.Linear(16 * 16, 10),
    ),
    "grouped": lambda: nn.Sequential(
        nn.Conv2d(3, 16, 1), nn.GroupNorm(4, 16), nn.SiLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Dropout(0.2), nn.Linear(64, 10),
    ),
    "sequence": Sequence,
    "attention": Attention,
}  # fmt: skip
INPUTS = {
    "dense": lambda: torch.randn(8, 40),
    "convolution": lambda: torch.randn(8, 3, 12, 12),
    "grouped": lambda: torch.randn(8, 3, 12, 12),
    "sequence": lambda: torch.randn(8, 7, 16),
    "attention": lambda: torch.randint(0, 50, (8, 9)),
}
OPTIMISERS = {
    "SGD": lambda p: poptorch.optim.SGD(p, lr=0.01, momentum=0.9, use_combined_accum=False),
    "Adam": lambda p: poptorch.optim.Adam(p, lr=1e-3),
    "AdamW": lambda p: poptorch.optim.AdamW(p, lr=1e-3, weight_decay=0.1),
    "RMSprop": lambda p: poptorch.optim.RMSprop(p, lr=1e-3, centered=True),
    "LAMB": lambda p: poptorch.optim.LAMB(p, lr=1e-3),
}


class WithLoss(nn.Module):
    """Returns the network and its loss."""

    def __init__(self, network):
        super().__init__()
        self.network, self.loss = network, nn.CrossEntropyLoss()

    def forward(self, x, labels):
        return self.loss(self.network(x), labels)


def digest_of(network, optimiser, half):
    """Returns the SHA-256 of the weights and buffers after some steps."""
    torch.manual_seed(7)
    model = WithLoss(NETWORKS[network]())
    batches = [(INPUTS[network](), torch.randint(0, 10, (8,))) for _ in range(STEPS)]
    if half:
        model.half()
        batches = [(x.half() if x.is_floating_point() else x, y) for x, y in batches]
    options = poptorch.Options().randomSeed(3).showCompilationProgressBar(False)
    training = poptorch.trainingModel(model, options, OPTIMISERS[optimiser](model.parameters()))
    for batch in batches:
        training(*batch)
    training.copyWeightsToHost()
    bits = hashlib.sha256()
    for tensor in model.state_dict().values():
        bits.update(tensor.numpy().tobytes())
    training.destroy()
    return bits.hexdigest()


def main():
    whole = hashlib.sha256()
    for network, optimiser, half in itertools.product(NETWORKS, OPTIMISERS, (False, True)):
        found = digest_of(network, optimiser, half)
        print(network, optimiser, "float16" if half else "float32", found[:16], flush=True)
        whole.update(found.encode())
    for path in sorted(GOLDENS.rglob("*.ir")):
        whole.update(path.read_bytes())
    print("all", whole.hexdigest())


if __name__ == "__main__":
    main()
