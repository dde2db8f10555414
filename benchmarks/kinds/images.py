"""Convolutional networks: encoder-decoders, dilated, 3-d, depthwise and grouped convolutions."""

import torch
from torch import nn
from torch.nn import functional as F


def _twice(narrow: int, wide: int) -> nn.Sequential:
    layers = []
    for channels in (narrow, wide):
        layers += [nn.Conv2d(channels, wide, 3, padding=1, bias=False), nn.BatchNorm2d(wide)]
        layers += [nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Encoder and decoder with concatenation; upward by a transposed and a bilinear step."""

    def __init__(self, width: int = 32, classes: int = 2) -> None:
        super().__init__()
        self.down1, self.down2 = _twice(3, width), _twice(width, 2 * width)
        self.bottom = _twice(2 * width, 4 * width)
        self.transposed = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2)
        self.up2 = _twice(4 * width, 2 * width)
        self.up1 = _twice(3 * width, width)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        first = self.down1(x)
        second = self.down2(F.max_pool2d(first, 2))
        x = self.transposed(self.bottom(F.max_pool2d(second, 2)))
        x = self.up2(torch.cat([second, x], 1))
        x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        x = self.head(self.up1(torch.cat([first, x], 1)))
        return x.permute(0, 2, 3, 1).flatten(0, 2)


class WaveNet(nn.Module):
    """Ten causal dilated convolutions with gates, residuals and skips, as WaveNet's first cycle."""

    def __init__(self, residual: int = 32, skip: int = 128, classes: int = 256) -> None:
        super().__init__()
        self.samples = nn.Embedding(classes, residual)
        self.gated = nn.ModuleList(
            nn.Conv1d(residual, 2 * residual, 2, dilation=2**i) for i in range(10)
        )
        self.residual = nn.ModuleList(nn.Conv1d(residual, residual, 1) for _ in range(10))
        self.skip = nn.ModuleList(nn.Conv1d(residual, skip, 1) for _ in range(10))
        self.head = nn.Sequential(
            nn.ReLU(), nn.Conv1d(skip, skip, 1), nn.ReLU(), nn.Conv1d(skip, classes, 1)
        )

    def forward(self, ids):
        x = self.samples(ids).transpose(1, 2)
        total = 0
        for gated, residual, skip in zip(self.gated, self.residual, self.skip, strict=True):
            filtered, gate = gated(F.pad(x, (gated.dilation[0], 0))).chunk(2, 1)
            y = torch.tanh(filtered) * torch.sigmoid(gate)
            x = x + residual(y)
            total = total + skip(y)
        return self.head(total).transpose(1, 2).flatten(0, 1)


class Video(nn.Module):
    """The stem and two residual stages of R3D-18."""

    def __init__(self, classes: int = 101) -> None:
        super().__init__()
        self.stem = nn.Conv3d(3, 64, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False)
        self.stem_norm = nn.BatchNorm3d(64)
        self.conv1 = nn.Conv3d(64, 64, 3, 1, 1, bias=False)
        self.norm1 = nn.BatchNorm3d(64)
        self.conv2 = nn.Conv3d(64, 128, 3, 2, 1, bias=False)
        self.norm2 = nn.BatchNorm3d(128)
        self.shortcut = nn.Conv3d(64, 128, 1, 2, bias=False)
        self.fc = nn.Linear(128, classes)

    def forward(self, x):
        x = F.relu(self.stem_norm(self.stem(x)))
        x = x + F.relu(self.norm1(self.conv1(x)))
        x = F.relu(self.norm2(self.conv2(x)) + self.shortcut(x))
        return self.fc(x.mean((2, 3, 4)))


class SqueezeExcite(nn.Module):
    """EfficientNet's gate for each channel from the mean over the image."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)

    def forward(self, x):
        gate = self.up(F.silu(self.down(F.adaptive_avg_pool2d(x, 1))))
        return x * torch.sigmoid(gate)


class EfficientNet(nn.Module):
    """The first four stages of EfficientNet-B0."""

    # columns: expansion, channels, repeats, stride, kernel
    STAGES = ((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3))

    def __init__(self, classes: int = 100) -> None:
        super().__init__()
        layers = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.SiLU()]
        narrow = 32
        for expansion, wide, repeats, stride, kernel in self.STAGES:
            for i in range(repeats):
                layers.append(_Mobile(narrow, wide, stride if i == 0 else 1, expansion, kernel))
                narrow = wide
        self.features = nn.Sequential(*layers)
        self.fc = nn.Linear(narrow, classes)

    def forward(self, x):
        return self.fc(self.features(x).mean((2, 3)))


class _Mobile(nn.Module):
    def __init__(self, narrow: int, wide: int, stride: int, expansion: int, kernel: int) -> None:
        super().__init__()
        hidden = narrow * expansion
        layers = []
        if expansion != 1:
            layers += [nn.Conv2d(narrow, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.SiLU()]
        layers += [
            nn.Conv2d(hidden, hidden, kernel, stride, kernel // 2, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.SiLU(),
            SqueezeExcite(hidden, narrow // 4),
            nn.Conv2d(hidden, wide, 1, bias=False),
            nn.BatchNorm2d(wide),
        ]
        self.layers, self.residual = nn.Sequential(*layers), stride == 1 and narrow == wide

    def forward(self, x):
        y = self.layers(x)
        return x + y if self.residual else y


class ResNeXt(nn.Module):
    """The first stage of ResNeXt-50 32x4d on its 56 x 56 images."""

    def __init__(self, classes: int = 100) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(
                *(nn.Conv2d(narrow, 128, 1, bias=False), nn.BatchNorm2d(128), nn.ReLU()),
                *(nn.Conv2d(128, 128, 3, 1, 1, groups=32, bias=False), nn.BatchNorm2d(128)),
                *(nn.ReLU(), nn.Conv2d(128, 256, 1, bias=False), nn.BatchNorm2d(256)),
            )
            for narrow in (64, 256, 256)
        )
        self.shortcut = nn.Conv2d(64, 256, 1, bias=False)
        self.fc = nn.Linear(256, classes)

    def forward(self, x):
        x = F.relu(self.blocks[0](x) + self.shortcut(x))
        for block in self.blocks[1:]:
            x = F.relu(block(x) + x)
        return self.fc(x.mean((2, 3)))
