"""Phased execution gives the bits of one IPU, whichever tensors are off the chip at any time."""

import copy

import poptorch
import pytest
import torch
from poptorch import Liveness, Phase, Stage
from torch.nn import functional as F

WIDTH, BATCH = 6, 4


class Chain(torch.nn.Module):
    """Layers, one per block; the last but one uses the first value again."""

    def __init__(self, count=4):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(count))
        self.norm = torch.nn.BatchNorm1d(WIDTH)

    def forward(self, x, target):
        first = None
        for number, layer in enumerate(self.layers):
            with poptorch.Block(f"b{number}"):
                if number == len(self.layers) - 2:
                    x = self.norm(x + first)
                x = F.dropout(torch.tanh(layer(x)), 0.2)
                first = x if first is None else first
                if number == len(self.layers) - 1:
                    return x, F.mse_loss(x, target)


def phases(count=4):
    return [Phase(f"b{number}") for number in range(count)]


def serial(liveness=Liveness.AlwaysLive, separate=False):
    made = poptorch.SerialPhasedExecution(*phases())
    for number in range(4):
        made.phase(number).ipus(0)
    return made.setTensorsLiveness(liveness).useSeparateBackwardPhase(separate)


def parallel(off_chip=False, separate=False):
    made = poptorch.ParallelPhasedExecution(*phases())
    return made.sendTensorsOffChipAfterFwd(off_chip).useSeparateBackwardPhase(separate)


def options_of(strategy, accumulation=1, iterations=1):
    options = poptorch.Options().showCompilationProgressBar(False).randomSeed(5)
    options.setExecutionStrategy(strategy).deviceIterations(iterations)
    options.outputMode(poptorch.OutputMode.All)
    options.Training.gradientAccumulation(accumulation)
    return options


def train(strategy, accumulation=1, iterations=1, kind=torch.optim.SGD, setup=None, **numbers):
    """Returns the results and state of two runs, and the wrapper's report and schedule."""
    torch.manual_seed(1)
    model = Chain()
    options = options_of(strategy, accumulation, iterations)
    if setup:
        setup(options)
    wrapped = poptorch.trainingModel(model, options, kind(model.parameters(), **numbers))
    results = []
    for _ in range(2):
        results += wrapped(*torch.randn(2, BATCH * accumulation * iterations, WIDTH))
    wrapped.copyWeightsToHost()
    results += [tensor.clone() for tensor in model.state_dict().values()]
    report, program = wrapped.report(), wrapped.graph("program")
    wrapped.destroy()
    return results, report, program


def one_ipu(**settings):
    blocks = [Stage(*(f"b{number}" for number in range(4))).ipu(0)]
    return train(poptorch.ShardedExecution(*blocks), **settings)


STRATEGIES = {
    **{f"serial, {mode.name}": serial(mode) for mode in Liveness},
    **{f"serial, {mode.name}, separate": serial(mode, True) for mode in Liveness},
    "parallel": parallel(),
    "parallel, off chip": parallel(True),
    "parallel, off chip, separate": parallel(True, True),
}
SETTINGS = {
    "sgd": {"lr": 0.1},
    "momentum": {"lr": 0.1, "momentum": 0.9, "accumulation": 3},
    "adam": {"lr": 0.01, "kind": poptorch.optim.Adam, "accumulation": 2, "iterations": 2},
    "lamb": {"lr": 0.01, "kind": poptorch.optim.LAMB, "accumulation": 2},
    "adam at once": {"lr": 0.01, "kind": poptorch.optim.AdamW, "iterations": 2},
}
_expected = {}


@pytest.mark.shared
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_training_gives_the_bits_of_one_ipu(strategy, settings):
    if settings not in _expected:
        _expected[settings] = one_ipu(**SETTINGS[settings])[0]
    results, _, _ = train(STRATEGIES[strategy], **SETTINGS[settings])
    for one, other in zip(results, _expected[settings], strict=True):
        assert torch.equal(one, other)


