"""Trains a small convolutional network on handwritten digits, on one emulated IPU.

Without arguments it uses the 1,797 scans in examples/data; --data-dir takes a folder with MNIST's
four files (train-images-idx3-ubyte and so on, plain or .gz).
"""

import argparse

import poptorch
import torch
from digits import DIGITS, load
from torch import nn
from tqdm import tqdm


class Network(nn.Module):
    """Two convolutions and two dense layers. A PopTorch model computes its own loss."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 32, 3), nn.MaxPool2d(2), nn.ReLU(),
            nn.Conv2d(32, 64, 3), nn.MaxPool2d(2), nn.ReLU(),
            nn.Flatten(), nn.Linear(1600, 128), nn.ReLU(), nn.Linear(128, 10),
        )  # fmt: skip
        self.loss = nn.CrossEntropyLoss()

    def forward(self, images, labels=None):
        scores = self.layers(images)
        return scores if labels is None else (scores, self.loss(scores, labels))


def accuracy(model, images, labels, batch):
    """Returns the share of images that the model classifies correctly."""
    found = 0
    for start in range(0, len(labels) - batch + 1, batch):
        scores = model(images[start : start + batch])
        found += (scores.argmax(1) == labels[start : start + batch]).sum().item()
    return found / (len(labels) // batch * batch)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", default=DIGITS, help="folder with MNIST's files")
    parser.add_argument("--epochs", type=int, default=10)
    arguments = parser.parse_args()
    steps, batch_size = 4, 16  # of a call

    torch.manual_seed(0)
    train_images, train_labels = load(arguments.data_dir, "train")
    test_images, test_labels = load(arguments.data_dir, "t10k")

    network = Network()
    optimizer = poptorch.optim.SGD(network.parameters(), lr=0.1)
    options = poptorch.Options().deviceIterations(steps)
    training = poptorch.trainingModel(network, options, optimizer)
    per_call = steps * batch_size

    for epoch in range(arguments.epochs):
        if epoch == int(0.7 * arguments.epochs):  # finish with smaller steps
            training.setOptimizer(poptorch.optim.SGD(network.parameters(), lr=0.02))
        order = torch.randperm(len(train_labels))
        batches = order[: len(order) // per_call * per_call].split(per_call)
        progress = tqdm(batches, f"epoch {epoch + 1}/{arguments.epochs}", unit="call")
        for batch in progress:
            _, loss = training(train_images[batch], train_labels[batch])
            progress.set_postfix(loss=f"{loss.item():.4f}", refresh=False)

    report = training.report()
    used, all_bytes = report["ipus"][0]["needed_bytes"], report["ipus"][0]["capacity_bytes"]
    print(f"IPU 0 held {used / 2**20:.2f} of {all_bytes / 2**20:.0f} MiB")
    print(f"a step took {report['cycles_per_run'] // steps} emulated cycles")
    inference = poptorch.inferenceModel(network)
    share = accuracy(inference, test_images, test_labels, batch=min(40, len(test_labels)))
    print(f"test accuracy: {share:.4f}")


if __name__ == "__main__":
    main()
