"""U-Net, EfficientNet, Swin and Conformer, placed as published."""

import poptorch
import torch
from torch import nn
from torch.nn import functional


def _loss(scores, labels):
    loss = functional.cross_entropy(scores.float(), labels)
    return poptorch.identity_loss(loss, reduction="none")


def _begin(modules, ipu_of):
    """Begins a block at each of the modules that `ipu_of` names."""
    for index, ipu in ipu_of.items():
        poptorch.BeginBlock(modules[index], f"IPU {ipu}", ipu_id=ipu)


def _pair(inner, outer):
    return nn.Sequential(nn.Conv2d(inner, outer, 3), nn.ReLU(), nn.Conv2d(outer, outer, 3),
                         nn.ReLU())  # fmt: skip


class UNet(nn.Module):
    """Valid convolutions from 572² to 388², with four poolings."""

    def __init__(self):
        super().__init__()
        widths = (64, 128, 256, 512, 1024)
        self.down = nn.ModuleList(_pair(a, b) for a, b in zip((1, *widths), widths, strict=False))
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(b, a, 2, 2)
            for a, b in zip(widths[3::-1], widths[:0:-1], strict=True)
        )
        self.merge = nn.ModuleList(_pair(2 * a, a) for a in widths[3::-1])
        self.last = nn.Conv2d(64, 2, 1)
        _begin(self.down, {2: 1})
        _begin(self.up, {0: 2, 2: 3})

    def forward(self, x, labels):
        kept = []
        for index, block in enumerate(self.down):
            if index:
                x = functional.max_pool2d(x, 2)
            x = block(x)
            kept.append(x)
        for up, merge, skip in zip(self.up, self.merge, kept[3::-1], strict=True):
            x = up(x)
            edge = (skip.shape[-1] - x.shape[-1]) // 2
            inside = skip[:, :, edge : edge + x.shape[-1], edge : edge + x.shape[-1]]
            x = merge(torch.cat([inside, x], 1))
        return _loss(self.last(x), labels)


class FeedForward(nn.Module):
    """Two layers after a normalisation, with dropout between them."""

    def __init__(self, width, hidden, activation, dropout=0.0):
        super().__init__()
        self.norm, self.activation = nn.LayerNorm(width), activation
        self.inner, self.outer = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.outer(self.dropout(self.activation(self.inner(self.norm(x)))))


class Attention(nn.Module):
    """Attention of `heads`, also between sequences, with an optional bias of the scores."""

    def __init__(self, width, heads, dropout=0.0):
        super().__init__()
        self.heads, self.dropout = heads, nn.Dropout(dropout)
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))

    def split(self, y):
        return y.view(y.shape[0], y.shape[1], self.heads, -1).transpose(1, 2)

    def scores(self, query, key):
        return query @ key.transpose(-1, -2)

    def forward(self, x, other, bias=None):
        query, key = self.split(self.query(x)), self.split(self.key(other))
        value = self.split(self.value(other))
        scores = self.scores(query, key) * query.shape[-1] ** -0.5
        if bias is not None:
            scores = scores + bias
        context = self.dropout(scores.softmax(-1)) @ value
        return self.output(context.transpose(1, 2).reshape(x.shape))


