"""Trains a LightningModule on two replicas: Trainer(accelerator="ipu", devices=2)."""

import poptorch  # noqa: F401  (it registers the accelerator)
import pytorch_lightning as pl
import torch
from digits import DIGITS, load
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Digits(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 5, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 5, stride=2), nn.ReLU(),
            nn.Flatten(), nn.Linear(512, 10),
        )  # fmt: skip

    def training_step(self, batch, batch_idx):
        images, labels = batch
        return nn.functional.cross_entropy(self.layers(images), labels)

    def validation_step(self, batch, batch_idx):
        images, labels = batch
        self.log("accuracy", (self.layers(images).argmax(1) == labels).float().mean())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-3)


def main():
    pl.seed_everything(0)
    train, test = (TensorDataset(*load(DIGITS, part)) for part in ("train", "t10k"))
    trainer = pl.Trainer(
        accelerator="ipu", devices=2, max_epochs=4, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(
        Digits(),
        DataLoader(train, batch_size=16, shuffle=True, drop_last=True),
        DataLoader(test, batch_size=16, drop_last=True),
    )
    print(f"accuracy: {trainer.callback_metrics['accuracy']:.3f}")


if __name__ == "__main__":
    main()