def test_inference_gives_the_bits_of_one_ipu():
    model = Chain().eval()
    x, target = torch.randn(2, BATCH * 3, WIDTH)

    def run(strategy):
        made = poptorch.inferenceModel(model, options_of(strategy, iterations=3))
        return made(x, target)

    expected = run(poptorch.ShardedExecution(*(Stage(f"b{number}").ipu(0) for number in range(4))))
    for strategy in STRATEGIES.values():
        for one, other in zip(run(strategy), expected, strict=True):
            assert torch.equal(one, other)


def test_automatic_loss_scaling_goes_on():
    def setup(options):
        options.Training.setAutomaticLossScaling(True)

    expected, _, _ = one_ipu(lr=0.1, setup=setup)
    for mode in Liveness:
        results, _, _ = train(serial(mode), lr=0.1, setup=setup)
        assert all(torch.equal(one, other) for one, other in zip(results, expected, strict=True))


def memory(report):
    return sum(ipu["state_bytes"] for ipu in report["ipus"])


def test_weights_and_optimiser_state_take_no_memory_of_the_chip():
    settings = {"lr": 0.1, "momentum": 0.9}
    _, whole, _ = one_ipu(**settings)
    _, phased, program = train(serial(), **settings)
    weights = 4 * (WIDTH * WIDTH + WIDTH) * 4
    assert memory(whole) - memory(phased) >= 2 * weights
    assert 'state "layers.0.weight" : f32[6,6] {on_chip=false}' in program
    assert " = store(%layers.0.weight" in program


def test_locations_bring_weights_back_to_the_chip():
    def on_chip(options):
        settings = poptorch.TensorLocationSettings().useOnChipStorage(True)
        for kind in ("Weight", "Optimizer", "Accumulator"):
            getattr(options.TensorLocations, f"set{kind}Location")(settings)

    settings = {"lr": 0.1, "momentum": 0.9, "accumulation": 2}
    expected, _, _ = one_ipu(**settings)
    results, _, program = train(serial(), setup=on_chip, **settings)
    assert "load(" not in program and "on_chip=false" not in program
    assert all(torch.equal(one, other) for one, other in zip(results, expected, strict=True))


@pytest.mark.parametrize("strategy", [poptorch.ShardedExecution, poptorch.PipelinedExecution])
@pytest.mark.parametrize("kind", ["Weight", "Optimizer", "Accumulator"])
def test_other_strategies_may_put_state_off_the_chip(strategy, kind):
    def off_chip(options):
        settings = poptorch.TensorLocationSettings().useOnChipStorage(False)
        getattr(options.TensorLocations, f"set{kind}Location")(settings)

    stages = [Stage("b0", "b1").ipu(0), Stage("b2", "b3").ipu(1)]
    settings = {"lr": 0.1, "momentum": 0.9, "accumulation": 4}
    expected, whole, _ = train(strategy(*stages), **settings)
    results, moved, program = train(strategy(*stages), setup=off_chip, **settings)
    assert memory(moved) < memory(whole) and "on_chip=false" in program
    assert all(torch.equal(one, other) for one, other in zip(results, expected, strict=True))


def test_small_tensors_stay_on_the_chip():
    def large_only(options):
        settings = poptorch.TensorLocationSettings().minElementsForOffChip(10)
        options.TensorLocations.setWeightLocation(settings)

    _, _, program = train(serial(), lr=0.1, setup=large_only)
    assert 'state "layers.0.weight" : f32[6,6] {on_chip=false}' in program
    assert 'state "layers.0.bias" : f32[6]\n' in program


def loads_of(program, phase):
    return [line for line in program.splitlines() if "load(" in line and f"phase={phase} " in line]


def test_io_tiles_load_while_the_phase_before_computes():
    def io_tiles(options):
        options.TensorLocations.numIOTiles(64)
        options.TensorLocations.setWeightLocation(
            poptorch.TensorLocationSettings().useIOTilesToLoad(True)
        )

    def order(setup):
        lines = train(serial(), lr=0.1, setup=setup)[2].splitlines()
        load = next(i for i, line in enumerate(lines) if "load(%layers.1.weight" in line)
        compute = next(i for i, line in enumerate(lines) if "tanh(" in line)
        return load < compute

    assert order(io_tiles) and not order(None)


def test_liveness_decides_which_activations_leave():
    counts = [train(serial(mode), lr=0.1)[2].count("remote=") for mode in Liveness]
    always, after, apart, each = counts
    assert always == 0 < after <= apart < each


