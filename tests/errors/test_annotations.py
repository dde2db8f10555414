"""Refused annotations: each message names the block, the user's line and the cure."""

import poptorch
import pytest
import torch
from poptorch import AutoStage, Phase, Stage
from torch.nn import functional as F

LINE = r"\(\S*test_annotations\.py:\d+\)"
X = torch.randn(24, 4)


def options(strategy=None, iterations=8, accumulation=1):
    made = poptorch.Options().showCompilationProgressBar(False).deviceIterations(iterations)
    made.Training.gradientAccumulation(accumulation)
    return made.setExecutionStrategy(strategy or poptorch.ShardedExecution(AutoStage.SameAsIpu))


class Blocks(torch.nn.Module):
    """Calls `step` in scopes: (user_id, ipu_id, name of the step) each."""

    def __init__(self, *blocks):
        super().__init__()
        self.blocks = blocks
        self.fc = torch.nn.Linear(4, 4)
        self.other = torch.nn.Linear(4, 4)
        self.spare = torch.nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x, target=None):
        for user_id, ipu_id, step in self.blocks:
            with poptorch.Block(user_id, ipu_id):
                x = getattr(self, step)(x)
        if target is not None:
            with poptorch.Block(*self.blocks[-1][:2]):
                return x, F.mse_loss(x, target)
        return x

    def relu(self, x):
        return torch.relu(x)

    def tanh(self, x):
        return torch.tanh(x)

    def dead(self, x):
        self.spare(x)
        return x

    def count(self, x):
        self.seen += x.sum(0)
        return x

    def counted(self, x):
        return x + self.seen


def sharded(*blocks):
    return Blocks(*blocks), options()


def pipelined(*blocks, **settings):
    return Blocks(*blocks), options(poptorch.PipelinedExecution(), **settings)


def staged(strategy, *blocks, **settings):
    return Blocks(*blocks), options(strategy, **settings)


TWO = (("front", 0, "fc"), ("back", 1, "other"))
A_TO_C = tuple((name, None, "tanh") for name in "abc")
SHARED = (
    rf"parameter 'fc\.\w+' is used on IPU 0 by op '\w+' of block 'front' {LINE} and on IPU 1 by "
)
SHARED += rf"op '\w+' of block 'back' {LINE}\. .*give their blocks the same ipu_id"
DEAD = rf"block 'idle' computes nothing that is used: op '\w+' of block 'idle' {LINE}.*leave unused"

