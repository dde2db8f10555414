"""Recurrent networks: stacked GRUs in both directions, cells in a loop, selective state spaces."""

import torch
from torch import nn
from torch.nn import functional as F


class SpeechGru(nn.Module):
    """Two GRU layers in both directions on mel features, after Deep Speech 2."""

    def __init__(self, features: int = 80, hidden: int = 256, classes: int = 29) -> None:
        super().__init__()
        self.gru = nn.GRU(features, hidden, 2, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * hidden, classes)

    def forward(self, x):
        return self.fc(self.gru(x)[0]).flatten(0, 1)


class CellDecoder(nn.Module):
    """Two LSTM cells called step by step, each step fed with the frame before, after Tacotron 2."""

    def __init__(self, steps: int = 32, width: int = 80, hidden: int = 256) -> None:
        super().__init__()
        self.steps = steps
        self.prenet = nn.Linear(width, hidden)
        self.first = nn.LSTMCell(hidden, hidden)
        self.second = nn.LSTMCell(hidden, hidden)
        self.frame = nn.Linear(hidden, width)

    def forward(self, x):
        zero = x.new_zeros(x.shape[0], self.first.hidden_size)
        first, second = (zero, zero), (zero, zero)
        frames = []
        for _ in range(self.steps):
            first = self.first(F.relu(self.prenet(x)), first)
            second = self.second(first[0], second)
            x = self.frame(second[0])
            frames.append(x)
        return torch.stack(frames, 1).mean(1)


class SelectiveScan(nn.Module):
    """One Mamba block whose recurrence is a loop over the tokens, as in its short versions."""

    def __init__(self, width: int = 128, state: int = 16, rank: int = 8, classes: int = 64):
        super().__init__()
        inner = 2 * width
        self.state, self.rank = state, rank
        self.split = nn.Linear(width, 2 * inner, bias=False)
        self.conv = nn.Conv1d(inner, inner, 4, groups=inner, padding=3)
        self.select = nn.Linear(inner, rank + 2 * state, bias=False)
        self.step = nn.Linear(rank, inner)
        self.log_decay = nn.Parameter(torch.log(torch.arange(1.0, state + 1).repeat(inner, 1)))
        self.skip = nn.Parameter(torch.ones(inner))
        self.out = nn.Linear(inner, width, bias=False)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        length = x.shape[1]
        u, gate = self.split(x).chunk(2, -1)
        u = F.silu(self.conv(u.transpose(1, 2))[..., :length].transpose(1, 2))
        step, into, out = self.select(u).split([self.rank, self.state, self.state], -1)
        step = F.softplus(self.step(step))
        decay = torch.exp(step.unsqueeze(-1) * -torch.exp(self.log_decay))
        drive = (step * u).unsqueeze(-1) * into.unsqueeze(2)
        h = torch.zeros_like(drive[:, 0])
        ys = []
        for i in range(length):
            h = decay[:, i] * h + drive[:, i]
            ys.append((h * out[:, i].unsqueeze(1)).sum(-1))
        y = torch.stack(ys, 1) + u * self.skip
        return self.head(self.out(y * F.silu(gate))).flatten(0, 1)


class LinearAttention(nn.Module):
    """Causal attention without softmax, by cumulative sums of keys and values, after Performer."""

    def __init__(self, width: int = 128, heads: int = 8, classes: int = 64) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).unbind(2)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        pairs = (k.unsqueeze(-1) * v.unsqueeze(-2)).cumsum(1)
        total = (q * k.cumsum(1)).sum(-1, keepdim=True)
        y = (q.unsqueeze(-2) @ pairs).squeeze(-2) / total
        return self.head(y.reshape(batch, length, width)).flatten(0, 1)
