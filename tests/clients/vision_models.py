"""Networks for images as their papers describe them, but narrow: each gives scores of a batch."""

import torch
from torch import nn


def convolution(inputs, outputs, kernel=3, stride=1, groups=1, activation=nn.ReLU):
    """Returns a convolution that keeps the size at stride 1, its norm, and an activation."""
    layers = [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, *([activation()] if activation else []))


class Residual(nn.Module):
    """Adds the input, or its projection, to `body`, which ends with a norm.

    The norm begins with a small scale, as is common since Goyal et al. (2017). With a scale of 1,
    norms over the four values of a channel would amplify a rounding error by some thousands.
    """

    def __init__(self, body, shortcut=None, activation=None):
        super().__init__()
        nn.init.constant_(body[-1][1].weight, 0.2)
        self.body, self.shortcut = body, shortcut or nn.Identity()
        self.activation = activation or nn.Identity()

    def forward(self, x):
        return self.activation(self.body(x) + self.shortcut(x))


def classifier(width, classes, dropout=0.0):
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(dropout), nn.Linear(width, classes)]
    return nn.Sequential(*head)


def bottleneck(inputs, width, stride):
    body = nn.Sequential(
        convolution(inputs, width, 1),
        convolution(width, width, 3, stride),
        convolution(width, 4 * width, 1, activation=None),
    )
    shortcut = None
    if inputs != 4 * width or stride != 1:
        shortcut = convolution(inputs, 4 * width, 1, stride, activation=None)
    return Residual(body, shortcut, nn.ReLU())


def resnet50(width=4, classes=5):
    """All 50 layers."""
    parts = [nn.Sequential(convolution(3, width, 7, 2), nn.MaxPool2d(3, 2, 1))]
    inputs = width
    for stage, depth in enumerate((3, 4, 6, 3)):
        wide = width << stage
        for block in range(depth):
            parts.append(bottleneck(inputs, wide, 2 if stage and not block else 1))
            inputs = 4 * wide
    return nn.Sequential(*parts, classifier(inputs, classes))


def inverted_residual(inputs, outputs, stride, expand):
    width = inputs * expand
    body = [convolution(inputs, width, 1, activation=nn.ReLU6)] if expand != 1 else []
    body += [
        convolution(width, width, 3, stride, groups=width, activation=nn.ReLU6),
        convolution(width, outputs, 1, activation=None),
    ]
    body = nn.Sequential(*body)
    return Residual(body) if stride == 1 and inputs == outputs else body


def mobilenet_v2(classes=5):
    """Rows: expansion, channels (an eighth), repetitions, stride."""
    rows = [(1, 2, 1, 1), (6, 3, 2, 2), (6, 4, 3, 2), (6, 8, 4, 2), (6, 12, 3, 1), (6, 20, 3, 2),
            (6, 40, 1, 1)]  # fmt: skip
    parts, inputs = [convolution(3, 4, 3, 2, activation=nn.ReLU6)], 4
    for expand, outputs, repeats, stride in rows:
        for i in range(repeats):
            parts.append(inverted_residual(inputs, outputs, 1 if i else stride, expand))
            inputs = outputs
    return nn.Sequential(
        *parts, convolution(inputs, 80, 1, activation=nn.ReLU6), classifier(80, classes)
    )


class SqueezeExcite(nn.Module):
    def __init__(self, width, squeezed):
        super().__init__()
        self.squeeze, self.excite = nn.Conv2d(width, squeezed, 1), nn.Conv2d(squeezed, width, 1)

    def forward(self, x):
        scale = nn.functional.silu(self.squeeze(x.mean((2, 3), keepdim=True)))
        return x * torch.sigmoid(self.excite(scale))


def mbconv(inputs, outputs, kernel, stride, expand):
    width = inputs * expand
    body = [convolution(inputs, width, 1, activation=nn.SiLU)] if expand != 1 else []
    body += [
        convolution(width, width, kernel, stride, groups=width, activation=nn.SiLU),
        SqueezeExcite(width, max(1, inputs // 4)),
        convolution(width, outputs, 1, activation=None),
    ]
    body = nn.Sequential(*body)
    return Residual(body) if stride == 1 and inputs == outputs else body


def efficientnet_b0(classes=5):
    """Rows: expansion, channels (an eighth), repetitions, stride, kernel; no stochastic depth."""
    rows = [(1, 2, 1, 1, 3), (6, 3, 2, 2, 3), (6, 5, 2, 2, 5), (6, 10, 3, 2, 3), (6, 14, 3, 1, 5),
            (6, 24, 4, 2, 5), (6, 40, 1, 1, 3)]  # fmt: skip
    parts, inputs = [convolution(3, 4, 3, 2, activation=nn.SiLU)], 4
    for expand, outputs, repeats, stride, kernel in rows:
        for i in range(repeats):
            parts.append(mbconv(inputs, outputs, kernel, 1 if i else stride, expand))
            inputs = outputs
    return nn.Sequential(
        *parts, convolution(inputs, 160, 1, activation=nn.SiLU), classifier(160, classes)
    )


class UNet(nn.Module):
    """Classifies each pixel: three halvings of the size, and three doublings with skips."""

    def __init__(self, width=4, classes=3):
        super().__init__()
        widths = [width << i for i in range(4)]
        self.down = nn.ModuleList(
            nn.Sequential(convolution(a, b), convolution(b, b))
            for a, b in zip([3, *widths], widths, strict=False)
        )
        self.pool = nn.MaxPool2d(2)
        wide = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in wide)
        self.join = nn.ModuleList(
            nn.Sequential(convolution(2 * b, b), convolution(b, b)) for _, b in wide
        )
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        seen = []
        for number, down in enumerate(self.down):
            x = down(self.pool(x) if number else x)
            seen.append(x)
        for up, join, beside in zip(self.up, self.join, seen[-2::-1], strict=True):
            x = join(torch.cat([beside, up(x)], 1))
        return self.head(x)