@pytest.mark.parametrize("kind", [poptorch.SerialPhasedExecution, poptorch.ParallelPhasedExecution])
@pytest.mark.parametrize(
    "second", ["b", Stage("b"), Phase("b"), Phase(Stage("b")), ["b"], [Stage("b")]], ids=repr
)
@pytest.mark.parametrize("first", ["a", Stage("a"), Phase("a"), ["a"]], ids=repr)
def test_phases_in_every_form(kind, first, second):
    strategy = kind(first, second)
    assert [[s.blocks for s in strategy.phase(i).stages] for i in (0, 1)] == [[["a"]], [["b"]]]


def test_phases_are_stages_lists_of_stages_or_lists_of_ids():
    strategy = poptorch.SerialPhasedExecution(Phase(Stage("a"), Stage("b")))
    assert [stage.blocks for stage in strategy.phase(0).stages] == [["a"], ["b"]]
    strategy = poptorch.SerialPhasedExecution([Stage("a"), Stage("b")], ["c", "d"])
    assert [stage.blocks for stage in strategy.phase(1).stages] == [["c", "d"]]
    assert strategy.stage("d") is strategy.phase(1).stage(0)
    strategy.phase(0).ipus(2, 3)
    assert repr(strategy.phase(0)) == "Phase(Stage('a').ipu(2), Stage('b').ipu(3))"


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: poptorch.SerialPhasedExecution(), "at least one phase"),
        (
            lambda: poptorch.ParallelPhasedExecution(1),
            "Expected a Phase, a Stage, the id of a block",
        ),
        (lambda: Phase(), "at least one Stage"),
        (
            lambda: Phase("a", Stage("b")),
            r"All arguments must either be block IDs \(strings\) or Stages.*got 'a'",
        ),
        (lambda: Phase("a").ipus(0, 1), r"Expected 1 IPUs.*but got 2: \[0, 1\]"),
        (lambda: serial().phase(4), "A phase is a number from 0 to 3, not 4"),
        (lambda: serial().phase("0"), "A phase is a number from 0 to 3, not '0'"),
        (lambda: serial().stage("x"), "Unknown block: x"),
        (lambda: serial().setTensorsLiveness(1), "Expected a poptorch.Liveness but got 1"),
        (lambda: serial().useSeparateBackwardPhase(1), "Expected True or False but got 1"),
        (lambda: parallel().sendTensorsOffChipAfterFwd("x"), "Expected True or False but got 'x'"),
        (
            lambda: poptorch.SerialPhasedExecution(["a"], ["b", "a"]),
            "a associated with more than one stage",
        ),
    ],
)
def test_arguments_are_checked(make, text):
    with pytest.raises(AssertionError, match=text):
        make()


def test_strategies_come_from_option_files(tmp_path):
    file = tmp_path / "options.conf"
    file.write_text(
        'setExecutionStrategy(poptorch.SerialPhasedExecution(poptorch.Phase("a").ipus(1), '
        "[poptorch.Stage('b').ipu(0)]).setTensorsLiveness(poptorch.Liveness.OffChipAfterFwd))\n"
    )
    strategy = poptorch.Options().loadFromFile(str(file))._execution_strategy
    assert repr(strategy) == (
        "SerialPhasedExecution(Phase(Stage('a').ipu(1)), Phase(Stage('b').ipu(0))).OffChipAfterFwd"
    )


def test_stages_without_ipu_run_on_that_of_their_place():
    model = Chain().eval()
    blocks = [[Stage("b0"), Stage("b1")], [Stage("b2"), Stage("b3")]]

    def ipus(kind):
        made = poptorch.inferenceModel(model, options_of(kind(*copy.deepcopy(blocks))))
        made.compile(*torch.randn(2, BATCH, WIDTH))
        lines = [line for line in made.graph("placed").splitlines() if " = tanh(" in line]
        return [int(line.split("ipu=")[1].split()[0].rstrip("]")) for line in lines]

    assert ipus(poptorch.SerialPhasedExecution) == [0, 1, 0, 1]
    assert ipus(poptorch.ParallelPhasedExecution) == [0, 2, 1, 3]
