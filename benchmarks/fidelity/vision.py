"""Vision models: ViT and ResNet."""

import poptorch
import torch
from torch import nn
from torch.nn import functional

from .bert import PreNormLayer


class ViT(nn.Module):
    """The base vision transformer with patches of 16 × 16."""

    def __init__(self, width=768, layers=12, heads=12, classes=1000, dropout=0.1):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.zeros(1, 197, width))
        self.layers = nn.ModuleList(
            PreNormLayer(width, heads, dropout, dropout) for _ in range(layers)
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, images, labels=None):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        for layer in self.layers:
            x = layer(x, 0.0)
        scores = self.head(self.norm(x)[:, 0])
        if labels is None:
            return scores
        loss = functional.cross_entropy(scores.float(), labels)
        return poptorch.identity_loss(loss, reduction="none")


class Bottleneck(nn.Module):
    """Three convolutions around a shortcut; the stride is in the middle one."""

    def __init__(self, inner, width, stride):
        super().__init__()
        outer = 4 * width
        self.conv1, self.norm1 = nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv3, self.norm3 = nn.Conv2d(width, outer, 1, bias=False), nn.BatchNorm2d(outer)
        self.shortcut = None
        if stride != 1 or inner != outer:
            convolution = nn.Conv2d(inner, outer, 1, stride, bias=False)
            self.shortcut = nn.Sequential(convolution, nn.BatchNorm2d(outer))

    def forward(self, x):
        y = torch.relu(self.norm1(self.conv1(x)))
        y = self.norm3(self.conv3(torch.relu(self.norm2(self.conv2(y)))))
        return torch.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class ResNet50(nn.Module):
    """Version 1.5. Its input has 8-bit channels, which the device normalises."""

    def __init__(self, classes=1000):
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.norm, self.pool = nn.BatchNorm2d(64), nn.MaxPool2d(3, 2, 1)
        blocks, inner = [], 64
        for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for index in range(count):
                blocks.append(Bottleneck(inner, width, stride if index == 0 else 1))
                inner = 4 * width
        self.blocks, self.head = nn.ModuleList(blocks), nn.Linear(2048, classes)

    # Blocks whose inputs are kept; the rest is computed again.
    KEPT = (0, 3, 5, 7, 10, 13)

    def forward(self, images, labels=None):
        x = images.to(self.head.weight.dtype) * (1 / 64) - 2.0
        x = self.pool(torch.relu(self.norm(self.stem(x))))
        for index, block in enumerate(self.blocks):
            if labels is not None and index in self.KEPT:
                x = poptorch.recomputationCheckpoint(x)
            x = block(x)
        scores = self.head(x.mean((2, 3)))
        if labels is None:
            return scores
        loss = functional.cross_entropy(scores.float(), labels)
        return poptorch.identity_loss(loss, reduction="none")


def vit(counts):
    """Returns a function that builds ViT with `counts[i]` layers on IPU i."""

    def build():
        model = ViT()
        first = 0
        for ipu, count in enumerate(counts):
            if ipu:
                poptorch.BeginBlock(model.layers[first], f"layers of IPU {ipu}", ipu_id=ipu)
            first += count
        return model

    return build


def image_inputs(size, dtype, classes=True):
    """Returns a function of the batch that makes images which take no memory."""

    def inputs(batch):
        images = torch.zeros(1, 3, size, size, dtype=dtype).expand(batch, -1, -1, -1)
        labels = torch.zeros(1, dtype=torch.int64).expand(batch)
        return (images, labels) if classes else (images,)

    return inputs
