"""No reference kernel runs in the layers of common networks; a costly one elsewhere is reported.

Bookkeeping (kernels of single numbers, and of ops without results) may use reference kernels.
"""

import re

import poptorch
import pytest
import torch
from torch import nn

from benchmarks.workloads import KINDS, WORKLOADS, make

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
ROWS, WIDTH = 50, 16

LAYERS = {
    "gru": lambda: (nn.GRU(8, 16, 2, bidirectional=True), torch.randn(4, 5, 8)),
    "lstm": lambda: (nn.LSTM(8, 16, 2, bidirectional=True), torch.randn(4, 5, 8)),
    "rnn": lambda: (nn.RNN(8, 16), torch.randn(4, 5, 8)),
    "conv_transpose1d": lambda: (
        nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1),
        torch.randn(2, 4, 9),
    ),
    "conv_transpose2d": lambda: (
        nn.Sequential(
            nn.ConvTranspose2d(4, 4, 3), nn.GELU(), nn.ConvTranspose2d(4, 6, 3, 2, groups=2)
        ),
        torch.randn(2, 4, 9, 9),
    ),
    "conv_transpose3d": lambda: (
        nn.ConvTranspose3d(4, 6, 3, dilation=2, bias=False),
        torch.randn(2, 4, 5, 5, 5),
    ),
}
INDEXED = {
    "index_add": lambda table, src, at: table.index_add(0, at, src),
    "index_add_of_columns": lambda table, src, at: table.T.index_add(1, at, src.T),
    "scatter_add": lambda table, src, at: table.scatter_add(0, at[:, None].expand_as(src), src),
    "index_put": lambda table, src, at: table.index_put((at,), src, accumulate=True),
    "gather": lambda table, src, at: table.gather(0, at[:, None].expand_as(src)) + src,
    "index": lambda table, src, at: table[at] + table.index_select(0, at) * src,
    "embedding": lambda table, src, at: nn.functional.embedding(at, table) * src,
}
IMAGES = {
    "softmax": lambda x: torch.softmax(x, 1),
    "log_softmax": lambda x: torch.log_softmax(x, 1),
    "logsumexp": lambda x: torch.logsumexp(x, 1),
    "cross_entropy": lambda x: nn.functional.cross_entropy(
        x, torch.zeros(2, 9, 9).long(), torch.ones(4).to(x.dtype), label_smoothing=0.1
    ),
    "group_norm": nn.GroupNorm(2, 4),
    "pad": lambda x: nn.functional.pad(x, (1, 2, 1, 2), value=1.5),
    "pad_by_reflection": lambda x: nn.functional.pad(x, (1, 2, 1, 2), mode="reflect"),
    "pad_by_wrapping": lambda x: nn.functional.pad(x, (1, 2, 1, 2), mode="circular"),
    "diagonal": lambda x: x.diagonal(0, 1, 3),
    "dropout": lambda x: nn.functional.dropout(x, 0.3),
    "rand": lambda x: x * torch.rand_like(x) + torch.randn_like(x),
    "flip": lambda x: x.flip(2),
    "max": lambda x: x.max(1)[0],
    "argmax": lambda x: x * x.argmax(1, keepdim=True),
    "topk": lambda x: x.topk(3, 1)[0],
    "sort": lambda x: x.sort(1)[0],
    "cumsum": lambda x: x.cumsum(2),
    "cumprod": lambda x: x.cumprod(2),
    "one_hot": lambda x: nn.functional.one_hot(x.argmax(1), 4) * x.sum(),
    "any": lambda x: (x > 0).any(1) * x[:, 0],
    "count": lambda x: (x > 0).sum(1) * x[:, 0],
}
OPTIMISERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, weight_decay=0.1),
    "adamw": lambda p: torch.optim.AdamW(p),
    "rmsprop": lambda p: torch.optim.RMSprop(p, momentum=0.9, centered=True),
    "lamb": lambda p: poptorch.optim.LAMB(p),
    "halves": lambda p: poptorch.optim.AdamW(
        p, accum_type=torch.float16, first_order_momentum_accum_type=torch.float16
    ),
}


