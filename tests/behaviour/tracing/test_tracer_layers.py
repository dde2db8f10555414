"""Whole layers of torch.nn train as in eager mode."""

import io

import poptorch
import pytest
import torch
from torch import nn
from tracer_case import compare_inference, compare_training, seeded


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 4, 3, padding="same", groups=2),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
        )

    def forward(self, x):
        return self.layers(x)


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.rnn = kind(4, 5, **options)

    def forward(self, x):
        y, state = self.rnn(x)
        return (y, *state) if isinstance(state, tuple) else (y, state)


class Attention(nn.Module):
    def __init__(self, need_weights=False):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.need_weights = need_weights

    def forward(self, x):
        y, weights = self.attention(x, x, x, need_weights=self.need_weights)
        return (y, weights) if self.need_weights else y


class Normalised(nn.Module):
    def __init__(self):
        super().__init__()
        self.instance = nn.InstanceNorm1d(4, affine=True, track_running_stats=True)
        self.group = nn.GroupNorm(2, 4)
        self.layer = nn.LayerNorm(6)
        self.batch = nn.BatchNorm1d(4, momentum=0.3)

    def forward(self, x):
        return self.layer(self.batch(self.group(self.instance(x))))


class Embedded(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 4, padding_idx=2)
        self.head = nn.Linear(4, 10, bias=False)
        self.head.weight = self.table.weight

    def forward(self, tokens):
        return self.head(self.table(tokens))


def encoder(**options):
    return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, **options)


def weight_normed():
    return nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))


def scripted():
    return nn.Sequential(torch.jit.script(nn.Linear(4, 3)), nn.Tanh())


def upsampled(mode):
    return nn.Sequential(nn.Conv2d(1, 1, 1), nn.Upsample(scale_factor=2, mode=mode))


LAYERS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)), (3, 4)),
    "cnn": (Convolutions, (2, 3, 8, 8)),
    "cnn_eval": (lambda: Convolutions().eval(), (2, 3, 8, 8)),
    "norms": (Normalised, (3, 4, 6)),
    "lstm": (lambda: Recurrent(nn.LSTM, num_layers=2, bidirectional=True), (3, 2, 4)),
    "lstm_batch_first": (lambda: Recurrent(nn.LSTM, batch_first=True, bias=False), (2, 3, 4)),
    "gru": (lambda: Recurrent(nn.GRU, num_layers=2), (3, 2, 4)),
    "rnn": (lambda: Recurrent(nn.RNN), (3, 2, 4)),
    "attention": (Attention, (2, 5, 8)),
    "attention_weights": (lambda: Attention(True), (2, 5, 8)),
    "encoder": (encoder, (2, 5, 8)),
    "encoder_norm_first": (lambda: encoder(norm_first=True, activation="gelu"), (2, 5, 8)),
    "encoder_eval": (lambda: encoder().eval(), (2, 5, 8)),
    "weight_norm": (weight_normed, (3, 4)),
    "scripted": (scripted, (3, 4)),
    "conv_transpose": (lambda: nn.ConvTranspose2d(3, 4, 3, 2, output_padding=1), (2, 3, 4, 4)),
    "conv3d": (lambda: nn.Conv3d(2, 3, 2), (1, 2, 3, 3, 3)),
    "upsample": (lambda: upsampled("nearest"), (1, 1, 3, 3)),
    "bilinear": (lambda: upsampled("bilinear"), (1, 1, 3, 3)),
}  # fmt: skip


@pytest.mark.shared
@pytest.mark.parametrize("name", LAYERS)
def test_layer_trains_as_in_eager_mode(name, micro_batches):
    make, shape = LAYERS[name]
    if name == "scripted":  # a copy has parameters that are not leaves: useless as reference
        compare_inference(seeded(make), torch.randn(shape))
        return
    data = torch.randn(shape)
    compare_training(seeded(make), data, tolerance=1e-4, steps=2, micro_batches=micro_batches)


def test_tied_embedding_trains_as_in_eager_mode():
    compare_training(seeded(Embedded), torch.tensor([[1, 2, 3], [9, 0, 2]]), steps=2)