# By case: a model with its options, and what the message says.
COMPILED = {
    "a weight on two IPUs, sharded": (
        sharded(("front", 0, "fc"), ("back", 1, "fc")),
        SHARED,
    ),
    "a weight on two IPUs, pipelined": (
        pipelined(("front", 0, "fc"), ("back", 1, "fc")),
        SHARED,
    ),
    "a weight on two IPUs, in phases one after the other": (
        staged(
            poptorch.SerialPhasedExecution(["front"], ["back"]),
            *(("front", 0, "fc"), ("back", 1, "fc")),
        ),
        SHARED,
    ),
    "a weight on two IPUs, in phases in parallel": (
        staged(
            poptorch.ParallelPhasedExecution(["front"], ["back"]),
            *(("front", 0, "fc"), ("back", 1, "fc")),
        ),
        SHARED,
    ),
    "a dead block, sharded": (
        sharded(("front", 0, "fc"), ("idle", 1, "dead")),
        DEAD,
    ),
    "a dead block, pipelined": (
        pipelined(("front", 0, "fc"), ("idle", 1, "dead")),
        DEAD,
    ),
    "a dead block in a stage with another": (
        pipelined(("front", 0, "fc"), ("idle", 0, "dead"), ("back", 1, "other")),
        DEAD,
    ),
    "a dead block, phased": (
        staged(
            poptorch.SerialPhasedExecution(["front"], ["idle"]),
            *(("front", 0, "fc"), ("idle", 0, "dead")),
        ),
        DEAD,
    ),
    "a stage that goes backwards": (
        pipelined(("front", 0, "fc"), ("middle", 1, "other"), ("back", 0, "relu")),
        rf"op 'relu' of block 'back' {LINE} is in stage 0 but uses .* of block "
        rf"'middle' {LINE} of stage 1\. Stages must not go backwards; move the Block",
    ),
    "a stage by hand that goes backwards": (
        staged(poptorch.PipelinedExecution(Stage("b").ipu(0), Stage("a", "c").ipu(1)), *A_TO_C),
        rf"of block 'b' {LINE} is in stage 0 but uses .* of block 'a' {LINE} of stage 1\. Stages",
    ),
    "too few device iterations": (
        pipelined(*TWO, iterations=1),
        r"deviceIterations must be greater than or equal to the number of pipeline stages \(2\) "
        r"when using PopTorch.PipelinedExecution\. It is 1: raise it, or use poptorch.Sharded",
    ),
    "too few device iterations for four stages": (
        pipelined(
            *(("a", 0, "fc"), ("b", 1, "relu"), ("c", 2, "other"), ("d", 3, "relu")), iterations=3
        ),
        r"number of pipeline stages \(4\) when using PopTorch.PipelinedExecution\. It is 3",
    ),
    "a phase that goes backwards": (
        staged(poptorch.SerialPhasedExecution(["b"], ["a"], ["c"]), *A_TO_C),
        rf"of block 'b' {LINE} is in phase 0 but uses .*of block 'a' {LINE} of phase 1"
        r"\. Phases run in their order; put its block into a later phase",
    ),
    "an even phase on an odd IPU": (
        staged(
            poptorch.ParallelPhasedExecution(Phase("a").ipus(1), Phase("b").ipus(3), ["c"]), *A_TO_C
        ),
        rf"of block 'a' {LINE} of phase 0 is on IPU 1\. With ParallelPhasedExecution, even phases "
        r"run on even IPUs: set others by \.ipus\(\)",
    ),
    "an odd phase on an even IPU": (
        staged(poptorch.ParallelPhasedExecution(["a"], Phase("b").ipus(0), ["c"]), *A_TO_C),
        rf"of block 'b' {LINE} of phase 1 is on IPU 0\. .*odd phases run on odd IPUs",
    ),
    "three IPUs": (
        sharded(("a", 0, "fc"), ("b", 1, "relu"), ("c", 2, "other")),
        r"specifies the use of 3 IPUs, .* a minimum of 4 in order .*autoRoundNumIPUs\(True\)",
    ),
    "a buffer that another stage of the same IPU writes": (
        staged(
            poptorch.PipelinedExecution(AutoStage.AutoIncrement),
            *(("front", 0, "counted"), ("middle", 1, "fc"), ("back", 0, "count")),
        ),
        rf"op 'add' of block 'front' {LINE} of stage 0 uses 'seen', which op 'assign' of block "
        r"'back' of stage 2 "
        r"writes: .*Use and write it in one stage, or use poptorch.ShardedExecution",
    ),
}


@pytest.mark.parametrize("case", COMPILED)
def test_the_compiler_refuses(case):
    (model, given), text = COMPILED[case]
    with pytest.raises(poptorch.Error, match=text):
        poptorch.inferenceModel(model, given)(X)


