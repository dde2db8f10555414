"""Networks around indices and small ops: recommendation, graphs, points, sets, norms, ensembles."""

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.models import Mlp


class Recommender(nn.Module):
    """DLRM with its shapes for Criteo's data, and tables of 10,000 rows."""

    def __init__(self, tables: int = 26, rows: int = 10000, width: int = 16) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        self.bottom = Mlp(13, 512, 256, 64, width)
        pairs = (tables + 1) * tables // 2
        self.top = Mlp(width + pairs, 512, 256, 2)
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, dense, ids):
        x = self.bottom(dense)
        columns = [table(ids[:, i]) for i, table in enumerate(self.tables)]
        features = torch.stack([x, *columns], 1)
        dots = features @ features.transpose(1, 2)
        return self.top(torch.cat([x, dots[:, self.pairs[0], self.pairs[1]]], 1))


class GraphNetwork(nn.Module):
    """Two layers of GraphSAGE with mean aggregation, of a graph with the sizes of Cora."""

    def __init__(self, features: int = 1433, hidden: int = 64, classes: int = 7) -> None:
        super().__init__()
        self.own = nn.ModuleList([nn.Linear(features, hidden), nn.Linear(hidden, classes)])
        self.others = nn.ModuleList([nn.Linear(features, hidden), nn.Linear(hidden, classes)])

    def forward(self, x, edges):
        source, target = edges[0], edges[1]
        degree = torch.zeros(x.shape[0]).index_add(0, target, torch.ones(target.shape[0]))
        scale = 1 / degree.clamp(min=1).unsqueeze(1)
        for i, (own, others) in enumerate(zip(self.own, self.others, strict=True)):
            messages = others(x)[source]
            index = target.unsqueeze(1).expand_as(messages)
            total = torch.zeros(x.shape[0], messages.shape[1]).scatter_add(0, index, messages)
            x = own(x) + total * scale
            if i == 0:
                x = F.relu(x)
        return x


class PointNetwork(nn.Module):
    """Two edge convolutions of DGCNN: the 20 nearest of 512 points, and the maximum over them."""

    def __init__(self, neighbours: int = 20, classes: int = 40) -> None:
        super().__init__()
        self.neighbours = neighbours
        self.edges = nn.ModuleList([nn.Linear(6, 64), nn.Linear(128, 64)])
        self.fc = nn.Linear(128, classes)

    def forward(self, x):
        features = []
        for edge in self.edges:
            square = (x * x).sum(-1)
            distance = square.unsqueeze(2) + square.unsqueeze(1) - 2 * x @ x.transpose(1, 2)
            near = distance.topk(self.neighbours, -1, largest=False)[1]
            batch = torch.arange(x.shape[0]).view(-1, 1, 1)
            others = x[batch, near]
            pairs = torch.cat([others - x.unsqueeze(2), x.unsqueeze(2).expand_as(others)], -1)
            x = F.leaky_relu(edge(pairs), 0.2).amax(2)
            features.append(x)
        return self.fc(torch.cat(features, -1).amax(1))


class SortedSet(nn.Module):
    """Pools a set by sorting each feature over its elements, after FSPool."""

    def __init__(self, width: int = 64, elements: int = 256, classes: int = 10) -> None:
        super().__init__()
        self.encode = Mlp(3, 64, width)
        self.weight = nn.Parameter(torch.randn(elements, width) * elements**-0.5)
        self.classify = Mlp(width, 64, classes)

    def forward(self, x):
        ordered = self.encode(x).sort(1)[0]
        return self.classify((ordered * self.weight).sum(1))


class WrittenNorms(nn.Module):
    """Norms and softmax written out, as users write them, on rows of 1,024."""

    def __init__(self, width: int = 1024, classes: int = 16) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.fc = nn.Linear(width, classes)

    def forward(self, x):
        x = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * self.scale
        centred = x - x.mean(-1, keepdim=True)
        x = centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + 1e-5) + self.shift
        e = torch.exp((x - x.amax(-1, keepdim=True)) / 0.7)
        x = F.silu(x) * (e / e.sum(-1, keepdim=True))
        x = x / x.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return self.fc(torch.tanh(x) + x)


class Ensemble(nn.Module):
    """Sixteen tiny networks on the same inputs, and the mean of their outputs."""

    def __init__(self, members: int = 16) -> None:
        super().__init__()
        self.members = nn.ModuleList(Mlp(8, 16, 16, 4) for _ in range(members))

    def forward(self, x):
        return torch.stack([torch.tanh(member(x)) for member in self.members]).mean(0)