class RelativeAttention(Attention):
    """Attention with scores of the distances between frames, as in Transformer-XL."""

    def __init__(self, width, heads, length, dropout):
        super().__init__(width, heads, dropout)
        self.position = nn.Linear(width, width, bias=False)
        self.of_key, self.of_distance = (
            nn.Parameter(torch.zeros(heads, 1, width // heads)) for _ in range(2)
        )
        self.register_buffer("distances", torch.zeros(1, 2 * length - 1, width))

    def scores(self, query, key):
        distances = self.split(self.position(self.distances))
        of_distances = (query + self.of_distance) @ distances.transpose(-1, -2)
        return (query + self.of_key) @ key.transpose(-1, -2) + self.shifted(of_distances)

    def shifted(self, scores):
        """Moves row i by i columns, so that a column is a frame instead of a distance."""
        batch, heads, rows, columns = scores.shape
        padded = functional.pad(scores, (1, 0)).view(batch, heads, columns + 1, rows)
        return padded[:, :, 1:].view(batch, heads, rows, columns)[..., :rows]


class ConformerLayer(nn.Module):
    """Half feed-forward, attention, convolution, half feed-forward (Gulati et al., 2020)."""

    def __init__(self, length, width=256, heads=4, hidden=2048, kernel=15):
        super().__init__()
        self.first = FeedForward(width, hidden, functional.silu, 0.1)
        self.last = FeedForward(width, hidden, functional.silu, 0.1)
        self.attention = RelativeAttention(width, heads, length, 0.1)
        self.dropout = nn.Dropout(0.1)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
        self.gate, self.mix = nn.Conv1d(width, 2 * width, 1), nn.Conv1d(width, width, 1)
        self.depth = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.batch_norm = nn.BatchNorm1d(width)

    def forward(self, x):
        x = x + 0.5 * self.dropout(self.first(x))
        y = self.norm1(x)
        x = x + self.dropout(self.attention(y, y))
        y = functional.glu(self.gate(self.norm2(x).transpose(1, 2)), 1)
        y = self.mix(functional.silu(self.batch_norm(self.depth(y)))).transpose(1, 2)
        x = x + self.dropout(y)
        return self.norm3(x + 0.5 * self.dropout(self.last(x)))


class DecoderLayer(nn.Module):
    """Attention to itself and to the encoder, and a feed-forward."""

    def __init__(self, width=256, heads=4, hidden=2048):
        super().__init__()
        self.itself, self.encoder = Attention(width, heads, 0.1), Attention(width, heads, 0.1)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(0.1)
        self.last = FeedForward(width, hidden, torch.relu, 0.1)

    def forward(self, x, encoded):
        y = self.norm1(x)
        x = x + self.dropout(self.itself(y, y))
        x = x + self.dropout(self.encoder(self.norm2(x), encoded))
        return x + self.dropout(self.last(x))


FRAMES = 304  # of 1,220, after two convolutions


class Conformer(nn.Module):
    """Speech recognition with a CTC score of each frame and a decoder of tokens."""

    def __init__(self, width=256, vocabulary=4233):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, width, 3, 2), nn.Conv2d(width, width, 3, 2)
        self.into = nn.Linear(width * 19, width)
        self.encoder = nn.ModuleList(ConformerLayer(FRAMES, width) for _ in range(12))
        self.embedding = nn.Embedding(vocabulary, width)
        self.decoder = nn.ModuleList(DecoderLayer(width) for _ in range(6))
        self.frames, self.tokens = nn.Linear(width, vocabulary), nn.Linear(width, vocabulary)
        _begin(self.encoder, {1: 1, 5: 2, 10: 3})

    def forward(self, sound, tokens):
        x = torch.relu(self.conv2(torch.relu(self.conv1(sound[:, None]))))
        x = self.into(x.permute(0, 2, 1, 3).flatten(2))
        for layer in self.encoder:
            x = layer(x)
        aligned = self.frames(x).float().log_softmax(-1).transpose(0, 1)
        y = self.embedding(tokens)
        for layer in self.decoder:
            y = layer(y, x)
        frames, length = (torch.full((len(x),), n) for n in (x.shape[1], tokens.shape[1]))
        alignments = functional.ctc_loss(aligned, tokens.long(), frames, length)
        scores = self.tokens(y).flatten(0, 1).float()
        loss = functional.cross_entropy(scores, tokens.flatten().long())
        return poptorch.identity_loss(0.7 * loss + 0.3 * alignments, "none")


def sound_inputs(batch):
    """Returns inputs of the Conformer that take no memory."""
    sound = torch.zeros(1, 1220, 80, dtype=torch.float16).expand(batch, -1, -1)
    return sound, torch.zeros(1, 48, dtype=torch.int32).expand(batch, -1)


class SwinLayer(nn.Module):
    """Attention in windows of 7 × 7, shifted in every second layer."""

    def __init__(self, width, heads, size, shift):
        super().__init__()
        self.size, self.shift, self.norm = size, shift, nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.bias = nn.Parameter(torch.zeros(1, heads, 49, 49))
        self.last = FeedForward(width, 4 * width, functional.gelu)

    def forward(self, x):
        batch, _, width = x.shape
        size, windows = self.size, self.size // 7
        y = self.norm(x).view(batch, size, size, width)
        if self.shift:
            y = torch.roll(y, (-3, -3), (1, 2))
        y = y.view(batch, windows, 7, windows, 7, width).transpose(2, 3).reshape(-1, 49, width)
        y = self.attention(y, y, self.bias)
        y = y.view(batch, windows, windows, 7, 7, width).transpose(2, 3)
        y = y.reshape(batch, size, size, width)
        if self.shift:
            y = torch.roll(y, (3, 3), (1, 2))
        x = x + y.view(batch, size * size, width)
        return x + self.last(x)


class Merge(nn.Module):
    """Joins patches of 2 × 2."""

    def __init__(self, width, size):
        super().__init__()
        self.size, self.norm = size, nn.LayerNorm(4 * width)
        self.linear = nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x):
        half = self.size // 2
        x = x.view(x.shape[0], half, 2, half, 2, -1).transpose(2, 3)
        return self.linear(self.norm(x.reshape(x.shape[0], half * half, -1)))


