"""Inputs, parameters and buffers of 64 bits appear with 32 bits inside a model."""

import poptorch
import pytest
import torch
import torch.nn.functional as F
from torch import nn

NARROW = {torch.int64: torch.int32, torch.float64: torch.float32, torch.complex128: torch.complex64}


SEEN = []


class Wide(nn.Module):
    """Records the types that forward sees."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.arange(3.0, dtype=torch.float64))
        self.register_buffer("count", torch.tensor(4))
        self.register_buffer("empty", torch.zeros(0, dtype=torch.int64))

    def forward(self, x, fail=False):
        tensors = (x, x[1:], self.w, self.w[1:], self.count, self.empty)
        SEEN[:] = [tensor.dtype for tensor in tensors]
        assert not fail, "as asked"
        return x * self.w + self.count


@pytest.mark.parametrize("wide", [torch.int64, torch.float64], ids=str)
def test_tensors_are_seen_with_32_bits_while_a_model_is_traced(wide):
    x, model = torch.tensor([1, 2, 3]).to(wide), Wide()
    expected = [NARROW[wide]] * 2 + [torch.float32] * 2 + [torch.int32] * 2
    for _ in range(2):
        wrapped = poptorch.inferenceModel(model)
        assert wrapped(x).tolist() == [4, 6, 10] and SEEN == expected
        assert (model.w.dtype, model.count.dtype, x.dtype) == (torch.float64, torch.int64, wide)
        assert model.w.tolist() == [0, 1, 2] and model.empty.dtype == torch.int64
        with pytest.raises(AssertionError, match="as asked"):
            poptorch.inferenceModel(model)(x, True)
        assert model.w.dtype == torch.float64 and model.w.tolist() == [0, 1, 2]


def test_messages_print_the_types_that_are_seen():
    texts = []

    def model(x, y):
        texts.append(f"{x} {y.dtype}")
        return poptorch.dynamic_update(x, y, 0, x[:1], 1)

    text = r"same dtype. \(torch.int32 vs torch.float32\)"
    with pytest.raises(poptorch.Error, match=text):
        poptorch.inferenceModel(model)(torch.tensor([1, 2]), torch.ones(1, dtype=torch.float64))
    assert "dtype=torch.int32" in texts[0] and "torch.float32" in texts[0]


def test_parameters_that_are_one_memory():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Parameter(torch.arange(4.0, dtype=torch.float64))
            self.b, self.c = self.a, nn.Parameter(self.a.data)
            self.part = self.a.detach()[2:]

        def forward(self, x):
            SEEN[:] = [tensor.dtype for tensor in (self.a, self.b, self.c, x)]
            return x * self.a + self.b * self.c + self.part.sum()

    model = Tied()
    x = torch.ones(4, dtype=torch.float64)
    assert poptorch.inferenceModel(model)(x).tolist() == [5, 7, 11, 17]
    assert SEEN == [torch.float32] * 4
    assert {p.dtype for p in (model.a, model.c, model.part)} == {torch.float64}


X = torch.arange(12.0).reshape(3, 4) / 7
INDEX = torch.tensor([2, 0, 1])
COLUMN = INDEX[:, None]
# torch's own kernels accept only int64 indices here.
INDEXED = {
    "gather": lambda x, i: x.gather(1, i),
    "scatter": lambda x, i: x.scatter(1, i, 5.0),
    "scatter_add": lambda x, i: x.scatter_add(1, i, x[:, :1]),
    "scatter_reduce": lambda x, i: x.scatter_reduce(1, i, x[:, :1], "amax"),
    "index_add": lambda x, i: x.index_add(0, i.flatten(), x),
    "index_copy": lambda x, i: x.index_copy(0, i.flatten(), x),
    "index_fill": lambda x, i: x.index_fill(0, i.flatten()[:2], 3.0),
    "index_reduce": lambda x, i: x.index_reduce(0, i.flatten(), x, "prod"),
    "take": lambda x, i: x.take(i),
    "take_along_dim": lambda x, i: torch.take_along_dim(x, i, 1),
    "take_along_dim, other axis": lambda x, i: torch.take_along_dim(x, i.t()[:, :1], 0),
    "take_along_dim, whole": lambda x, i: torch.take_along_dim(x, i),
    "take_along_dim, negative": lambda x, i: torch.take_along_dim(x, i - 3, 1),
    "put": lambda x, i: x.put(i, x[:, :1]),
    "one_hot": lambda x, i: x.sum() * F.one_hot(i, 4),
    "nll": lambda x, i: F.nll_loss(x, i.flatten()),
    "cross_entropy": lambda x, i: F.cross_entropy(x, i.flatten()),
    "multi_margin": lambda x, i: F.multi_margin_loss(x, i.flatten()),
    "multilabel_margin": lambda x, i: F.multilabel_margin_loss(x[:, :3], i.t().expand(3, 3)),
    "embedding_bag": lambda x, i: F.embedding_bag(i, x),
    "max_unpool": lambda x, i: F.max_unpool1d(x[None, 0, None, :3], i.t()[None], 1, 1, 0, [3]),
}


class Indexed(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.w = nn.Parameter(X.clone())
        self.function = function

    def forward(self, x, index):
        assert index.dtype == torch.int32 or not poptorch.isRunningOnIpu()
        y = self.function(x * self.w, index)
        return y, poptorch.identity_loss((y * y).sum(), reduction="none")


@pytest.mark.parametrize("name", INDEXED)
def test_indices_of_32_bits_are_indices(name):
    model = Indexed(INDEXED[name])
    expected, loss = model(X, COLUMN)
    loss.backward()
    gradient = model.w.grad.clone()
    before = model.w.detach().clone()
    optimiser = torch.optim.SGD(model.parameters(), lr=1.0)
    found, _ = poptorch.trainingModel(model, None, optimiser)(X, COLUMN)
    torch.testing.assert_close(found, expected.detach())
    torch.testing.assert_close(before - model.w.detach(), gradient)


def test_indices_that_do_not_fit_are_refused():
    for index, text in ((INDEX, "has 2 dimensions and its indices 1"), (COLUMN[:2], "broadcast")):
        with pytest.raises(poptorch.Error, match=rf"take_along_dim.*{text}"):
            poptorch.inferenceModel(lambda x, i: torch.take_along_dim(x, i, 1))(X, index)


def test_weights_of_64_bits_are_warned_about(capfd):
    for model in (nn.Linear(3, 2).double(), nn.BatchNorm1d(3)):  # it counts in int64
        poptorch.inferenceModel(model)(torch.ones(2, 3))
    assert capfd.readouterr().err.count("parameters and buffers in float64 are float32") == 1


DOUBLES = {
    "linear": (nn.Linear(4, 3), (2, 4)),
    "bilinear": (nn.Bilinear(4, 4, 3), (2, 4)),
    "conv": (nn.Conv1d(2, 3, 2), (2, 2, 4)),
    "batch norm": (nn.BatchNorm1d(4), (2, 4)),
    "lstm": (nn.LSTM(4, 3), (2, 1, 4)),
    "gru": (nn.GRU(4, 3), (2, 1, 4)),
    "attention": (nn.MultiheadAttention(4, 2), (2, 1, 4)),
    "transformer": (nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), (2, 1, 4)),
}


@pytest.mark.parametrize("name", DOUBLES)
def test_models_of_doubles(name):
    layer, shape = DOUBLES[name]
    layer = layer.double()
    repeated = {"bilinear": 2, "attention": 3}.get(name, 1)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            y = self.layer(*[x] * repeated)
            return y[0] if isinstance(y, tuple) else y

    x = torch.rand(shape, dtype=torch.float64)
    expected = Model()(x).detach()
    found = poptorch.inferenceModel(Model())(x)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=1e-5)
