"""Graph networks of torch_geometric: its layers and batches, and mini-batches of one size."""

import copy

import poptorch
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv, global_mean_pool

LAYERS = {
    "gcn": lambda a, b: GCNConv(a, b, add_self_loops=False),
    "sage": lambda a, b: SAGEConv(a, b),
    "sage, max": lambda a, b: SAGEConv(a, b, aggr="max"),
    "gin": lambda a, b: GINConv(nn.Linear(a, b)),
    "gat": lambda a, b: GATConv(a, b, heads=1, add_self_loops=False),
    "gat, two heads": lambda a, b: GATConv(a, b, heads=2, concat=False, add_self_loops=False),
}
IGNORED = -100


class DataParser(poptorch.ICustomArgParser):
    """Unpacks the tensors of Data and Batch, in the order of their names."""

    def yieldTensors(self, struct):
        for name in sorted(struct.keys()):
            if isinstance(struct[name], torch.Tensor):
                yield struct[name]

    def reconstruct(self, original_structure, tensor_iterator):
        made = copy.copy(original_structure)
        for name in sorted(made.keys()):
            if isinstance(made[name], torch.Tensor):
                made[name] = next(tensor_iterator)
        return made


poptorch.registerCustomArgParser(Data, DataParser())


class NodeClassifier(nn.Module):
    """Returns scores of each node, and the loss of nodes that `train_mask` marks."""

    def __init__(self, kind, features=6, hidden=16, classes=3):
        super().__init__()
        self.conv1 = LAYERS[kind](features, hidden)
        self.conv2 = LAYERS[kind](hidden, classes)

    def forward(self, data):
        x = torch.relu(self.conv1(data.x, data.edge_index))
        scores = self.conv2(x, data.edge_index)
        loss = nn.functional.cross_entropy(scores, torch.where(data.train_mask, data.y, IGNORED))
        return scores, loss


class GraphClassifier(nn.Module):
    """Returns scores of `graphs` graphs, the last of them padding, and the loss of the others."""

    def __init__(self, kind, graphs, features=6, hidden=16, classes=3):
        super().__init__()
        self.graphs = graphs
        self.conv1 = LAYERS[kind](features, hidden)
        self.conv2 = LAYERS[kind](hidden, hidden)
        self.head = nn.Linear(hidden, classes)

    def forward(self, batch):
        x = torch.relu(self.conv1(batch.x, batch.edge_index))
        x = torch.relu(self.conv2(x, batch.edge_index))
        scores = self.head(global_mean_pool(x, batch.batch, size=self.graphs))
        return scores, nn.functional.cross_entropy(scores, batch.y, ignore_index=IGNORED)


class FixedSizeCollater:
    """Makes mini-batches of `graphs` graphs, `nodes` nodes and `edges` edges; the last graph is
    padding.

    The mini-batches of one run are concatenated along the first axis of every tensor.
    """

    def __init__(self, graphs, nodes, edges):
        self.graphs, self.nodes, self.edges = graphs, nodes, edges

    def padding(self, data):
        nodes = self.nodes - sum(graph.num_nodes for graph in data)
        edges = self.edges - sum(graph.num_edges for graph in data)
        if nodes < 1 or edges < 0:
            raise ValueError(f"The graphs need {1 - nodes} nodes and {-edges} edges more.")
        return Data(
            x=torch.zeros(nodes, data[0].x.shape[1]),
            edge_index=torch.zeros(2, edges, dtype=torch.long),
            y=torch.tensor([IGNORED]),
        )

    def mini_batch(self, data):
        made = Batch.from_data_list([*data, self.padding(data)])
        return Data(x=made.x, edge_index=made.edge_index, y=made.y, batch=made.batch)

    def __call__(self, data):
        real = self.graphs - 1
        parts = [self.mini_batch(data[i : i + real]) for i in range(0, len(data), real)]
        return Data(**{name: torch.cat([part[name] for part in parts]) for name in parts[0].keys()})


def fixed_size_loader(options, graphs, batch_size, nodes, edges, **arguments):
    """Returns a poptorch.DataLoader with `batch_size` - 1 graphs and one padding graph per
    mini-batch."""
    collate = FixedSizeCollater(batch_size, nodes, edges)
    return poptorch.DataLoader(
        options, graphs, batch_size=batch_size - 1, collate_fn=collate, drop_last=True, **arguments
    )
