"""A trainer in the style of PyTorch Lightning: modules with hooks, callbacks, fit and validate.

The module defines its loss and its optimiser; the trainer handles the IPUs.
"""

from collections import defaultdict

import poptorch
import torch
from torch import nn


class Module(nn.Module):
    """A module that a trainer can fit. Subclasses define the hooks below."""

    def training_step(self, *batch):
        """Returns the loss of a batch."""
        raise NotImplementedError

    def validation_step(self, *batch):
        """Returns a dict of values to average over the validation data."""
        raise NotImplementedError

    def configure_optimizers(self):
        """Returns an optimiser, or (optimiser, scheduler)."""
        raise NotImplementedError


class Step(nn.Module):
    """Makes a module's step a forward pass, for a wrapper."""

    def __init__(self, module, name):
        super().__init__()
        self.module = module
        self.name = name

    def forward(self, *batch):
        return getattr(self.module, self.name)(*batch)


class Trainer:
    """Fits modules. Calls each of `callbacks` with (trainer, metrics) after every epoch."""

    def __init__(self, max_epochs, options=None, callbacks=()):
        self.max_epochs = max_epochs
        self.options = options or poptorch.Options()
        self.callbacks = callbacks
        self.should_stop = False
        self.history = defaultdict(list)

    def fit(self, module, training_data, validation_data, batch_size):
        configured = module.configure_optimizers()
        optimizer, scheduler = configured if isinstance(configured, tuple) else (configured, None)
        train = poptorch.trainingModel(
            Step(module.train(), "training_step"), self.options, optimizer
        )
        loader = poptorch.DataLoader(self.options, training_data, batch_size, shuffle=True)
        for epoch in range(self.max_epochs):
            losses = [train(*batch) for batch in loader]
            if scheduler is not None:
                scheduler.step()
                train.setOptimizer(optimizer)
            metrics = {"loss": torch.stack(losses).mean().item()}
            metrics |= self.validate(module, validation_data, batch_size)
            for name, value in metrics.items():
                self.history[name].append(value)
            print(f"epoch {epoch}: " + ", ".join(f"{k} {v:.4f}" for k, v in metrics.items()))
            for callback in self.callbacks:
                callback(self, metrics)
            if self.should_stop:
                break
        train.destroy()

    def validate(self, module, data, batch_size):
        options = self.options.clone().outputMode(poptorch.OutputMode.All)
        options.Training.gradientAccumulation(1)
        if not hasattr(self, "_validation"):
            module.eval()
            self._validation = poptorch.inferenceModel(Step(module, "validation_step"), options)
            module.train()
        sums, count = defaultdict(float), 0
        for batch in poptorch.DataLoader(options, data, batch_size):
            for name, value in self._validation(*batch).items():
                sums[name] += value.mean().item()
            count += 1
        return {name: total / count for name, total in sums.items()}


class EarlyStopping:
    """Stops when `metric` has reached `limit`."""

    def __init__(self, metric, limit):
        self.metric = metric
        self.limit = limit

    def __call__(self, trainer, metrics):
        trainer.should_stop = metrics[self.metric] >= self.limit


class Spirals(Module):
    """Classifies points of three spirals."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3)
        )

    def training_step(self, points, arms):
        return nn.functional.cross_entropy(self.layers(points), arms)

    def validation_step(self, points, arms):
        return {"accuracy": (self.layers(points).argmax(1) == arms).float().mean()}

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        return optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)


def spirals(count):
    arms = torch.randint(3, (count,))
    t = torch.rand(count).sqrt()
    angle = 4 * t + arms * (2 * torch.pi / 3) + 0.1 * torch.randn(count)
    points = torch.stack([t * angle.cos(), t * angle.sin()], 1)
    return torch.utils.data.TensorDataset(points, arms)


def main():
    torch.manual_seed(0)
    options = poptorch.Options().deviceIterations(2)
    options.Training.gradientAccumulation(2)
    trainer = Trainer(40, options, [EarlyStopping("accuracy", 0.98)])
    trainer.fit(Spirals(), spirals(3200), spirals(800), batch_size=16)
    print(f"accuracy: {trainer.history['accuracy'][-1]:.3f}")


if __name__ == "__main__":
    main()
