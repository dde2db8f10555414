"""Partitioned models are bit-identical to unsplit ones, and agree with torch."""

import copy

import poptorch
import pytest
import torch

STRATEGIES = {
    "sharded": poptorch.ShardedExecution,
    "pipelined": poptorch.PipelinedExecution,
}
# IPU of each of the four blocks.
CUTS = {"2": [0, 0, 1, 1], "4": [0, 1, 2, 3], "first": [0, 1, 1, 1], "again": [0, 1, 0, 1]}


class Network(torch.nn.Module):
    """Has skips, batch norm with running statistics, dropout; the last block uses the target."""

    def __init__(self, ipus):
        super().__init__()
        self.ipus = ipus
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(4))
        self.norm = torch.nn.BatchNorm1d(8)
        self.dropout = torch.nn.Dropout(0.3)

    def forward(self, x, target=None):
        skip = x
        for number, layer in enumerate(self.layers):
            if self.ipus is not None:
                poptorch.Block.start(f"block{number}", ipu_id=self.ipus[number])
            x = torch.relu(layer(x))
            if number == 1:
                x = self.norm(x)
            if number == 2:
                x = self.dropout(x + skip)
        if target is None:
            return x, skip
        return x, torch.nn.functional.mse_loss(x, target)


def make_options(strategy, iterations, accumulation=1, replicas=1):
    options = poptorch.Options().showCompilationProgressBar(False).deviceIterations(iterations)
    options.randomSeed(3).replicationFactor(replicas).outputMode(poptorch.OutputMode.All)
    options.Training.gradientAccumulation(accumulation)
    options.setExecutionStrategy(strategy)
    return options


OPTIMISERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "lamb": lambda p: poptorch.optim.LAMB(p, lr=0.01),
}


def train(model, strategy, optimiser="adam", iterations=1, accumulation=8, replicas=1, steps=3):
    """Returns outputs of the steps and the final state."""
    options = make_options(strategy, iterations, accumulation, replicas)
    wrapped = poptorch.trainingModel(model, options, OPTIMISERS[optimiser](model.parameters()))
    outputs = []
    batch = 4 * iterations * accumulation * replicas
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        x, target = torch.randn(2, batch, 8, generator=generator)
        outputs += wrapped(x, target)
    wrapped.copyWeightsToHostIfNeeded()
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    report = wrapped.report()
    wrapped.destroy()
    return outputs, state, report


def strategy_of(name, cut):
    return STRATEGIES[name](poptorch.AutoStage.AutoIncrement if cut == "again" else
                            poptorch.AutoStage.SameAsIpu)  # fmt: skip


def assert_equal(split, whole):
    outputs, state, _ = split
    for one, other in zip(outputs, whole[0], strict=True):
        assert torch.equal(one, other)
    for name, tensor in whole[1].items():
        assert torch.equal(state[name], tensor), name


def networks(cut):
    """Returns the same model, unsplit and split."""
    torch.manual_seed(0)
    whole = Network(None)
    split = copy.deepcopy(whole)
    split.ipus = CUTS[cut]
    return whole, split


@pytest.mark.shared
@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", STRATEGIES)
def test_training_gives_the_bits_of_the_unsplit_model(name, cut, optimiser):
    whole, split = networks(cut)
    expected = train(whole, poptorch.PipelinedExecution(), optimiser)
    assert_equal(train(split, strategy_of(name, cut), optimiser), expected)


@pytest.mark.parametrize("iterations, replicas", [(3, 1), (1, 2), (2, 2)])
@pytest.mark.parametrize("name", STRATEGIES)
def test_several_updates_a_run_and_replicas(name, iterations, replicas):
    whole, split = networks("4")
    shape = {"iterations": iterations, "replicas": replicas}
    # Has no running statistics: each replica would have its own.
    whole.norm = split.norm = torch.nn.Identity()
    expected = train(whole, poptorch.PipelinedExecution(), **shape)
    assert_equal(train(split, strategy_of(name, "4"), **shape), expected)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", STRATEGIES)
def test_inference_gives_the_bits_of_the_unsplit_model_and_torchs_values(name, cut):
    whole, split = (model.eval() for model in networks(cut))
    x = torch.randn(24, 8)
    expected = poptorch.inferenceModel(whole, make_options(poptorch.PipelinedExecution(), 6))(x)
    strategy = strategy_of(name, cut)
    results = poptorch.inferenceModel(split, make_options(strategy, 6))(x)
    for one, other, eager in zip(results, expected, whole(x), strict=True):
        assert torch.equal(one, other)
        assert torch.allclose(one, eager, atol=1e-6)


@pytest.mark.parametrize("name", STRATEGIES)
def test_training_follows_torch(name):
    _, split = networks("4")
    split.dropout = torch.nn.Identity()
    split.norm = torch.nn.Identity()
    eager = copy.deepcopy(split)
    optimiser = OPTIMISERS["sgd"](eager.parameters())
    generator = torch.Generator().manual_seed(1)
    losses = []
    for _ in range(3):
        x, target = torch.randn(2, 32, 8, generator=generator)
        optimiser.zero_grad()
        for part, wanted in zip(x.split(4), target.split(4), strict=True):
            loss = eager(part, wanted)[1]
            (loss / 8).backward()
            losses.append(loss.detach())
        optimiser.step()
    outputs, state, _ = train(split, strategy_of(name, "4"), "sgd")
    assert torch.allclose(torch.cat(outputs[1::2]), torch.stack(losses), atol=1e-6)
    for key, tensor in eager.state_dict().items():
        assert torch.allclose(state[key], tensor, atol=1e-6), key


