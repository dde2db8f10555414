"""Trains a small network on the scans of digits in examples/data and exports it for serve.cpp."""

import argparse
import sys
from pathlib import Path

import poptorch
import torch
from torch import nn

sys.path.append(str(Path(__file__).resolve().parents[2] / "python"))
from digits import DIGITS, read_idx

BATCH = 32


class Network(nn.Module):
    """Takes scans of 8 x 8 pixels from 0 to 1. Given labels, it also returns the loss."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            *[nn.Unflatten(1, (1, 8)), nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Flatten()],
            *[nn.Linear(32 * 36, 64), nn.ReLU(), nn.Linear(64, 10)],
        )
        self.loss = nn.CrossEntropyLoss()

    def forward(self, images, labels=None):
        scores = self.layers(images)
        return scores if labels is None else (scores, self.loss(scores, labels))


def load(part):
    """Returns images, float32 [n, 8, 8] in 0..1, and labels."""
    images = read_idx(DIGITS, f"{part}-images-idx3-ubyte").float() / 255
    return images, read_idx(DIGITS, f"{part}-labels-idx1-ubyte").long()


def main(executable, answers):
    torch.manual_seed(0)
    options = poptorch.Options().showCompilationProgressBar(False)
    network = Network()
    optimizer = torch.optim.Adam(network.parameters(), 2e-3)
    training = poptorch.trainingModel(network, options, optimizer)
    images, labels = load("train")
    for _ in range(15):
        for batch in torch.randperm(len(labels))[: len(labels) // BATCH * BATCH].split(BATCH):
            training(images[batch], labels[batch])
    training.destroy()

    inference = poptorch.inferenceModel(network.eval(), options)
    images, labels = load("t10k")
    inference.compileAndExport(executable, images[:BATCH])
    padded = torch.cat([images, images.new_zeros(-len(images) % BATCH, 8, 8)])
    found = torch.cat([inference(batch) for batch in padded.split(BATCH)]).argmax(1)
    found = found[: len(labels)]
    Path(answers).write_text("".join(f"{digit}\n" for digit in found.tolist()))
    print(f"test accuracy: {(found == labels).float().mean().item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("executable", help="the file to write")
    parser.add_argument("answers", help="a file for the model's own answers, one digit a line")
    arguments = parser.parse_args()
    main(arguments.executable, arguments.answers)
