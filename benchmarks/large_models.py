"""BERT and GPT-2 at any size, with dropout, as training models that return a loss.

Their weights can be on device meta: `poptorch.estimate` costs them without memory for weights.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import poptorch
import torch
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Size:
    """The dimensions of a transformer."""

    width: int
    heads: int
    layers: int
    length: int
    vocabulary: int


BERT_BASE = Size(768, 12, 12, 128, 30522)
BERT_LARGE = Size(1024, 16, 24, 512, 30522)
GPT2_XL = Size(1600, 25, 48, 1024, 50257)
DROPOUT = 0.1


class Attention(nn.Module):
    """Multi-head self-attention with dropout on its probabilities."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads = size.heads
        self.qkv = nn.Linear(size.width, 3 * size.width)
        self.out = nn.Linear(size.width, size.width)

    def forward(self, x, mask):
        batch, length, width = x.shape
        split = (batch, length, self.heads, width // self.heads)
        q, k, v = (t.view(split).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(2, 3) / math.sqrt(split[-1]) + mask
        shares = F.dropout(F.softmax(scores, -1), DROPOUT, self.training)
        return self.out((shares @ v).transpose(1, 2).reshape(x.shape))


class Layer(nn.Module):
    """Attention and a feed-forward block, with the norms after (BERT) or before them (GPT-2)."""

    def __init__(self, size: Size, pre_norm: bool) -> None:
        super().__init__()
        self.pre_norm = pre_norm
        self.attention = Attention(size)
        self.norm1 = nn.LayerNorm(size.width)
        self.up = nn.Linear(size.width, 4 * size.width)
        self.down = nn.Linear(4 * size.width, size.width)
        self.norm2 = nn.LayerNorm(size.width)

    def feed_forward(self, x):
        x = self.down(F.gelu(self.up(x), approximate="tanh"))
        return F.dropout(x, DROPOUT, self.training)

    def forward(self, x, mask):
        if self.pre_norm:
            x = x + F.dropout(self.attention(self.norm1(x), mask), DROPOUT, self.training)
            return x + self.feed_forward(self.norm2(x))
        x = self.norm1(x + F.dropout(self.attention(x, mask), DROPOUT, self.training))
        return self.norm2(x + self.feed_forward(x))


class Transformer(nn.Module):
    """Token and position embeddings, layers, and a head that predicts tokens."""

    def __init__(self, size: Size, pre_norm: bool) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.positions = nn.Parameter(torch.zeros(size.length, size.width))
        self.norm = nn.LayerNorm(size.width)
        self.layers = nn.ModuleList(Layer(size, pre_norm) for _ in range(size.layers))
        self.head = nn.Linear(size.width, size.vocabulary)

    def loss(self, x, targets):
        logits = self.head(x).flatten(0, 1)
        return F.cross_entropy(logits.float(), targets.flatten().long())


class Bert(Transformer):
    """Predicts masked tokens: `picked` are the positions of the targets in each sequence."""

    def __init__(self, size: Size) -> None:
        super().__init__(size, pre_norm=False)

    def forward(self, tokens, valid, picked, targets):
        x = self.tokens(tokens) + self.positions
        x = F.dropout(self.norm(x), DROPOUT, self.training)
        mask = (1 - valid[:, None, None, :].to(x.dtype)) * -10000.0
        for layer in self.layers:
            x = layer(x, mask)
        x = torch.gather(x, 1, picked[..., None].long().expand(-1, -1, x.shape[-1]))
        return self.loss(x, targets)


class Gpt2(Transformer):
    """Predicts the next token."""

    def __init__(self, size: Size) -> None:
        super().__init__(size, pre_norm=True)

    def forward(self, tokens, targets):
        x = F.dropout(self.tokens(tokens) + self.positions, DROPOUT, self.training)
        length = tokens.shape[1]
        mask = torch.full((length, length), -10000.0, dtype=x.dtype, device=x.device).triu(1)
        for layer in self.layers:
            x = layer(x, mask)
        return self.loss(self.norm(x), targets)


def cut(model: Transformer, layers: Sequence[int]) -> None:
    """Divides a model: the first entry is the layers beside the embedding on IPU 0."""
    poptorch.BeginBlock(model.tokens, "embedding", ipu_id=0)
    first = layers[0]
    for ipu, count in enumerate(layers[1:], 1):
        poptorch.BeginBlock(model.layers[first], f"from layer {first}", ipu_id=ipu)
        first += count
    assert first == len(model.layers)
