"""Trains in float16 with a constant loss scale, with an automatic one, and in float32."""

import poptorch
import torch
from digits import DIGITS, load
from torch import nn


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, images, labels):
        scores = self.layers(images)
        return scores, nn.functional.cross_entropy(scores.float(), labels)


def train(images, labels, dtype, loss_scaling=1.0, automatic=False):
    torch.manual_seed(0)
    network = Network().to(dtype)
    options = poptorch.Options().showCompilationProgressBar(False)
    options.Precision.enableStochasticRounding(dtype is torch.half)
    options.Training.gradientAccumulation(4).setAutomaticLossScaling(automatic)
    optimizer = poptorch.optim.SGD(
        network.parameters(), lr=0.1, loss_scaling=loss_scaling, use_combined_accum=False
    )
    training = poptorch.trainingModel(network, options, optimizer)
    for _ in range(6):
        for part in torch.randperm(len(labels))[:1408].split(64):
            _, loss = training(images[part].to(dtype), labels[part])
    return training.report()["ipus"][0]["weight_bytes"] / 1024, loss.mean().item()


def main():
    images, labels = load(DIGITS, "train")
    rows = {
        "float32": train(images, labels, torch.float),
        "float16, loss scale 128": train(images, labels, torch.half, 128.0),
        "float16, automatic": train(images, labels, torch.half, automatic=True),
    }
    for name, (size, loss) in rows.items():
        print(f"{name}: {size:.0f} KiB of weights, last loss {loss:.3f}")


if __name__ == "__main__":
    main()
