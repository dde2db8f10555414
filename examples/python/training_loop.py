"""A plain training loop: fits a curve, saves and loads the weights, and tests on other points."""

import tempfile
from pathlib import Path

import poptorch
import torch
from torch import nn


class Curve(nn.Module):
    """A small network. In training mode it computes its own loss."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, x, y=None):
        guess = self.layers(x)
        return guess if y is None else (guess, nn.functional.mse_loss(guess, y))


def main():
    torch.manual_seed(0)
    x = torch.rand(4096, 1) * 6 - 3
    points = torch.utils.data.TensorDataset(x, torch.sin(x))

    # One call of the wrapper makes 4 weight updates, each from 2 micro-batches of 16 points.
    options = poptorch.Options().deviceIterations(4)
    options.Training.gradientAccumulation(2)
    options.outputMode(poptorch.OutputMode.All)
    model = Curve()
    optimizer = poptorch.optim.Adam(model.parameters(), lr=1e-2)
    training_model = poptorch.trainingModel(model, options, optimizer)
    loader = poptorch.DataLoader(options, points, batch_size=16, shuffle=True)

    for epoch in range(12):
        losses = [training_model(*batch)[1].mean() for batch in loader]
        print(f"epoch {epoch}: loss {torch.stack(losses).mean():.5f}")

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "curve.pt"
        torch.save(model.state_dict(), file)  # fetches the weights from the device
        restored = Curve()
        restored.load_state_dict(torch.load(file))

    test_x = torch.linspace(-3, 3, 100).reshape(-1, 1)
    inference_model = poptorch.inferenceModel(restored.eval())
    error = (inference_model(test_x) - torch.sin(test_x)).abs().max()
    print(f"largest error: {error:.4f}")


if __name__ == "__main__":
    main()