@pytest.mark.parametrize("replicas", [1, 2])
def test_stages_overlap_only_when_pipelined(replicas):
    """Tests the modelled time: a sharded run does the work of its IPUs sequentially."""
    cycles = {}
    for name in STRATEGIES:
        _, split = networks("4")
        split.norm = torch.nn.Identity()
        *_, report = train(split, strategy_of(name, "4"), accumulation=32, replicas=replicas)
        cycles[name] = report["cycles_per_run"]
    assert 1.3 * cycles["pipelined"] < cycles["sharded"]


def test_the_report_tells_what_each_ipu_holds():
    _, split = networks("4")
    *_, report = train(split, poptorch.PipelinedExecution(), accumulation=8)
    # Stage 0 waits 6 cycles for its gradient and keeps its input, [4, 8] floats. Stage 3 waits only
    # for the target, which it reads itself.
    stashes = [ipu["stash_bytes"] for ipu in report["ipus"]]
    assert stashes[0] == 6 * 4 * 8 * 4 and stashes[3] == 0
    assert stashes[1] > 0 and stashes[2] > 0
    assert all(ipu["state_bytes"] > 0 for ipu in report["ipus"])


class Checkpointed(torch.nn.Module):
    """Two stages; the middle value of the first is kept or recomputed."""

    def __init__(self, keep):
        super().__init__()
        self.keep = keep
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))

    def forward(self, x, target):
        poptorch.Block.start(ipu_id=0)
        x = torch.tanh(self.layers[0](x))
        if self.keep:
            x = poptorch.recomputationCheckpoint(x)
        x = torch.tanh(self.layers[1](x))
        poptorch.Block.start(ipu_id=1)
        y = self.layers[2](x)
        return y, torch.nn.functional.mse_loss(y, target)


def test_a_checkpoint_is_kept_and_changes_no_value():
    torch.manual_seed(0)
    model = Checkpointed(False)
    kept = copy.deepcopy(model)
    kept.keep = True
    again = train(model, poptorch.PipelinedExecution())
    results = train(kept, poptorch.PipelinedExecution())
    assert_equal(results, again)
    bytes_of = [run[2]["ipus"][0]["stash_bytes"] for run in (again, results)]
    assert bytes_of == [2 * 4 * 8 * 4, 2 * 2 * 4 * 8 * 4]  # the input; and the checkpoint


def test_recomputation_can_be_switched_off():
    def run(keys):
        torch.manual_seed(0)
        model = Checkpointed(False)
        options = make_options(poptorch.PipelinedExecution(), 1, 8)
        for key, value in keys.items():
            options._Popart.set(key, value)
        wrapped = poptorch.trainingModel(model, options, OPTIMISERS["adam"](model.parameters()))
        outputs = wrapped(*torch.randn(2, 32, 8, generator=torch.Generator().manual_seed(1)))
        state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        return outputs, state, wrapped.report()

    again, kept = run({}), run({"autoRecomputation": 0})
    assert_equal(kept, again)
    stashes = [run[2]["ipus"][0]["stash_bytes"] for run in (again, kept)]
    assert stashes == [2 * 4 * 8 * 4, 3 * 2 * 4 * 8 * 4]  # the input; and both results of tanh


def test_a_model_in_half_precision_is_split_too():
    torch.manual_seed(0)
    whole = Network(None).half().eval()
    split = copy.deepcopy(whole)
    split.ipus = CUTS["4"]
    x = torch.randn(16, 8).half()
    expected = poptorch.inferenceModel(whole, make_options(poptorch.PipelinedExecution(), 4))(x)
    results = poptorch.inferenceModel(split, make_options(poptorch.PipelinedExecution(), 4))(x)
    assert torch.equal(results[0], expected[0])


class SameTwice(torch.nn.Module):
    """Two blocks compute the same expression: merging must not change sums of gradients."""

    def __init__(self, ipus):
        super().__init__()
        self.ipus = ipus
        self.fc = torch.nn.Linear(8, 8)
        self.out = torch.nn.Linear(8, 8)

    def begin(self, number):
        if self.ipus is not None:
            poptorch.Block.start(f"b{number}", ipu_id=self.ipus[number])

    def forward(self, x, target=None):
        self.begin(0)
        h = self.fc(x)
        a = torch.tanh(h) * 1.1
        self.begin(1)
        b = torch.tanh(h) * 0.3
        y = self.out(a + b)
        return y, torch.nn.functional.mse_loss(y, target)


@pytest.mark.parametrize("name", STRATEGIES)
def test_common_expressions_of_two_blocks(name):
    torch.manual_seed(0)
    whole = SameTwice(None)
    split = copy.deepcopy(whole)
    split.ipus = [0, 1]
    expected = train(whole, poptorch.PipelinedExecution())
    assert_equal(train(split, STRATEGIES[name]()), expected)


def test_gradient_accumulation_must_fill_the_pipeline():
    _, split = networks("4")
    with pytest.raises(poptorch.Error, match=r"(?s)gradientAccumulation must be .*\(7\).*addition"):
        train(split, poptorch.PipelinedExecution(), accumulation=6)


def test_inference_with_accumulation_points_to_device_iterations():
    options = make_options(poptorch.PipelinedExecution(), 1, accumulation=2)
    with pytest.raises(poptorch.Error, match=r"gradientAccumulation to 1.*deviceIterations"):
        poptorch.inferenceModel(torch.nn.ReLU(), options)
    options = make_options(poptorch.ShardedExecution(), 1, accumulation=2)
    with pytest.raises(poptorch.Error) as caught:
        poptorch.inferenceModel(torch.nn.ReLU(), options)
    assert "deviceIterations" not in str(caught.value)
