"""Narrow networks for sound, words and clicks: each gives scores."""

import torch
from torch import nn


class GatedLayer(nn.Module):
    """A block of WaveNet: a dilated causal convolution, a gate, and two outputs."""

    def __init__(self, width, dilation):
        super().__init__()
        self.dilated = nn.Conv1d(width, 2 * width, 2, dilation=dilation)
        self.on, self.skip = nn.Conv1d(width, width, 1), nn.Conv1d(width, width, 1)
        self.dilation = dilation

    def forward(self, x):
        filtered, gate = self.dilated(nn.functional.pad(x, (self.dilation, 0))).chunk(2, 1)
        y = torch.tanh(filtered) * torch.sigmoid(gate)
        return x + self.on(y), self.skip(y)


class WaveNet(nn.Module):
    """Takes sound levels [batch, time]; returns scores [batch, levels, time] of the next level."""

    def __init__(self, levels=32, width=8, stacks=2, depth=4):
        super().__init__()
        self.levels = levels
        self.first = nn.Conv1d(levels, width, 1)
        self.layers = nn.ModuleList(
            GatedLayer(width, 1 << i) for _ in range(stacks) for i in range(depth)
        )
        self.head = nn.Sequential(
            nn.ReLU(), nn.Conv1d(width, width, 1), nn.ReLU(), nn.Conv1d(width, levels, 1)
        )

    def forward(self, sound):
        x = self.first(nn.functional.one_hot(sound, self.levels).mT.to(self.first.weight.dtype))
        skipped = []
        for layer in self.layers:
            x, skip = layer(x)
            skipped.append(skip)
        return self.head(sum(skipped))


class LSTMLanguageModel(nn.Module):
    """Takes tokens [batch, time]; returns scores [batch, tokens, time] by tied embeddings."""

    def __init__(self, words=40, width=12, layers=2, dropout=0.0):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True, dropout=dropout)
        self.head = nn.Linear(width, words)
        self.head.weight = self.words.weight

    def forward(self, ids):
        return self.head(self.lstm(self.words(ids))[0]).mT


class DLRM(nn.Module):
    """Takes numbers [batch, n] and bags of ids [batch, tables, ids]; returns a score [batch] of a
    click."""

    def __init__(self, numbers=5, rows=(20, 30, 7), width=8):
        super().__init__()
        self.bottom = nn.Sequential(
            nn.Linear(numbers, 16), nn.ReLU(), nn.Linear(16, width), nn.ReLU()
        )
        self.tables = nn.ModuleList(nn.EmbeddingBag(n, width, mode="sum") for n in rows)
        count = len(rows) + 1
        self.register_buffer("pairs", torch.tril_indices(count, count, -1), persistent=False)
        self.top = nn.Sequential(
            nn.Linear(width + count * (count - 1) // 2, 16), nn.ReLU(), nn.Linear(16, 1)
        )

    def forward(self, numbers, ids):
        dense = self.bottom(numbers)
        bags = [table(i) for table, i in zip(self.tables, ids.unbind(1), strict=True)]
        features = torch.stack([dense, *bags], 1)
        products = features @ features.mT
        return self.top(torch.cat([dense, products[:, self.pairs[0], self.pairs[1]]], 1)).squeeze(1)
