"""Tests whole models of other authors, and the cost of compiling long models."""

import copy

import poptorch
import pytest
import torch
from poptorch._impl.wrapper.state import wrapper_state
from torch import nn


def train_both(model, batch, tolerance=1e-4):
    """Makes one SGD step in eager torch and here: compares loss, parameters and buffers."""
    eager = copy.deepcopy(model)
    optimiser = torch.optim.SGD(eager.parameters(), lr=0.1)
    expected = eager(*batch)
    expected.backward()
    optimiser.step()
    wrapped = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    torch.testing.assert_close(wrapped(*batch), expected.detach(), rtol=1e-5, atol=1e-6)
    for name, tensor in eager.state_dict().items():
        torch.testing.assert_close(
            model.state_dict()[name], tensor, rtol=tolerance, atol=tolerance, msg=name
        )
    assert wrapped.report()["generic_ops"] == []


@pytest.mark.shared
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_a_tiny_hugging_face_bert(attention):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    configuration = transformers.BertConfig(
        vocab_size=99,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=37,
        max_position_embeddings=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        attn_implementation=attention,
    )

    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = transformers.BertForSequenceClassification(configuration)

        def forward(self, ids, mask, labels):
            return self.bert(input_ids=ids, attention_mask=mask, labels=labels, return_dict=False)[
                0
            ]

    ids = torch.randint(99, (3, 16))
    mask = torch.ones(3, 16, dtype=torch.long)
    mask[0, 10:] = 0
    train_both(Wrapped().train(), (ids, mask, torch.tensor([0, 1, 1])))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(5, 6, num_layers=2, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(12, 3)

    def forward(self, x, target):
        y, _ = self.lstm(x)
        return nn.functional.cross_entropy(self.fc(y[:, -1]), target)


def test_a_two_layer_bidirectional_lstm():
    torch.manual_seed(0)
    train_both(Recurrent(), (torch.randn(4, 7, 5), torch.tensor([0, 1, 2, 0])))


class Deep(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = nn.functional.gelu(layer(x), approximate="tanh")
        return poptorch.identity_loss(x, reduction="sum")


def ops_by_pass(layers):
    wrapped = poptorch.trainingModel(Deep(layers))
    wrapped.compile(torch.randn(4, 16))
    passes = wrapper_state(wrapped).compiled.executable.inspect()["compile"]["passes"]
    return [(row["name"], row["ops_before"], row["ops_after"]) for row in passes]


def test_passes_and_their_ops_grow_with_the_layers():
    """The nightly measures how long the passes take: tests/nightly/deep.py."""
    few, many = ops_by_pass(10), ops_by_pass(100)
    assert [name for name, _, _ in few] == [name for name, _, _ in many]
    for (name, *small), (_, *large) in zip(few, many, strict=True):
        assert all(0 < b <= 10 * a for a, b in zip(small, large, strict=True)), name