def reference_kernels(wrapped):
    steps = [line.strip() for line in wrapped.graph("bound").splitlines()]
    return [step for step in steps if "(reference)" in step]


class Squared(nn.Module):
    """Returns the mean square of a module's result, as a loss."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *inputs):
        y = self.module(*inputs)
        y = y[0] if isinstance(y, tuple) else y
        return poptorch.identity_loss(y * y, "mean")


class Indexed(nn.Module):
    def __init__(self, use):
        super().__init__()
        self.use = use
        self.table = nn.Parameter(torch.randn(ROWS, WIDTH))
        self.src = nn.Parameter(torch.randn(ROWS, WIDTH))

    def forward(self, at):
        return self.use(self.table, self.src, at)


def compiled_training(module, x, dtype, optimiser=OPTIMISERS["sgd"]):
    model = Squared(module).to(dtype)
    wrapped = poptorch.trainingModel(model, optimizer=optimiser(model.parameters()))
    wrapped.compile(x.to(dtype) if x.is_floating_point() else x)
    return wrapped


@pytest.mark.shared
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*WORKLOADS, *KINDS])
def test_workloads(name, dtype):
    built = make(f"{name}:{dtype}")
    if built.training:
        wrapped = poptorch.trainingModel(built.model, optimizer=built.optimiser())
    else:
        wrapped = poptorch.inferenceModel(built.model)
    wrapped.compile(*built.batches(1)[0])
    assert reference_kernels(wrapped) == []


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name, dtype):
    assert reference_kernels(compiled_training(*LAYERS[name](), DTYPES[dtype])) == []


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", INDEXED)
def test_indexing(name, dtype):
    module, at = Indexed(INDEXED[name]), torch.randint(ROWS, (ROWS,))
    assert reference_kernels(compiled_training(module, at, DTYPES[dtype])) == []


class Scaled(nn.Module):
    """Has a parameter to train."""

    def __init__(self, use):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.use = use

    def forward(self, x):
        return self.use(x * self.scale)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", IMAGES)
def test_images(name, dtype):
    module = Scaled(IMAGES[name])
    assert (
        reference_kernels(compiled_training(module, torch.randn(2, 4, 9, 9), DTYPES[dtype])) == []
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPTIMISERS)
def test_updates(name, dtype):
    x = torch.randn(4, 8)
    wrapped = compiled_training(nn.Linear(8, 8), x, DTYPES[dtype], OPTIMISERS[name])
    assert reference_kernels(wrapped) == []


@pytest.mark.parametrize("name", OPTIMISERS)
def test_updates_that_round_at_random(name):
    model = Squared(nn.Linear(8, 8)).half()
    options = poptorch.Options()
    options.Precision.enableStochasticRounding(True)
    wrapped = poptorch.trainingModel(model, options, OPTIMISERS[name](model.parameters()))
    wrapped.compile(torch.randn(4, 8).half())
    assert reference_kernels(wrapped) == []


class Slow(nn.Module):
    """Sums integers over axes that are not adjacent, which only the reference kernel does."""

    def forward(self, x):
        return (x > 0).sum((0, 2))


def test_a_costly_reference_kernel_is_told_once(capfd):
    wrapped = poptorch.inferenceModel(Slow())
    x = torch.ones(400, 20, 400)
    wrapped.compile(x)
    assert wrapped.report()["reference_kernels"] == {"sum": 0}
    capfd.readouterr()
    for _ in range(3):
        wrapped(x)
    told = re.findall(r"\[warning\].* % of the run was spent in '(\w+)'", capfd.readouterr().err)
    assert told == ["sum"]
    assert 0.05 < wrapped.report()["reference_kernels"]["sum"] <= 1


def test_runs_without_reference_kernels_tell_nothing(capfd):
    wrapped = poptorch.inferenceModel(nn.Linear(8, 8))
    wrapped(torch.randn(4, 8))
    assert wrapped.report()["reference_kernels"] == {}
    assert "no fast kernel" not in capfd.readouterr().err
