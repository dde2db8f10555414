"""printSchedule() and schedule(): the guide's figures 4.2 and 4.3, from the compiled program."""

import json
import textwrap

import poptorch
import pytest
import torch


class Chain(torch.nn.Module):
    """A layer an entry of `ipus`, each in a block there."""

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


def test_only_the_first_micro_batches_are_asked_for():
    made = compiled([0, 1], PIPELINED, 6, False)
    assert {cell["micro_batch"] for cell in made.schedule(2)["cells"]} == {0, 1}


def test_a_model_that_is_not_compiled_has_no_schedule():
    with pytest.raises(poptorch.Error, match="not been compiled"):
        poptorch.inferenceModel(Chain([0])).printSchedule()