TRAINED = {
    "too little accumulation for two stages": (
        pipelined(*TWO, iterations=1, accumulation=2),
        r"gradientAccumulation must be greater than .* the number of pipeline stages \(3\) "
        r"when using poptorch.PipelinedExecution\. Please note .* model with 2 pipeline stages in "
        r"PopTorch will have an additional 1 stages when training\. It is 2: raise it",
    ),
    "too little accumulation for four stages": (
        pipelined(
            *(("a", 0, "fc"), ("b", 1, "relu"), ("c", 2, "other"), ("d", 3, "relu")),
            iterations=1,
            accumulation=6,
        ),
        r"stages \(7\) .* 4 pipeline stages in PopTorch will have an additional 3 stages",
    ),
    "a weight on two IPUs, training": (
        pipelined(("front", 0, "fc"), ("back", 1, "fc"), iterations=1, accumulation=4),
        SHARED,
    ),
    "a dead block, training": (
        pipelined(("front", 0, "fc"), ("idle", 1, "dead"), ("back", 2, "other"), iterations=1,
                  accumulation=8),
        DEAD,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TRAINED)
def test_the_compiler_refuses_to_train(case):
    (model, given), text = TRAINED[case]
    with pytest.raises(poptorch.Error, match=text):
        poptorch.trainingModel(model, given)(X, X)


class Recorded(torch.nn.Module):
    """A linear layer, then what `rest` does."""

    def __init__(self, rest):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.spare = torch.nn.Linear(4, 4)
        self.rest = rest

    def forward(self, x):
        with poptorch.Block("front", 0):
            x = self.fc(x)
        return self.rest(x)


def in_block(*arguments):
    def rest(x):
        with poptorch.Block(*arguments):
            return torch.relu(x)

    return rest


def begun(order):
    model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(3)))
    for number in order:
        model[number] = poptorch.BeginBlock(model[number], f"layer{number}", ipu_id=number % 2)
    return model


def unused():
    model = Recorded(in_block("back", 1))
    poptorch.BeginBlock(model.spare, "spare", ipu_id=1)
    return model


NAMED = poptorch.PipelinedExecution("front", "other")
# By case: a model, a strategy, the class of the error and what the message says.
TRACED = {
    "an op outside of scopes": (
        lambda: Recorded(torch.relu), None, poptorch.Error,
        rf"(?s)No active Block, all the ops must belong to a Block: op 'relu' {LINE} is outside",
    ),
    "an op between scopes": (
        lambda: Recorded(lambda x: in_block("back", 1)(x * 2)), None, poptorch.Error,
        rf"(?s)No active Block.*op 'mul' {LINE}.*Put it into one, or use poptorch.BeginBlock",
    ),
    "a block that the strategy does not name": (
        lambda: Recorded(in_block("back", 1)), NAMED, AssertionError,
        rf"Unknown Block 'back' list of expected Blocks: \['front', 'other'\] {LINE}",
    ),
    "a block that no phase names": (
        lambda: Recorded(in_block("back", 1)),
        poptorch.SerialPhasedExecution(["front"], ["other"]), AssertionError,
        rf"Unknown Block 'back' list of expected Blocks: \['front', 'other'\] {LINE}",
    ),
    "SameAsIpu without an IPU": (
        lambda: Recorded(in_block("back")), None, AssertionError,
        rf"no IPU was specified for block 'back'\. Pass an ipu_id, or use .*AutoIncrement\. {LINE}",
    ),
    "BeginBlocks out of order": (
        lambda: begun([1, 0]), None, poptorch.Error,
        rf"BeginBlock\(user_id='layer1', ipu_id=1\) of a Linear {LINE} begins after "
        rf".*'layer0', ipu_id=0\) of a Linear {LINE}, .*in the order in which the layers run",
    ),
    "a BeginBlock on an unused layer": (
        unused, None, poptorch.Error,
        rf"'spare'.* {LINE} was put on layer 'spare', which the model does not call\. .*remove",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TRACED)
def test_the_trace_refuses(case):
    make, strategy, error, text = TRACED[case]
    with pytest.raises(error, match=text):
        poptorch.inferenceModel(make(), options(strategy))(X)


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: poptorch.Block(3), "The id of a block is a string, not 3"),
        (lambda: poptorch.Block("a", -1), "An ipu_id is a number from 0, not -1"),
        (lambda: poptorch.Block("a", True), "An ipu_id is a number from 0, not True"),
        (lambda: poptorch.BlockFunction(3), "The id of a block is a string, not 3"),
        (lambda: Stage(), "at least one block"),
        (lambda: Stage("a").ipu("0"), "An IPU is a number from 0, not '0'"),
        (lambda: poptorch.PipelinedExecution("a", 3), "Expected a Stage, the id of a block or a"),
        (lambda: poptorch.ShardedExecution("a").stage("b"), "Unknown block: b"),
    ],
)
def test_wrong_arguments_are_refused_at_once(make, text):
    with pytest.raises(AssertionError, match=text):
        make()