class SwinTiny(nn.Module):
    """The tiny model with depths 2, 2, 6, 2."""

    def __init__(self, divided=True):
        super().__init__()
        self.patches, layers, begins = nn.Conv2d(3, 96, 4, 4), [], {}
        ends, count = {2: 1, 5: 2, 10: 3}, 0
        for stage, depth in enumerate((2, 2, 6, 2)):
            width, size = 96 * 2**stage, 56 // 2**stage
            if stage:
                layers.append(Merge(width // 2, 2 * size))
            for index in range(depth):
                if count in ends:
                    begins[len(layers)] = ends[count]
                layers.append(SwinLayer(width, 3 * 2**stage, size, index % 2 == 1 and size > 7))
                count += 1
        self.layers = nn.ModuleList(layers)
        self.norm, self.head = nn.LayerNorm(768), nn.Linear(768, 1000)
        if divided:
            _begin(self.layers, begins)

    def forward(self, images, labels=None):
        x = self.patches(images).flatten(2).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        scores = self.head(self.norm(x).mean(1))
        return scores if labels is None else _loss(scores, labels)


class MBConv(nn.Module):
    """Expansion, grouped convolution with squeeze and excitation, and projection."""

    def __init__(self, inner, outer, kernel, stride, expand):
        super().__init__()
        width = inner * expand
        self.residual = inner == outer and stride == 1
        self.expand = nn.Conv2d(inner, width, 1, bias=False) if expand > 1 else None
        self.norm1 = nn.GroupNorm(4, width)
        groups, edge = width // 16, kernel // 2
        self.depth = nn.Conv2d(width, width, kernel, stride, edge, groups=groups, bias=False)
        self.norm2, self.norm3 = nn.GroupNorm(4, width), nn.GroupNorm(4, outer)
        self.squeeze, self.excite = nn.Conv2d(width, inner // 4, 1), nn.Conv2d(inner // 4, width, 1)
        self.project = nn.Conv2d(width, outer, 1, bias=False)

    def forward(self, x):
        y = x if self.expand is None else functional.silu(self.norm1(self.expand(x)))
        y = functional.silu(self.norm2(self.depth(y)))
        scale = self.excite(functional.silu(self.squeeze(y.mean((2, 3), keepdim=True))))
        y = self.norm3(self.project(y * torch.sigmoid(scale)))
        return x + y if self.residual else y


class EfficientNetB4(nn.Module):
    """The variant with groups of 16 channels and expansion 4."""

    # (expansion, width, layers, stride, kernel)
    STAGES = ((1, 24, 2, 1, 3), (4, 32, 4, 2, 3), (4, 56, 4, 2, 5), (4, 112, 6, 2, 3),
              (4, 160, 6, 1, 5), (4, 272, 8, 2, 5), (4, 448, 2, 1, 3))  # fmt: skip

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 48, 3, 2, 1, bias=False), nn.GroupNorm(4, 48)
        blocks, inner, begin = [], 48, 0
        for number, (expand, outer, count, stride, kernel) in enumerate(self.STAGES):
            begin = len(blocks) if number == 3 else begin
            for index in range(count):
                blocks.append(MBConv(inner, outer, kernel, stride if index == 0 else 1, expand))
                inner = outer
        self.blocks = nn.ModuleList(blocks)
        self.top, self.norm2 = nn.Conv2d(inner, 1792, 1, bias=False), nn.GroupNorm(4, 1792)
        self.head = nn.Linear(1792, 1000)
        _begin(self.blocks, {begin: 1})

    def forward(self, images, labels):
        x = functional.silu(self.norm(self.stem(images.to(self.head.weight.dtype))))
        for block in self.blocks:
            x = block(x)
        x = functional.silu(self.norm2(self.top(x)))
        return _loss(self.head(x.mean((2, 3))), labels)


def cell_inputs(batch):
    """Returns inputs of the U-Net that take no memory."""
    images = torch.zeros(1, 1, 572, 572, dtype=torch.float16).expand(batch, -1, -1, -1)
    return images, torch.zeros(1, 388, 388, dtype=torch.int64).expand(batch, -1, -1)
