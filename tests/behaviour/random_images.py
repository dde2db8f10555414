"""Makes random networks of images for test_random_images.py: layers of many kinds, then a head.

Convolutions, pools and norms prefer memory with the channels last; other layers do not.
"""

import poptorch
import torch
from torch import nn
from torch.nn import functional as F

CLASSES = 5
BATCH = 4
MOST_ELEMENTS = 6000  # of an image between layers

ACTIVATIONS = ("relu", "gelu", "silu", "sigmoid", "tanh", "hardswish", "leaky_relu", "elu",
               "softplus", "relu6", "mish")  # fmt: skip


class Apply(nn.Module):
    """A function as a layer."""

    def __init__(self, name, function):
        super().__init__()
        self.name, self.function = name, function

    def forward(self, x):
        return self.function(x)

    def extra_repr(self):
        return self.name


class Joined(nn.Module):
    """The input and a layer's result, joined by a function of both."""

    JOINTS = {
        "add": lambda x, y: x + y,
        "gate": lambda x, y: x * torch.sigmoid(y),
        "difference": lambda x, y: torch.relu(x - y),
        "cat": lambda x, y: torch.cat([x, y], 1),
    }

    def __init__(self, layer, joint):
        super().__init__()
        self.layer, self.joint = layer, joint

    def forward(self, x):
        return self.JOINTS[self.joint](x, self.layer(x))

    def extra_repr(self):
        return self.joint


class Squeeze(nn.Module):
    """Weighs the channels by a function of their means."""

    def __init__(self, channels):
        super().__init__()
        self.down, self.up = nn.Linear(channels, 4), nn.Linear(4, channels)

    def forward(self, x):
        weights = torch.sigmoid(self.up(F.silu(self.down(x.mean((2, 3))))))
        return x * weights[:, :, None, None]


class Tokens(nn.Module):
    """Takes the pixels as tokens: a norm, and then attention or a linear layer."""

    def __init__(self, channels, attends):
        super().__init__()
        self.attends, self.norm = attends, nn.LayerNorm(channels)
        self.linear = nn.Linear(channels, channels * (3 if attends else 1))

    def forward(self, x):
        tokens = x.flatten(2).transpose(1, 2)
        y = self.linear(self.norm(tokens))
        y = F.scaled_dot_product_attention(*y.chunk(3, -1)) if self.attends else F.gelu(y)
        return (tokens + y).transpose(1, 2).reshape(x.shape)


class Rows(nn.Module):
    """Takes the rows of pixels as moments of a recurrent layer."""

    def __init__(self, features, kind):
        super().__init__()
        self.inner = kind(features, features, batch_first=True)

    def forward(self, x):
        count, channels, height, width = x.shape
        y = self.inner(x.transpose(1, 2).flatten(2))[0]
        return y.view(count, height, channels, width).transpose(1, 2)


class Signal(nn.Module):
    """Takes the pixels as a signal: a dilated convolution whose result is divided and gated."""

    def __init__(self, channels, kernel, dilation):
        super().__init__()
        sides = dilation * (kernel - 1)
        self.padding = nn.ConstantPad1d((sides, 0), 0.0)
        self.gated = nn.Conv1d(channels, 2 * channels, kernel, dilation=dilation)
        self.mixed = nn.Conv1d(channels, channels, 1)

    def forward(self, x):
        signal = x.flatten(2)
        filtered, gate = self.gated(self.padding(signal)).chunk(2, 1)
        return (signal + self.mixed(torch.tanh(filtered) * torch.sigmoid(gate))).view(x.shape)


def _signal(rng, channels, *_):
    return Signal(channels, rng.choice([1, 2, 3]), rng.choice([1, 2]))


def _activation(rng, *_):
    name = rng.choice(ACTIVATIONS)
    return Apply(name, getattr(F, name))


