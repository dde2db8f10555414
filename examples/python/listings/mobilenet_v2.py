"""MobileNetV2 of width 1.0, for systems that cannot download torchvision's weights."""

import torch
from torch import nn

# Each row: expansion, channels, repeats, stride of the first repeat.
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def conv(narrow, wide, kernel, stride=1, groups=1, active=True):
    """Returns a convolution with batch norm and, unless it is a projection, ReLU6."""
    layers = [
        nn.Conv2d(narrow, wide, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(wide),
    ]
    return nn.Sequential(*layers, nn.ReLU6(inplace=True)) if active else nn.Sequential(*layers)


class InvertedResidual(nn.Module):
    def __init__(self, narrow, wide, stride, expansion):
        super().__init__()
        self.residual = stride == 1 and narrow == wide
        hidden = narrow * expansion
        layers = [conv(narrow, hidden, 1)] if expansion != 1 else []
        layers += [conv(hidden, hidden, 3, stride, hidden), conv(hidden, wide, 1, active=False)]
        self.conv = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.conv(x) if self.residual else self.conv(x)


class MobileNetV2(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        layers = [conv(3, 32, 3, 2)]
        narrow = 32
        for expansion, wide, repeats, stride in STAGES:
            for i in range(repeats):
                layers.append(InvertedResidual(narrow, wide, stride if i == 0 else 1, expansion))
                narrow = wide
        self.features = nn.Sequential(*layers, conv(narrow, 1280, 1))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")

    def forward(self, x):
        x = nn.functional.adaptive_avg_pool2d(self.features(x), 1)
        return self.classifier(torch.flatten(x, 1))
