"""Backward stages draw random numbers again, and masks cross stages in their smallest form."""

import copy

import poptorch
import pytest
import torch
from torch.nn import functional as F

BATCH, WIDTH, MICRO_BATCHES = 4, 8, 8
BYTES = BATCH * WIDTH * 4  # of one micro-batch of float32


def dropped(x):
    return F.dropout(x, 0.3)


def dropped_twice(x):
    return torch.tanh(F.dropout(F.dropout(x, 0.3), 0.5))


def noisy(x):
    return torch.tanh(x + torch.randn_like(x)) * torch.rand(WIDTH)


def chosen(x):
    return x * torch.bernoulli(torch.sigmoid(x.detach()))


def attended(x):
    shares = F.dropout(torch.softmax(x @ x.T, -1), 0.2)
    return shares @ x


class Stages(torch.nn.Module):
    """`draws` makes the results of each layer random; `cuts` are the IPUs of the layers."""

    def __init__(self, draws, cuts, keep=False):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in cuts)
        self.draws, self.cuts, self.keep = draws, cuts, keep

    def forward(self, x, target):
        for layer, ipu in zip(self.layers, self.cuts, strict=True):
            poptorch.Block.start(ipu_id=ipu)
            x = torch.relu(self.draws(layer(x)))
            if self.keep:
                x = poptorch.recomputationCheckpoint(x)
        return x, F.mse_loss(x, target)


def train(model, inputs, rounding=False, replicas=1, auto=poptorch.AutoStage.SameAsIpu):
    options = poptorch.Options().showCompilationProgressBar(False).randomSeed(5)
    options.setExecutionStrategy(poptorch.PipelinedExecution(auto))
    options.Training.gradientAccumulation(MICRO_BATCHES)
    options.outputMode(poptorch.OutputMode.All).replicationFactor(replicas)
    options.autoRoundNumIPUs(True).Precision.enableStochasticRounding(rounding)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    wrapped = poptorch.trainingModel(model, options, optimiser)
    results = [result for _ in range(3) for result in wrapped(*inputs)]
    wrapped.copyWeightsToHost()
    return results + list(model.parameters()), wrapped.report()


def train_both(draws, cuts, inputs, half=False, keep=False, **options):
    """Returns the report of the pipeline, whose bits must be those of one IPU."""
    torch.manual_seed(0)
    split = Stages(draws, cuts, keep)
    whole = Stages(draws, [0] * len(cuts), keep)
    whole.load_state_dict(copy.deepcopy(split.state_dict()))
    if half:
        split, whole = split.half(), whole.half()
        inputs = [tensor.half() for tensor in inputs]
    expected, _ = train(whole, inputs, **options)
    results, report = train(split, inputs, **options)
    assert all(torch.equal(a, b) for a, b in zip(results, expected, strict=True))
    return report


def batches(replicas=1):
    rows = BATCH * MICRO_BATCHES * replicas
    return torch.randn(2, rows, WIDTH, generator=torch.Generator().manual_seed(1))


@pytest.mark.shared
@pytest.mark.parametrize("cuts", [[0, 1, 2], [0, 0, 1]])
@pytest.mark.parametrize("draws", [dropped, dropped_twice, noisy, chosen, attended])
def test_random_numbers_are_drawn_again_instead_of_stashed(draws, cuts):
    report = train_both(draws, cuts, batches())
    # An input waits two cycles on IPU 0 for each later stage; what IPU 1 receives, two cycles.
    expected = {3: [4 * BYTES, 2 * BYTES, 0], 2: [2 * BYTES, 0]}[cuts[-1] + 1]
    assert [ipu["stash_bytes"] for ipu in report["ipus"]][: len(expected)] == expected


def test_each_replica_draws_its_numbers_again():
    report = train_both(dropped, [0, 1], batches(2), replicas=2)
    assert report["ipus"][0]["stash_bytes"] == 2 * BYTES


def test_values_that_are_rounded_stochastically_are_recomputed():
    report = train_both(torch.tanh, [0, 1], batches(), half=True, rounding=True)
    assert report["ipus"][0]["stash_bytes"] == 2 * BYTES // 2


def test_a_checkpoint_after_dropout_is_stashed():
    report = train_both(dropped, [0, 0, 1], batches(), keep=True)
    # The input, and the result of each layer.
    assert report["ipus"][0]["stash_bytes"] == 6 * BYTES


class Masked(torch.nn.Module):
    """Every stage uses a mask, which `widen` prepares from one value for each row."""

    def __init__(self, ipus, widen):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.ipus, self.widen = ipus, widen

    def forward(self, x, valid, target):
        poptorch.Block.start(ipu_id=0)
        mask = self.widen(valid)
        for number, layer in enumerate(self.layers):
            poptorch.Block.start(ipu_id=min(number, self.ipus - 1))
            x = torch.tanh(layer(x)) * mask
        return x, F.mse_loss(x, target)


@pytest.mark.parametrize(
    "widen",
    [
        lambda valid: valid.float(),
        lambda valid: valid.float().expand(-1, WIDTH),
        lambda valid: ((1 - valid.float()) * 0.5 + 0.25).expand(-1, WIDTH).contiguous(),
    ],
)
def test_a_mask_crosses_stages_in_its_smallest_form(widen):
    x, target = batches()
    valid = torch.arange(len(x))[:, None] % 3 > 0
    runs = []
    for ipus in (1, 3):
        torch.manual_seed(0)
        runs.append(train(Masked(ipus, widen), (x, valid, target)))
    (expected, _), (results, report) = runs
    assert all(torch.equal(a, b) for a, b in zip(results, expected, strict=True))
    # Masks of one byte a row wait for the backward stage on IPUs 0 and 1, beside the stage's input,
    # and for one cycle more on the way to IPU 2 than the result of IPU 1.
    mask = BATCH
    stashes = [ipu["stash_bytes"] for ipu in report["ipus"]]
    assert stashes == [4 * (BYTES + mask), 2 * (BYTES + mask), mask]


class Tied(torch.nn.Module):
    """The first and the last stage, both on IPU 0, use one weight of many rows."""

    ROWS = 64

    def __init__(self, ipus):
        super().__init__()
        self.embedding = torch.nn.Embedding(self.ROWS, WIDTH)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.ipus = ipus

    def forward(self, tokens, target):
        poptorch.Block.start(ipu_id=0)
        x = self.embedding(tokens)
        for number, layer in enumerate(self.layers):
            poptorch.Block.start(ipu_id=min(number, self.ipus - 1))
            x = torch.tanh(layer(x))
        poptorch.Block.start(ipu_id=0)
        scores = x @ self.embedding.weight.t()
        return scores, F.cross_entropy(scores, target)


@pytest.mark.parametrize("half", [False, True])
def test_the_gradient_of_a_tied_weight_waits_as_its_operands(half):
    tokens = torch.arange(2 * BATCH * MICRO_BATCHES).reshape(2, -1).int() % Tied.ROWS
    runs = []
    for ipus in (1, 3):
        torch.manual_seed(0)
        model = Tied(ipus).half() if half else Tied(ipus)
        auto = poptorch.AutoStage.AutoIncrement  # the last stage is on IPU 0 as well
        runs.append(train(model, (tokens[0], tokens[1].long()), auto=auto))
    (expected, _), (results, report) = runs
    assert all(torch.equal(a, b) for a, b in zip(results, expected, strict=True))
    # The gradient of the head would wait for the one of the embedding in three stages.
    assert report["ipus"][0]["stash_bytes"] < 3 * Tied.ROWS * WIDTH * (2 if half else 4)
