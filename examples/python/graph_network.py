"""Classifies the nodes of a graph with two graph convolutions of torch_geometric."""

import poptorch
import torch
from torch import nn
from torch_geometric.nn import GCNConv

NODES, GROUPS = 120, 3


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = GCNConv(8, 16, add_self_loops=False)
        self.second = GCNConv(16, GROUPS, add_self_loops=False)

    def forward(self, x, edges, labels):
        scores = self.second(torch.relu(self.first(x, edges)), edges)
        return scores, nn.functional.cross_entropy(scores, labels)  # -100: not in the loss


def main():
    torch.manual_seed(0)
    groups = torch.arange(NODES) % GROUPS
    # Most edges are inside a group, and the features say little.
    ends = torch.randint(NODES, (2, 6 * NODES))
    inside = groups[ends[0]] == groups[ends[1]]
    edges = ends[:, inside | (torch.rand(ends.shape[1]) < 0.05)]
    edges = torch.cat([edges, torch.arange(NODES).repeat(2, 1)], 1)
    x = torch.randn(NODES, 8) + nn.functional.one_hot(groups, 8)
    labels = torch.where(torch.arange(NODES) < NODES // 4, groups, -100)

    network = Network()
    options = poptorch.Options().showCompilationProgressBar(False)
    optimizer = poptorch.optim.Adam(network.parameters(), lr=0.02, weight_decay=5e-4)
    training = poptorch.trainingModel(network, options, optimizer)
    for _ in range(60):
        scores, loss = training(x, edges, labels)
    right = (scores.argmax(1) == groups)[NODES // 4 :].float().mean()
    print(f"loss {loss.item():.3f}, accuracy of nodes without a label: {right:.2f}")


if __name__ == "__main__":
    main()
