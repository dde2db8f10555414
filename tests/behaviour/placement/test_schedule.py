"""printSchedule() and schedule() of compiled programs show the guide's figures 4.2 and 4.3."""

import json
import textwrap

import poptorch
import pytest
import torch


class Chain(torch.nn.Module):
    """One layer per entry of `ipus`, each in a block on that IPU."""

    def __init__(self, ipus):
        super().__init__()
        self.ipus = ipus
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in ipus)

    def forward(self, x, target=None):
        for ipu, layer in zip(self.ipus, self.layers, strict=True):
            poptorch.Block.start(ipu_id=ipu)
            x = torch.tanh(layer(x))
        return x if target is None else (x, torch.nn.functional.mse_loss(x, target))


def compiled(ipus, strategy, micro_batches, training, updates=1):
    options = poptorch.Options().showCompilationProgressBar(False).setExecutionStrategy(strategy)
    x = torch.randn(micro_batches * updates, 4)
    if not training:
        made = poptorch.inferenceModel(Chain(ipus), options.deviceIterations(micro_batches))
        made.compile(x)
        return made
    options.Training.gradientAccumulation(micro_batches)
    made = poptorch.trainingModel(Chain(ipus), options.deviceIterations(updates))
    made.compile(x, x)
    return made


PIPELINED = poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement)
SHARDED = poptorch.ShardedExecution(poptorch.AutoStage.AutoIncrement)