def _convolution(rng, channels, *_):
    made, groups = rng.choice([1, 3, 4, 6, 8, 16, 33]), rng.choice([1, 1, 1, 2])
    groups = 1 if channels % groups or made % groups else groups
    kernel, dilation = rng.choice([1, 3, 3, 5]), rng.choice([1, 1, 1, 2])
    return nn.Conv2d(channels, made, kernel, rng.choice([1, 1, 2]),
                     rng.choice([0, 1, kernel // 2 * dilation]), dilation, groups,
                     bias=rng.random() < 0.7)  # fmt: skip


def _depthwise(rng, channels, *_):
    kernel = rng.choice([3, 5])
    made = channels * rng.choice([1, 1, 2])
    return nn.Conv2d(channels, made, kernel, rng.choice([1, 2]), kernel // 2, groups=channels)


def _transposed(rng, channels, *_):
    geometry = rng.choice([(2, 2, 0), (3, 1, 1), (4, 2, 1)])
    return nn.ConvTranspose2d(channels, rng.choice([1, 3, 8]), *geometry)


def _pool(rng, *_):
    kind = rng.choice([nn.MaxPool2d, nn.AvgPool2d])
    return kind(*rng.choice([(2,), (3, 2, 1), (3, 1, 1), (2, 1)]))


def _adaptive_pool(rng, *_):
    return rng.choice([nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d])(rng.choice([1, 2, 3]))


def _norm(rng, channels, height, width):
    groups = rng.choice([count for count in (1, 2, 3, 4) if channels % count == 0])
    return rng.choice([nn.BatchNorm2d(channels), nn.BatchNorm2d(channels),
                       nn.GroupNorm(groups, channels), nn.LayerNorm((channels, height, width)),
                       Apply("normalize", lambda x: F.normalize(x, dim=1, eps=1e-3))])  # fmt: skip


def _joined(rng, channels, *_):
    joint = rng.choice(list(Joined.JOINTS))
    made = rng.choice([1, 4, 8]) if joint == "cat" else channels
    layer = nn.Conv2d(channels, made, rng.choice([1, 3]), padding="same")
    return Joined(nn.Sequential(layer, _activation(rng)), joint)


def _tokens(rng, channels, *_):
    return rng.choice([Tokens(channels, True), Tokens(channels, False), Squeeze(channels)])


def _rows(rng, channels, _, width):
    kinds = [nn.LSTM, nn.GRU, nn.RNN]
    return Rows(channels * width, rng.choice(kinds)) if channels * width <= 40 else None


def _resized(rng, channels, height, _):
    if height >= 8:
        return nn.PixelUnshuffle(2)
    sizes = [{"scale_factor": 2}, {"scale_factor": 2, "mode": "bilinear"}, {"size": (5, 7)}]
    return nn.PixelShuffle(2) if channels % 4 == 0 else nn.Upsample(**rng.choice(sizes))


def _padded(rng, *_):
    mode = rng.choice(["constant", "reflect", "replicate"])
    sides = rng.choice([(1, 1, 1, 1), (0, 1, 1, 0)])
    return Apply(mode, lambda x: F.pad(x, sides, mode=mode))


VIEWS = {
    "flip": lambda x: x.flip(3),
    "roll": lambda x: x.roll(1, 2),
    "transpose": lambda x: x.transpose(2, 3),
    "steps": lambda x: x[:, :, ::2],
    "slice": lambda x: x[:, :, :, 1:],
    "permute": lambda x: x.permute(0, 2, 1, 3),
    "half": lambda x: x[:, : (x.shape[1] + 1) // 2],
    "reshape": lambda x: x.reshape(x.shape[0], x.shape[2], x.shape[1], x.shape[3]),
    "repeat": lambda x: x.repeat(1, 2, 1, 1),
    "chosen": lambda x: x[:, [0, x.shape[1] - 1, 0]],
    "stack": lambda x: torch.stack([x, x * x], 2).flatten(1, 2),
}
FUNCTIONS = {
    "softmax of channels": lambda x: x.softmax(1) * 2,
    "softmax of rows": lambda x: x.softmax(3) * 2,
    "centre of channels": lambda x: x - x.mean(1, keepdim=True),
    "centre of images": lambda x: x - x.mean((2, 3), keepdim=True),
    "sums of columns": lambda x: x.cumsum(2) * 0.3,
    "sums of channels": lambda x: x.cumsum(1) * 0.3,
    "limits": lambda x: x.clamp(-1, 1).square() + x.abs().amax(1, keepdim=True) * 0.1,
    "halves": lambda x: torch.prod(torch.stack(x.chunk(2, 1)), 0),
}


def _view(rng, *_):
    name = rng.choice(list(VIEWS))
    return Apply(name, VIEWS[name])


def _function(rng, *_):
    name = rng.choice(list(FUNCTIONS))
    return Apply(name, FUNCTIONS[name])


# Convolutions, pools and norms come more often.
LAYERS = (_convolution, _convolution, _convolution, _depthwise, _transposed, _pool, _pool,
          _adaptive_pool, _norm, _norm, _joined, _joined, _activation, _activation, _tokens, _rows,
          _signal, _resized, _padded, _view, _view, _function)  # fmt: skip


class Network(nn.Module):
    """Layers and a head. The layers from number `cut` on are on IPU 1; None: all are on one."""

    def __init__(self, layers, head, picks_classes):
        super().__init__()
        self.layers, self.head = nn.ModuleList(layers), head
        self.picks_classes, self.cut = picks_classes, None

    def forward(self, x, classes, target):
        if self.cut is not None:
            poptorch.Block.start("first", ipu_id=0)
        for number, layer in enumerate(self.layers):
            if number == self.cut:
                poptorch.Block.start("second", ipu_id=1)
            x = layer(x)
        y = self.head(x)
        loss = F.cross_entropy(y, classes) if self.picks_classes else F.mse_loss(y, target)
        return y, poptorch.identity_loss(loss, "none")


def _fits(x):
    # Norms of images that are nearly constant would have the values of rounding errors.
    spread = x.flatten(1).var(1, unbiased=False)
    return spread.min() > 1e-3 and x.abs().max() < 100 and x.numel() <= BATCH * MOST_ELEMENTS


def _random_layer(rng, x):
    """Returns a layer that takes x, and its result."""
    while True:
        layer = rng.choice(LAYERS)(rng, *x.shape[1:])
        if layer is None:
            continue
        try:
            y = layer(x)
        except (RuntimeError, ValueError):  # the image is too small, or its channels do not divide
            continue
        if _fits(y):
            return layer, y


def _random_head(rng, x):
    channels, kind = x.shape[1], rng.randrange(3)
    if kind == 0:
        return nn.Sequential(nn.Flatten(), nn.Linear(x[0].numel(), CLASSES))
    if kind == 1:
        means = Apply("means", lambda x: x.mean((2, 3)))
        return nn.Sequential(means, nn.Linear(channels, CLASSES))
    return nn.Sequential(nn.Conv2d(channels, CLASSES, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())


@torch.no_grad()
def random_network(rng, generator):
    """Returns a network of two to eight layers, and its inputs."""
    sizes = rng.choice([1, 3, 4]), rng.choice([6, 8, 9, 12]), rng.choice([6, 8, 12])
    x = first = torch.randn(BATCH, *sizes, generator=generator)
    layers = []
    for _ in range(rng.randint(2, 8)):
        layer, x = _random_layer(rng, x)
        layers.append(layer)
    network = Network(layers, _random_head(rng, x), rng.random() < 0.5)
    classes = torch.randint(CLASSES, (BATCH,), generator=generator)
    return network, (first, classes, torch.randn(BATCH, CLASSES, generator=generator))
