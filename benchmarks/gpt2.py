"""GPT-2 at any size as a training model, placed on IPUs, with weights on any device."""

import torch
from torch import nn
from torch.nn import functional

from benchmarks.fidelity.bert import PreNormLayer, place


class Embedding(nn.Module):
    """Adds the embeddings of words and positions."""

    def __init__(self, width: int, vocabulary: int, length: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.zeros(length, width))
        self.dropout = nn.Dropout(0.1)

    def forward(self, tokens):
        return self.dropout(self.words(tokens) + self.positions)


class Gpt2(nn.Module):
    """Predicts the next token by a separate head, and returns the loss."""

    def __init__(self, width: int, heads: int, layers: int, length: int, vocabulary: int = 50257):
        super().__init__()
        self.embedding = Embedding(width, vocabulary, length)
        self.layers = nn.ModuleList(PreNormLayer(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, tokens, targets):
        x = self.embedding(tokens)
        length = tokens.shape[1]
        mask = torch.full((length, length), -10000.0, dtype=x.dtype, device=x.device).triu(1)
        for layer in self.layers:
            x = layer(x, mask)
        scores = self.head(self.norm(x)).flatten(0, 1)
        return functional.cross_entropy(scores.float(), targets.flatten().long())


def gpt2_xl(counts: tuple[int, ...]) -> Gpt2:
    """Returns GPT-2 XL with `counts[i]` layers on IPU i."""
    model = Gpt2(1600, 25, 48, 1024)
    place(model, counts)
    return model