DRAWINGS = {
    "inference": (
        ([0, 1], PIPELINED, 3, False),
        """
        step   0 1 2 3
        IPU 0  0 1 2 .
        IPU 1  . 0 1 2
        """,
    ),
    "training": (
        ([0, 1], PIPELINED, 4, True),
        """
        step   0    1    2    3    4    5
        IPU 0  F0   F1   B0F2 B1F3 B2   B3
        IPU 1  .    FB0  FB1  FB2  FB3  .
        """,
    ),
    "two updates": (
        ([0, 1], PIPELINED, 3, True, 2),
        """
        step   0    1    2    3    4    5    6    7    8    9
        IPU 0  F0   F1   B0F2 B1   B2   F3   F4   B3F5 B4   B5
        IPU 1  .    FB0  FB1  FB2  .    .    FB3  FB4  FB5  .
        """,
    ),
    "an IPU visited twice": (
        ([0, 1, 0], PIPELINED, 5, True),
        """
        step   0      1      2      3      4      5      6      7      8
        IPU 0  F0     F1     FB0F2  FB1F3  B0FB2F4 B1FB3  B2FB4  B3     B4
        """,
    ),
    "sharded": (
        ([0, 1], SHARDED, 2, True),
        """
        step   0   1   2   3   4   5
        IPU 0  F0  .   B0  F1  .   B1
        IPU 1  .   FB0 .   .   FB1 .
        """,
    ),
    "one IPU": (
        ([0], PIPELINED, 2, True),
        """
        step   0   1
        IPU 0  FB0 FB1
        """,
    ),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_the_drawing(name, capsys):
    arguments, drawing = DRAWINGS[name]
    compiled(*arguments).printSchedule()
    shown = capsys.readouterr().out.splitlines()
    for line in textwrap.dedent(drawing).strip().splitlines():
        assert line.split() in [other.split() for other in shown], "\n".join(shown)


class Phases(torch.nn.Module):
    """Three layers, each in a block that a strategy assigns to a phase."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(3))

    def forward(self, x, target):
        for number, layer in enumerate(self.layers):
            poptorch.Block.start(f"b{number}")
            x = torch.tanh(layer(x))
        return x, torch.nn.functional.mse_loss(x, target)


def phased(kind, ipus=None, io_tiles=0, accumulation=1):
    strategy = kind(*(poptorch.Phase(f"b{number}") for number in range(3)))
    for number, ipu in enumerate(ipus or ()):
        strategy.phase(number).ipus(ipu)
    options = poptorch.Options().showCompilationProgressBar(False).autoRoundNumIPUs(True)
    options.setExecutionStrategy(strategy)
    options.Training.gradientAccumulation(accumulation)
    if io_tiles:
        options.TensorLocations.numIOTiles(io_tiles)
        options.TensorLocations.setWeightLocation(
            poptorch.TensorLocationSettings().useIOTilesToLoad().useIOTilesToStore()
        )
    made = poptorch.trainingModel(Phases(), options)
    x = torch.randn(2 * accumulation, 4)
    made.compile(x, x)
    return made


# A weight and a bias are loaded in the phase before theirs, with their accumulators for the
# backward pass. Written values are stored in the phase after. The last forward phase is the first
# backward one; values that the next phase also uses stay.
PHASED_DRAWINGS = {
    "serial": (
        (poptorch.SerialPhasedExecution, [0, 0, 0]),
        """
        step   0  1  2  3    4    5  6
        phase -1  0  1  2    3    4  5
        IPU 0  .  F0 F0 FB0  B0   B0 .
        I/O 0  L2 L2 L2 L2 S2L2 S2 S2
        """,
    ),
    "through IO tiles": (
        (poptorch.SerialPhasedExecution, [0, 0, 0], 64),
        """
        I/O 0  ~L2 ~L2 ~L2 ~L2 ~S2~L2 ~S2 ~S2
        64 IO tiles an IPU; ~ transfers through them
        """,
    ),
    "an idle IPU": (
        (poptorch.SerialPhasedExecution, [0, 1, 2]),
        """
        phase -1  0  1  2   3  4  5
        IPU 0  .  F0 .  .   .  B0 .
        I/O 0  L2 .  .  .   L2 .  S2
        IPU 1  .  .  F0 .   B0 .  .
        IPU 2  .  .  .  FB0 .  .  .
        idle   .  .  .  .   .  .  .
        """,
    ),
    "parallel, two micro-batches": (
        (poptorch.ParallelPhasedExecution, None, 0, 2),
        """
        step   0  1  2  3   4    5  6  7  8  9  10  11   12 13
        phase -1  0  1  2   3    4  5 -1  0  1  2   3    4  5
        IPU 0  .  F0 .  FB0 .    B0 .  .  F1 .  FB1 .    B1 .
        I/O 0  L2 .  L4 .   S2L2 .  S2 L2 .  L4 .   S2L2 .  S2
        IPU 1  .  .  F0 .   B0   .  .  .  .  F1 .   B1   .  .
        """,
    ),
}


@pytest.mark.parametrize("name", PHASED_DRAWINGS)
def test_the_drawing_of_phases(name, capsys):
    arguments, drawing = PHASED_DRAWINGS[name]
    phased(*arguments).printSchedule()
    shown = capsys.readouterr().out.splitlines()
    for line in textwrap.dedent(drawing).strip().splitlines():
        assert line.split() in [other.split() for other in shown], "\n".join(shown)


def test_phases_as_data():
    schedule = phased(poptorch.SerialPhasedExecution, [0, 1, 2]).schedule()
    schedule = json.loads(json.dumps(schedule))
    assert schedule["idle_ipus"] == 1
    assert schedule["phases"] == [-1, 0, 1, 2, 3, 4, 5]
    forward = {(c["ipu"], c["phase"]) for c in schedule["cells"] if not c["backward"]}
    assert forward == {(0, 0), (1, 1), (2, 2)}
    loads = [(t["ipu"], t["phase"], t["bytes"]) for t in schedule["transfers"]
             if t["kind"] == "load" and t["name"] == "layers.1.weight"]  # fmt: skip
    assert loads == [(1, 0, 64), (1, 2, 64)]


def test_transfers_on_io_tiles_hide_behind_computation():
    reports = [
        phased(poptorch.SerialPhasedExecution, [0, 0, 0], tiles).report() for tiles in (0, 64)
    ]
    plain, hidden = (report["ipus"][0] for report in reports)
    assert plain["overlapped_cycles"] == 0
    assert hidden["overlapped_cycles"] == hidden["streaming_cycles"] == plain["streaming_cycles"]
    assert reports[1]["cycles_per_run"] < reports[0]["cycles_per_run"]
    assert plain["idle_cycles"] == 0 <= hidden["idle_cycles"]


def test_the_data_tells_bubbles_and_the_slowest_stage():
    class Uneven(Chain):
        def __init__(self):
            super().__init__([0, 1])
            self.layers[1] = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(30)))

    options = poptorch.Options().showCompilationProgressBar(False).deviceIterations(4)
    made = poptorch.inferenceModel(Uneven(), options)
    made.compile(torch.randn(4, 4))
    schedule = json.loads(json.dumps(made.schedule()))
    assert (schedule["ipus"], schedule["stages"], schedule["steps"]) == (2, 2, 5)
    assert schedule["bubbles"] == pytest.approx(2 / 10)
    assert schedule["bottleneck"] == 1
    assert {(c["ipu"], c["micro_batch"], c["step"]) for c in schedule["cells"]} == {
        (stage, batch, stage + batch) for stage in range(2) for batch in range(4)
    }


def test_blocks_are_told_by_ipu_and_op(capsys):
    class Named(Chain):
        def forward(self, x, target):
            for name, ipu, layer in zip("abc", self.ipus, self.layers, strict=True):
                with poptorch.Block(name, ipu):
                    x = torch.tanh(layer(x))
                    loss = torch.nn.functional.mse_loss(x, target)
            return x, loss

    options = poptorch.Options().showCompilationProgressBar(False)
    options.setExecutionStrategy(poptorch.ShardedExecution())
    made = poptorch.trainingModel(Named([0, 0, 1]), options)
    made.compile(torch.randn(2, 4), torch.randn(2, 4))
    assert made.schedule()["blocks"] == [["a", "b"], ["c"]]
    made.printSchedule()
    shown = capsys.readouterr().out
    assert "IPU 0 runs blocks a, b\nIPU 1 runs block c" in shown
    # Backward ops and updates belong to the block of their forward op.
    for row in made.report()["ops"]:
        if row["module"]:
            assert row["block"] == "abc"[int(row["module"].split(".")[1])], row
    updates = {r["block"] for r in made.report()["ops"] if r["op"] == "sgd_update"}
    assert updates == set("abc")


def test_only_the_first_micro_batches_are_asked_for():
    made = compiled([0, 1], PIPELINED, 6, False)
    assert {cell["micro_batch"] for cell in made.schedule(2)["cells"]} == {0, 1}


def test_a_model_that_is_not_compiled_has_no_schedule():
    with pytest.raises(poptorch.Error, match="not been compiled"):
        poptorch.inferenceModel(Chain([0])).printSchedule()