def test_encoder_without_gradients_takes_the_traceable_path():
    compare_inference(seeded(lambda: encoder().eval()), torch.randn(2, 5, 8), tolerance=1e-4)


def batch_norm_of_few_rows():
    layer = torch.nn.BatchNorm2d(512, affine=False, track_running_stats=False)
    return layer, torch.randn(16, 512, 2, 2) * 2 + 0.5


def deep_convolution():
    return torch.nn.Conv2d(256, 64, 3, padding=1), torch.randn(4, 256, 8, 8)


def convolution_of_part_blocks():
    return torch.nn.Conv2d(24, 40, (3, 5), 2, (1, 2), (1, 2)), torch.randn(8, 24, 20, 20)


@pytest.mark.parametrize(
    "make", [batch_norm_of_few_rows, deep_convolution, convolution_of_part_blocks]
)
def test_sums_are_as_exact_as_torchs(make):
    torch.manual_seed(0)
    layer, x = make()
    ours, eager = poptorch.inferenceModel(layer)(x), layer(x)
    exact = layer.double()(x.double())
    assert (ours - exact).square().mean() <= 1.5 * (eager - exact).square().mean()


class Transformer(nn.Module):
    """Has several layers, whose masks torch compares with causal ones to choose a kernel."""

    def __init__(self, makes_masks, **options):
        super().__init__()
        self.makes_masks = makes_masks
        self.layers = nn.Transformer(8, 2, 2, 3, 16, dropout=0.0, batch_first=True, **options)

    def forward(self, x, y, *masks):
        if self.makes_masks:
            masks = [nn.Transformer.generate_square_subsequent_mask(t.shape[1]) for t in (x, y)]
        return self.layers(x, y, *masks)


@pytest.mark.shared
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("masks", ["made", "causal", "other"])
def test_a_transformer_of_several_layers_with_masks(masks, norm_first):
    torch.manual_seed(3)
    given = []
    if masks != "made":
        given = [nn.Transformer.generate_square_subsequent_mask(size) for size in (5, 4)]
    if masks == "other":
        given = [mask.flip(0, 1) for mask in given]
    model = seeded(lambda: Transformer(masks == "made", norm_first=norm_first))
    inputs = torch.randn(2, 5, 8), torch.randn(2, 4, 8)
    compare_training(model, *inputs, *given)
    compare_inference(model.eval(), *inputs, *given)


@torch.jit.script
def gated(x):
    return torch.relu(x) * torch.sigmoid(x).sum()


def saved(module):
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(module), file)
    return torch.jit.load(io.BytesIO(file.getvalue()))


SCRIPTS = {
    "function": lambda: gated,
    "module": lambda: torch.jit.script(nn.Sequential(nn.ReLU(), nn.Linear(3, 2))),
    "traced": lambda: torch.jit.trace(nn.Sequential(nn.ReLU(), nn.Linear(3, 2)), torch.ones(1, 3)),
    "loaded": lambda: saved(nn.Sequential(nn.ReLU(), nn.Linear(3, 2))),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_that_have_run_keep_their_gradients(name):
    """After two runs, torch's executor would merge them into one piece with a separate gradient."""
    script = seeded(SCRIPTS[name])

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = seeded(lambda: nn.Linear(4, 3))
            self.script = script

        def forward(self, x):
            y = self.script(self.fc(x))
            return y, poptorch.identity_loss(y.square(), "sum")

    model, x = Model(), torch.randn(5, 4)
    for _ in range(3):
        model.zero_grad()
        model(x)[1].backward()
    gradient = model.fc.weight.grad.clone()
    before = model.fc.weight.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for _ in range(2):  # the second wrapper traces a script that a trace has already run
        wrapped = poptorch.trainingModel(model, optimizer=optimizer)
        wrapped(x)
        wrapped.copyWeightsToHost()
        wrapped.destroy()
        after = model.fc.weight.detach().clone()
        torch.testing.assert_close(before - after, gradient, rtol=1e-4, atol=1e-4)
        model.zero_grad()
        model(x)[1].backward()
        gradient, before = model.fc.weight.grad.clone(), after
