"""Tests less common variants of torch's layers and operators that models use."""

import poptorch
import pytest
import torch
from torch import nn
from tracer_case import compare_inference, compare_training, seeded


class Through(nn.Module):
    """A linear layer, then a function of its result and the other inputs."""

    def __init__(self, function):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.function = function

    def forward(self, x, *others):
        return self.function(self.linear(x), *others)


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_lstm_with_projections(biases, bidirectional):
    lstm = seeded(lambda: nn.LSTM(3, 4, 2, proj_size=2, bias=biases, bidirectional=bidirectional))

    class Flat(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = lstm

        def forward(self, x):
            y, (h, c) = self.lstm(x)
            return y, h, c

    compare_training(Flat(), torch.randn(5, 2, 3), steps=2)


LAYERS = {
    "rnn": lambda: nn.RNN(4, 3),
    "lstm": lambda: nn.LSTM(4, 3),
    "gru": lambda: nn.GRU(4, 3),
    "linear": lambda: nn.Linear(4, 3),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("held", ["closure", "list"])
def test_layers_that_are_no_part_of_the_model_are_constants(name, held):
    layer = seeded(LAYERS[name])
    layers = [layer]

    def run(layer, x):
        result = layer(x)
        return result[0] if isinstance(result, tuple) else result

    def in_closure(x):
        return run(layer, x)

    class InList(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.layers = layers

        def forward(self, x):
            return run(self.layers[0], self.linear(x))

    x = torch.randn(5, 2, 4)
    if held == "closure":
        compare_inference(in_closure, x)
        compare_training(Through(in_closure), x)
    else:
        compare_training(InList(), x)
    assert all(weight.device.type == "cpu" for weight in layer.parameters())


SEEN = {"inner": [seeded(lambda: nn.RNN(4, 4))]}


def helper(x):
    return SEEN["inner"][0](x)[0]


@pytest.mark.parametrize("seen_by", ["function", "forward"])
def test_layers_that_helping_functions_see_are_constants(seen_by):
    x = torch.randn(5, 2, 4)
    if seen_by == "function":
        compare_inference(lambda x: helper(x), x)
    else:
        compare_training(Through(helper), x)


def test_what_a_function_sees_may_have_no_value_yet():
    def function(x):
        return x * 2 if x.shape[0] else later

    compare_inference(function, torch.randn(3, 4))
    later = function


NEW = {
    "number": lambda x: x.new_tensor(2),
    "list": lambda x: x.new_tensor([1, 2, 3, 4]),
    "integers": lambda x: x.new_tensor([1, 2, 3, 4], dtype=torch.int32),
    "on its device": lambda x: x.new_tensor(data=[[2.5]], device=x.device),
    "of the host": lambda x: x.new_tensor(3.0, device="cpu").item(),
    "of a tensor": lambda x: x.new_tensor(x[0]),
    "without a name": lambda x: x.new([1, 2, 3, 4]),
}


@pytest.mark.parametrize("name", NEW)
@pytest.mark.filterwarnings("ignore:To copy construct from a tensor")
def test_tensors_like_another_of_other_data(name):
    compare_inference(lambda x: x * NEW[name](x), torch.randn(3, 4))
    compare_training(Through(lambda x: x * NEW[name](x)), torch.randn(3, 4))


INDICES = torch.tensor([[0, 2, 4], [4, 3, 2]])


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_rows_of_embeddings_get_their_greatest_norm(kind, sparse):
    model = seeded(lambda: kind(6, 3, max_norm=0.7, sparse=sparse))
    before = model.weight.detach().clone()
    compare_inference(model, INDICES)
    with torch.no_grad():
        model.weight.copy_(before)
    compare_training(model, INDICES, steps=2)
    assert not torch.equal(model.weight, before)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_sparse_gradients_have_the_values_of_dense_ones(mode):
    compare_training(seeded(lambda: nn.EmbeddingBag(6, 3, sparse=True, mode=mode)), INDICES)
    compare_training(seeded(lambda: nn.Embedding(6, 3, sparse=True)), INDICES)


X = seeded(lambda: torch.randn(3, 4))
COUNTS = torch.tensor([1, 2, 0])
WEIGHTS = {
    "counts": {"fweights": torch.tensor([1, 2, 1, 3])},
    "weights": {"aweights": torch.tensor([0.1, 0.2, 0.3, 0.4]), "correction": 0},
    "both": {
        "fweights": torch.tensor([1, 2, 1, 3]),
        "aweights": torch.tensor([0.1, 0.2, 0.3, 0.4]),
    },
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_covariance_with_weights_that_are_inputs(name):
    keywords = WEIGHTS[name]
    names = [n for n, value in keywords.items() if isinstance(value, torch.Tensor)]
    rest = {n: value for n, value in keywords.items() if n not in names}

    def function(x, *weights):
        return torch.cov(x, **dict(zip(names, weights, strict=True)), **rest)

    compare_training(seeded(lambda: Through(function)), X, *(keywords[n] for n in names))


def test_rows_repeated_by_known_counts_or_to_a_known_size():
    def known(x):
        return x.repeat_interleave(torch.tensor([1, 2, 0], device=x.device), 0)

    def sized(x, counts):
        return x.repeat_interleave(counts, 0, output_size=3)

    compare_training(seeded(lambda: Through(known)), X)
    compare_training(seeded(lambda: Through(sized)), X, COUNTS)


def test_tensors_split_at_known_places():
    def function(x):
        return x.tensor_split(torch.tensor([1, 3]), 1)

    compare_training(seeded(lambda: Through(function)), X)


def test_a_leaf_is_not_written_with_gradients():
    def written(x):
        return x

    model = Through(written)
    model.function = lambda x: (model.linear.weight.mul_(2), x)[1]
    with pytest.raises(poptorch.Error, match="is written in place"):
        compare_training(model, X)
