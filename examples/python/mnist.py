"""Trains a small convolutional network on handwritten digits, on one emulated IPU.

Without arguments it uses the 1,797 scans in examples/data; --data-dir takes a folder with MNIST's
four files (train-images-idx3-ubyte and so on, plain or .gz).
"""

import argparse
import time

import poptorch
import torch
from digits import DIGITS, load
from torch import nn


class Network(nn.Module):
    """Two convolutions and two dense layers. A PopTorch model computes its own loss."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            *[nn.Conv2d(1, 32, 3), nn.MaxPool2d(2), nn.ReLU()],
            *[nn.Conv2d(32, 64, 3), nn.MaxPool2d(2), nn.ReLU()],
            *[nn.Flatten(), nn.Linear(1600, 128), nn.ReLU(), nn.Linear(128, 10)],
        )
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


def describe(report):
    """Prints the memory that each emulated IPU held."""
    for ipu, memory in enumerate(report["ipus"]):
        used = memory["state_bytes"] + memory["arena_bytes"] + memory["code_bytes"]
        print(
            f"IPU {ipu} held {used / 2**20:.2f} of {memory['capacity_bytes'] / 2**20:.0f} MiB: "
            f"{memory['state_bytes'] / 2**20:.2f} weights and optimiser state, "
            f"{memory['arena_bytes'] / 2**20:.2f} activations, "
            f"{memory['code_bytes'] / 2**20:.2f} code"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", default=DIGITS, help="folder with MNIST's files")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--device-iterations", type=int, default=4, help="steps a call")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    train_images, train_labels = load(arguments.data_dir, "train")
    test_images, test_labels = load(arguments.data_dir, "t10k")
    print(f"{len(train_labels)} training and {len(test_labels)} test images")

    network = Network()
    optimizer = poptorch.optim.SGD(network.parameters(), lr=0.1)
    options = poptorch.Options().deviceIterations(arguments.device_iterations)
    training = poptorch.trainingModel(network, options, optimizer)
    per_call = arguments.batch_size * arguments.device_iterations

    for epoch in range(arguments.epochs):
        if epoch == int(0.7 * arguments.epochs):  # finish with smaller steps
            training.setOptimizer(poptorch.optim.SGD(network.parameters(), lr=0.02))
        order = torch.randperm(len(train_labels))
        batches = order[: len(order) // per_call * per_call].split(per_call)
        started, loss = time.perf_counter(), 0.0
        for count, batch in enumerate(batches):
            loss += training(train_images[batch], train_labels[batch])[1].item()
            rate = (count + 1) * per_call / (time.perf_counter() - started)
            print(
                f"\repoch {epoch + 1}/{arguments.epochs}: {100 * (count + 1) // len(batches):3d}%  "
                f"loss {loss / (count + 1):.4f}  {rate:.0f} images/s",
                end="",
                flush=True,
            )
        print()

    report = training.report()
    describe(report)
    print(
        f"a step took {report['cycles_per_run'] // arguments.device_iterations} emulated cycles, "
        f"{1e6 * report['seconds_per_run'] / arguments.device_iterations:.1f} us on the device"
    )
    inference = poptorch.inferenceModel(network)
    share = accuracy(inference, test_images, test_labels, batch=min(40, len(test_labels)))
    print(f"test accuracy: {share:.4f}")


if __name__ == "__main__":
    main()
