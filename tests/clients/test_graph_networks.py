"""Layers of torch_geometric train on the device as on the host."""

import copy

import poptorch
import pytest
import torch

pytest.importorskip("torch_geometric")
import graph_networks
from torch_geometric.data import Data


def random_graph(nodes, edges, seed, label=None):
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(3, (nodes if label is None else 1,), generator=generator)
    x = torch.randn(nodes, 6, generator=generator)
    ends = torch.randint(nodes, (2, edges), generator=generator)
    return Data(x=x, edge_index=ends, y=y)


def step(model, optimizer, data):
    optimizer.zero_grad()
    scores, loss = model(data)
    loss.backward()
    optimizer.step()
    return scores.detach(), loss.detach()


@pytest.mark.shared
@pytest.mark.parametrize("kind", graph_networks.LAYERS)
def test_a_network_of_nodes_trains_as_torchs(kind):
    torch.manual_seed(0)
    model = graph_networks.NodeClassifier(kind)
    eager = copy.deepcopy(model)
    data = random_graph(20, 60, seed=1)
    data.train_mask = torch.arange(20) < 15
    device = poptorch.trainingModel(model, optimizer=torch.optim.Adam(model.parameters(), lr=0.02))
    optimizer = torch.optim.Adam(eager.parameters(), lr=0.02)
    losses = []
    for _ in range(5):
        expected = step(eager, optimizer, data)
        found = device(data)
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
        losses.append(found[1])
    assert losses[-1] < losses[0]
    for name, value in eager.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], value, rtol=1e-3, atol=1e-4)
    maximum = kind.startswith("gat") or kind == "sage, max"
    by_maximum = {"aten::scatter_reduce_.two"} if maximum else set()
    assert set(device.report()["generic_ops"]) == by_maximum


@pytest.mark.shared
@pytest.mark.parametrize("kind", ["gcn", "sage", "gin", "gat", "gat, two heads"])
def test_padded_batches_of_graphs_train_as_torchs(kind):
    """Makes ten steps, two per run; the device gets padding, torch gets the graphs alone."""
    torch.manual_seed(0)
    model = graph_networks.GraphClassifier(kind, graphs=4)
    eager = copy.deepcopy(model)
    graphs = [random_graph(3 + i % 5, 6 + i % 7, seed=i, label=True) for i in range(30)]
    options = poptorch.Options().deviceIterations(2).outputMode(poptorch.OutputMode.All)
    loader = graph_networks.fixed_size_loader(options, graphs, 4, nodes=24, edges=40)
    device = poptorch.trainingModel(
        model, options, optimizer=torch.optim.SGD(model.parameters(), lr=0.1)
    )
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.1)
    collate = graph_networks.FixedSizeCollater(4, 24, 40)
    found, expected = [], []
    for batch in loader:
        assert batch.x.shape == (48, 6) and batch.edge_index.shape == (4, 40)
        scores, losses = device(batch)
        assert scores.shape == (8, 3)
        found += losses
    for first in range(0, 30, 3):
        batch = collate.mini_batch(graphs[first : first + 3])
        batch.edge_index = batch.edge_index[
            :, : sum(g.num_edges for g in graphs[first : first + 3])
        ]
        expected.append(step(eager, optimizer, batch)[1])
    torch.testing.assert_close(torch.stack(found), torch.stack(expected), rtol=1e-3, atol=1e-4)
    for name, value in eager.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], value, rtol=1e-3, atol=1e-4)


def test_a_batch_that_is_too_large_is_told():
    collate = graph_networks.FixedSizeCollater(2, nodes=4, edges=10)
    with pytest.raises(ValueError, match="need 2 nodes and 0 edges more"):
        collate([random_graph(5, 10, 0, label=True)])
