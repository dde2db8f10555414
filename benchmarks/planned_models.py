"""The models whose cuts benchmarks.plans compares with all others."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from benchmarks import models
from benchmarks.gpt2 import Gpt2
from benchmarks.kinds.images import UNet
from benchmarks.kinds.transformers import VisionTransformer
from benchmarks.models import WithLoss

ADAM = ("AdamW", {"lr": 1e-4})
SGD = ("SGD", {"lr": 0.01, "momentum": 0.9})


class LstmStack(nn.Module):
    """LSTM layers of different widths, one after the other; the last state is classified."""

    def __init__(self, widths: tuple[int, ...], classes: int = 10) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.LSTM(narrow, wide, batch_first=True)
            for narrow, wide in zip(widths, widths[1:], strict=False)
        )
        self.fc = nn.Linear(widths[-1], classes)

    def forward(self, x):
        for layer in self.layers:
            x, _ = layer(x)
        return self.fc(x[:, -1])


class ExpertLayer(nn.Module):
    """Experts whose results each token weights by its two best scores."""

    def __init__(self, width: int, hidden: int, experts: int) -> None:
        super().__init__()
        self.norm, self.router = nn.LayerNorm(width), nn.Linear(width, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width))
            for _ in range(experts)
        )

    def forward(self, x):
        tokens = self.norm(x)
        scores = torch.softmax(self.router(tokens), -1)
        best, where = scores.topk(2, -1)
        share = torch.zeros_like(scores).scatter(-1, where, best / best.sum(-1, keepdim=True))
        for index, expert in enumerate(self.experts):
            x = x + expert(tokens) * share[:, index : index + 1]
        return x


class MixtureOfExperts(nn.Module):
    """Layers with more and more experts, and a classifier of each token."""

    def __init__(self, width: int, hidden: int, experts: tuple[int, ...], classes: int = 64):
        super().__init__()
        self.layers = nn.Sequential(*(ExpertLayer(width, hidden, count) for count in experts))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.layers(x))


class Segmented(nn.Module):
    """A network with a class for each pixel: its classes become rows of the loss."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images, target):
        scores = self.network(images)
        return functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), target.flatten())


@dataclass(frozen=True)
class PlannedModel:
    """A training model with the numbers of IPUs that it is planned for."""

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[], tuple]
    optimiser: tuple[str, dict]
    ipus: tuple[int, ...]

    def made(self) -> tuple[nn.Module, tuple, torch.optim.Optimizer]:
        """Returns the model, the inputs and the optimiser, on device "meta"."""
        with torch.device("meta"):
            model, inputs = self.build(), self.inputs()
        name, arguments = self.optimiser
        return model, inputs, getattr(torch.optim, name)(model.parameters(), **arguments)


def _images(batch: int, size: int, channels: int = 3) -> Callable[[], tuple]:
    return lambda: (torch.empty(batch, channels, size, size), _classes(batch))


def _classes(*shape: int):
    return torch.empty(shape, dtype=torch.int32)


def _rows(*shape: int) -> Callable[[], tuple]:
    return lambda: (torch.empty(shape), _classes(shape[0]))


def planned_models() -> list[PlannedModel]:
    """Returns the eight models."""
    widths = (64, 2048, 2048, 256, 4096, 1024, 1024, 512, 3072, 256, 10)
    return [
        PlannedModel(
            "uneven MLP", lambda: WithLoss(models.Mlp(*widths)), _rows(64, 64), SGD, (2, 3, 4)
        ),
        PlannedModel(
            "ResNet-18", lambda: WithLoss(models.ResNet18()), _images(16, 64), SGD, (2, 3, 4)
        ),
        PlannedModel(
            "U-Net",
            lambda: Segmented(UNet()),
            lambda: (torch.empty(2, 3, 96, 96), _classes(2, 96 * 96)),
            SGD,
            (2, 3, 4),
        ),
        PlannedModel(
            "LSTM stack",
            lambda: WithLoss(LstmStack((128, 256, 512, 256, 256, 128, 384, 256))),
            _rows(16, 64, 128),
            SGD,
            (2, 3, 4),
        ),
        PlannedModel(
            "BERT-small",
            lambda: WithLoss(models.BertSmall()),
            lambda: (_classes(8, 128), _classes(8)),
            ADAM,
            (2, 3, 4),
        ),
        PlannedModel(
            "GPT-2-mini",
            lambda: Gpt2(384, 6, 6, 256, 8192),
            lambda: (_classes(4, 256), _classes(4, 256)),
            ADAM,
            (2, 3, 4),
        ),
        PlannedModel(
            "ViT", lambda: WithLoss(VisionTransformer()), _images(4, 224), ADAM, (2, 3, 4)
        ),
        PlannedModel(
            "mixture of experts",
            lambda: WithLoss(MixtureOfExperts(256, 512, (2, 4, 6, 8))),
            _rows(256, 256),
            ADAM,
            (2, 3, 4),
        ),
    ]  # fmt: skip
