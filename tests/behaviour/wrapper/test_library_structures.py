"""Results and batches of public libraries pass through a wrapper as through the bare model."""

import poptorch
import pytest
import torch
from random_structures import described

X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])


def compare(model, *calls):
    """Calls a wrapper and the bare model with the arguments that each of `calls` makes."""
    wrapped = poptorch.inferenceModel(model)
    for make in calls:
        found, expected = [], []
        assert described(wrapped(make()), found) == described(model(make()), expected)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, check_dtype=False)
    return wrapped(calls[-1]())


def test_results_of_transformers():
    outputs = pytest.importorskip("transformers.modeling_outputs")

    def model(given):
        hidden = (given.logits * 2, given["logits"] + 1)
        return outputs.SequenceClassifierOutput(logits=hidden[1], hidden_states=hidden)

    def given(scale):
        return lambda: outputs.SequenceClassifierOutput(loss=X.sum(), logits=X * scale)

    found = compare(model, given(1.0), given(2.0))
    assert found.loss is None and list(found.keys()) == ["logits", "hidden_states"]
    assert found[0] is found.logits


def test_batches_of_tokenizers():
    transformers = pytest.importorskip("transformers")

    def model(batch):
        return transformers.BatchEncoding({"scores": batch["x"] * 2, "x": batch.x})

    def given(scale):
        return lambda: transformers.BatchEncoding({"x": X * scale})

    compare(model, given(1.0), given(2.0))


def test_caches_of_keys_and_values():
    transformers = pytest.importorskip("transformers")

    def model(x):
        cache = transformers.DynamicCache()
        cache.update(x[None, None], x[None, None] * 2, 0)
        return cache

    found = poptorch.inferenceModel(model)(X).layers[0]
    torch.testing.assert_close((found.keys, found.values), (X[None, None], X[None, None] * 2))


def test_graph_batches():
    data = pytest.importorskip("torch_geometric.data")
    edges = torch.tensor([[0, 1], [1, 0]])

    def graph(scale):
        return data.Data(x=X * scale, edge_index=edges, name="graph")

    def model(batch):
        made = batch.clone()
        made.y = batch.x[batch.edge_index[0]] * batch.num_nodes
        return made

    for parsed in (data.Data, data.Batch):
        poptorch.registerCustomArgParser(parsed, None)
    wrapped = poptorch.inferenceModel(model)
    for scale in (1.0, 2.0):
        found = wrapped(graph(scale))
        assert (
            type(found) is data.Data and found.name == "graph" and found._store._parent() is found
        )
        torch.testing.assert_close(found.y, model(graph(scale)).y)
        torch.testing.assert_close(found.x, X * scale)
    wrapped = poptorch.inferenceModel(lambda batch: (batch.x * batch.num_graphs, batch))
    for scale in (1.0, 2.0):
        given = data.Batch.from_data_list([graph(scale), graph(scale + 1)])
        total, found = wrapped(given)
        torch.testing.assert_close(total, given.x * 2)
        assert type(found) is type(given) and found.keys() == given.keys()
        assert torch.equal(found[1].x, X * (scale + 1))


def test_distributions_and_packed_sequences():
    found = poptorch.inferenceModel(lambda x: torch.distributions.Normal(x, x + 1))(X)
    assert type(found) is torch.distributions.Normal and torch.equal(found.stddev, X + 1)
    packed = torch.nn.utils.rnn.pack_sequence([X, X[:1]])
    found = poptorch.inferenceModel(lambda p: p._replace(data=p.data * 2))(packed)
    assert type(found) is type(packed) and torch.equal(found.data, packed.data * 2)


def test_a_script_that_runs_one_batch_of_a_loader():
    """A collate function may return an object; each batch that the loader makes is another one."""
    data = pytest.importorskip("torch_geometric.data")
    loaders = pytest.importorskip("torch_geometric.loader")
    poptorch.registerCustomArgParser(data.Data, None)
    graphs = [data.Data(x=X + i, edge_index=torch.tensor([[0], [1]])) for i in range(4)]
    wrapped = poptorch.inferenceModel(lambda batch: batch.x.sum())
    found = [wrapped(batch).item() for batch in loaders.DataLoader(graphs, batch_size=2)]
    assert found == [X.sum().item() * 2 + 4, X.sum().item() * 2 + 20]
