"""The networks of the workloads, as plain torch modules without randomness at run time.

GELU is the tanh form everywhere. Batch is dimension 0 of every input.
"""

import torch
from torch import nn
from torch.nn import functional as F


class Mlp(nn.Module):
    """Linear layers with GELU between them."""

    def __init__(self, *widths: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(narrow, wide) for narrow, wide in zip(widths, widths[1:], strict=False)
        )

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = F.gelu(layer(x), approximate="tanh")
        return self.layers[-1](x)


class DigitsCnn(nn.Module):
    """Two 3x3 convolutions and two linear layers on 28x28 images."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.fc1 = nn.Linear(1600, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return self.fc2(x)


class BasicBlock(nn.Module):
    """ResNet's two 3x3 convolutions with a shortcut."""

    def __init__(self, narrow: int, wide: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(narrow, wide, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(wide)
        self.conv2 = nn.Conv2d(wide, wide, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(wide)
        self.shortcut = nn.Identity()
        if stride != 1 or narrow != wide:
            self.shortcut = nn.Sequential(
                nn.Conv2d(narrow, wide, 1, stride, bias=False), nn.BatchNorm2d(wide)
            )

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet18(nn.Module):
    """ResNet-18 with its 7x7 stem."""

    def __init__(self, classes: int = 200) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn = nn.BatchNorm2d(64)
        blocks = []
        narrow = 64
        for wide, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            blocks += [BasicBlock(narrow, wide, stride), BasicBlock(wide, wide, 1)]
            narrow = wide
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(512, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn(self.stem(x))), 3, 2, 1)
        x = F.adaptive_avg_pool2d(self.blocks(x), 1)
        return self.fc(torch.flatten(x, 1))


class InvertedResidual(nn.Module):
    """MobileNetV2's block: expand, depthwise, project."""

    def __init__(self, narrow: int, wide: int, stride: int, expansion: int) -> None:
        super().__init__()
        self.residual = stride == 1 and narrow == wide
        hidden = narrow * expansion
        layers = []
        if expansion != 1:
            layers += [nn.Conv2d(narrow, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6()]
        layers += [
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(),
            nn.Conv2d(hidden, wide, 1, bias=False),
            nn.BatchNorm2d(wide),
        ]
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        y = self.layers(x)
        return x + y if self.residual else y


class MobileNetV2(nn.Module):
    """MobileNetV2 of width 1.0."""

    # columns: expansion, channels, repeats, stride of the first
    STAGES = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()]
        narrow = 32
        for expansion, wide, repeats, first_stride in self.STAGES:
            for i in range(repeats):
                stride = first_stride if i == 0 else 1
                layers.append(InvertedResidual(narrow, wide, stride, expansion))
                narrow = wide
        layers += [nn.Conv2d(narrow, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU6()]
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(1280, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):  # the default would fade to nothing over 50 layers
                nn.init.kaiming_normal_(module.weight, mode="fan_out")

    def forward(self, x):
        x = F.adaptive_avg_pool2d(self.features(x), 1)
        return self.classifier(torch.flatten(x, 1))


class Attention(nn.Module):
    """Multi-head self-attention with one projection for q, k and v."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.head_width, self.causal = heads, width // heads, causal
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        split = (*x.shape[:2], self.heads, self.head_width)
        q, k, v = (t.view(split).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(x.shape))


class TransformerLayer(nn.Module):
    """Attention and a feed-forward block of four times the width, post-norm or pre-norm."""

    def __init__(self, width: int, heads: int, pre_norm: bool, causal: bool) -> None:
        super().__init__()
        self.pre_norm = pre_norm
        self.attention = Attention(width, heads, causal)
        self.norm1 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.norm2 = nn.LayerNorm(width)

    def feed_forward(self, x):
        return self.down(F.gelu(self.up(x), approximate="tanh"))

    def forward(self, x):
        if self.pre_norm:
            x = x + self.attention(self.norm1(x))
            return x + self.feed_forward(self.norm2(x))
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.feed_forward(x))


class BertSmall(nn.Module):
    """Post-norm encoder of 4 layers with a pooled classifier of 2 classes."""

    VOCABULARY = 30522

    def __init__(self, width: int = 256, heads: int = 4, layers: int = 4, length: int = 128):
        super().__init__()
        self.tokens = nn.Embedding(self.VOCABULARY, width)
        self.positions = nn.Parameter(torch.empty(length, width))
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(
            TransformerLayer(width, heads, pre_norm=False, causal=False) for _ in range(layers)
        )
        self.pooler = nn.Linear(width, width)
        self.classifier = nn.Linear(width, 2)
        _initialise_transformer(self)

    def forward(self, ids):
        x = self.norm(self.tokens(ids) + self.positions)
        for layer in self.layers:
            x = layer(x)
        return self.classifier(torch.tanh(self.pooler(x[:, 0])))


class Gpt2Mini(nn.Module):
    """Pre-norm causal decoder of 6 layers whose head shares the token embedding."""

    VOCABULARY = 8192

    def __init__(self, width: int = 384, heads: int = 6, layers: int = 6, length: int = 256):
        super().__init__()
        self.tokens = nn.Embedding(self.VOCABULARY, width)
        self.positions = nn.Parameter(torch.empty(length, width))
        self.layers = nn.ModuleList(
            TransformerLayer(width, heads, pre_norm=True, causal=True) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        _initialise_transformer(self)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions
        for layer in self.layers:
            x = layer(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return torch.flatten(logits, 0, 1)


class LstmClassifier(nn.Module):
    """One LSTM layer; the last hidden state is classified."""

    def __init__(self, width: int = 128, hidden: int = 256, classes: int = 10) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, hidden, batch_first=True)
        self.fc = nn.Linear(hidden, classes)

    def forward(self, x):
        y, _ = self.lstm(x)
        return self.fc(y[:, -1])


class WithLoss(nn.Module):
    """A classifier with its cross-entropy: forward(*inputs, target) returns the loss."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, *batch):
        *inputs, target = batch
        return F.cross_entropy(self.network(*inputs), torch.flatten(target))


def _initialise_transformer(module: nn.Module) -> None:
    """Matrices from N(0, 0.02), vectors as torch leaves them."""
    for parameter in module.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.02)
