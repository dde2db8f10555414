"""Annotations that are refused, and what their messages must say: the rows of test_annotations."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import poptorch
import torch
from poptorch import AutoStage, Phase, Stage
from torch.nn import functional as F

SOURCE = Path(__file__).read_text().splitlines()
LINE = r"\(\S*refused_annotations\.py:(\d+)\)"
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


def begun(order, ids=("layer0", "layer1", "layer2")):
    model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(3)))
    for number in order:
        model[number] = poptorch.BeginBlock(model[number], ids[number], ipu_id=number % 2)
    return model


def unused():
    model = Recorded(in_block("back", 1))
    poptorch.BeginBlock(model.spare, "spare", ipu_id=1)
    return model


def block_in_a_loop(x):
    def body(y):
        with poptorch.Block("back", 1):
            return torch.relu(y)

    with poptorch.Block("middle", 0):
        return poptorch.for_loop(2, body, [x])[0]


def begun_twice():
    layer = poptorch.BeginBlock(torch.nn.ReLU(), "first")
    poptorch.BeginBlock(layer, "second")


def infer(model, strategy=None, **settings):
    """Calls the model, or what makes it, for inference; sharded unless there is a strategy."""

    def call():
        made = model if isinstance(model, torch.nn.Module) else model()
        poptorch.inferenceModel(made, options(strategy, **settings))(X)

    return call


def train(model, strategy=None, **settings):
    def call():
        given = options(strategy, iterations=1, **settings)
        poptorch.trainingModel(model, given)(X, X)

    return call


class Refusal(NamedTuple):
    """What is refused, and what the message says of it."""

    call: Callable
    block: str
    line: str  # a part of the user's line
    cure: str
    text: str  # a pattern of the whole


PIPELINED = poptorch.PipelinedExecution()
NAMED = poptorch.PipelinedExecution("front", "other")
TWO = (("front", 0, "fc"), ("back", 1, "other"))
FOUR = (("a", 0, "fc"), ("b", 1, "relu"), ("c", 2, "other"), ("d", 3, "relu"))
A_TO_C = tuple((name, None, "tanh") for name in "abc")
TIED = (("front", 0, "fc"), ("back", 1, "fc"))
IDLE = (("front", 0, "fc"), ("idle", 1, "dead"))
IDLE_BEFORE_LAST = (("front", 0, "fc"), ("idle", 0, "dead"), ("back", 1, "other"))
CALLED = "getattr(self, step)(x)"
NUMBER = "An ipu_id is a number from 0, not "


def tied(call):
    text = rf"parameter 'fc\.\w+' is used on IPU 0 by op '\w+' of block 'front' {LINE} and on IPU 1"
    text += rf" by op '\w+' of block 'back' {LINE}"
    return Refusal(call, "back", CALLED, "give their blocks the same ipu_id", text)


def idle(call):
    text = rf"block 'idle' computes nothing that is used: op '\w+' of block 'idle' {LINE}"
    return Refusal(call, "idle", "self.spare(x)", "leave unused layers out of blocks", text)


def unnamed(call):
    text = rf"Unknown Block 'back' list of expected Blocks: \['front', 'other'\] {LINE}"
    cure = "Add the block to a stage of the execution strategy, or give it one of these ids"
    return Refusal(call, "back", "with poptorch.Block(*arguments)", cure, text)


REFUSED = {
    # --- refused by the compiler
    "a weight on two IPUs, sharded": tied(infer(Blocks(*TIED))),
    "a weight on two IPUs, pipelined": tied(infer(Blocks(*TIED), PIPELINED)),
    "a weight on two IPUs, in phases one after the other": tied(
        infer(Blocks(*TIED), poptorch.SerialPhasedExecution(["front"], ["back"]))
    ),
    "a weight on two IPUs, in phases in parallel": tied(
        infer(Blocks(*TIED), poptorch.ParallelPhasedExecution(["front"], ["back"]))
    ),
    "a weight on two IPUs, training": tied(train(Blocks(*TIED), PIPELINED, accumulation=4)),
    "a dead block, sharded": idle(infer(Blocks(*IDLE))),
    "a dead block, pipelined": idle(infer(Blocks(*IDLE), PIPELINED)),
    "a dead block in a stage with another": idle(infer(Blocks(*IDLE_BEFORE_LAST), PIPELINED)),
    "a dead block, phased": idle(
        infer(Blocks(*IDLE), poptorch.SerialPhasedExecution(["front"], ["idle"]))
    ),
    "a dead block, training": idle(
        train(Blocks(*IDLE, ("back", 2, "other")), PIPELINED, accumulation=8)
    ),
    "a stage that goes backwards": Refusal(
        infer(Blocks(("front", 0, "fc"), ("middle", 1, "other"), ("back", 0, "relu")), PIPELINED),
        "back",
        "torch.relu(x)",
        "move the Block, set another ipu_id, or let stages count up (AutoStage.AutoIncrement)",
        rf"op 'relu' of block 'back' {LINE} is in stage 0 but uses .* of block 'middle' {LINE} of "
        r"stage 1\. Stages must not go backwards; move the Block",
    ),
    "a stage by hand that goes backwards": Refusal(
        infer(
            Blocks(*A_TO_C),
            poptorch.PipelinedExecution(Stage("b").ipu(0), Stage("a", "c").ipu(1)),
        ),
        "b",
        "torch.tanh(x)",
        "move the Block",
        rf"of block 'b' {LINE} is in stage 0 but uses .* of block 'a' {LINE} of stage 1\. Stages",
    ),
    "too few device iterations": Refusal(
        infer(Blocks(*TWO), PIPELINED, iterations=1),
        "back",
        CALLED,
        "It is 1: raise it to 2, or use poptorch.ShardedExecution",
        r"deviceIterations must be greater than or equal to the number of pipeline stages \(2\) "
        r"when using PopTorch.PipelinedExecution\.",
    ),
    "too few device iterations for four stages": Refusal(
        infer(Blocks(*FOUR), PIPELINED, iterations=3),
        "d",
        "torch.relu(x)",
        "It is 3: raise it to 4",
        r"number of pipeline stages \(4\) when using PopTorch.PipelinedExecution\.",
    ),
    "too little accumulation for two stages": Refusal(
        train(Blocks(*TWO), PIPELINED, accumulation=2),
        "back",
        CALLED,
        "It is 2: raise it to 3, or use poptorch.ShardedExecution",
        r"gradientAccumulation must be greater than .* the number of pipeline stages \(3\) "
        r"when using poptorch.PipelinedExecution\. Please note .* model with 2 pipeline stages in "
        r"PopTorch will have an additional 1 stages when training\.",
    ),
    "too little accumulation for four stages": Refusal(
        train(Blocks(*FOUR), PIPELINED, accumulation=6),
        "d",
        "torch.relu(x)",
        "It is 6: raise it to 7",
        r"stages \(7\) .* 4 pipeline stages in PopTorch will have an additional 3 stages",
    ),
    "a phase that goes backwards": Refusal(
        infer(Blocks(*A_TO_C), poptorch.SerialPhasedExecution(["b"], ["a"], ["c"])),
        "b",
        "torch.tanh(x)",
        "Phases run in their order; put its block into a later phase",
        rf"of block 'b' {LINE} is in phase 0 but uses .*of block 'a' {LINE} of phase 1",
    ),
    "an even phase on an odd IPU": Refusal(
        infer(
            Blocks(*A_TO_C),
            poptorch.ParallelPhasedExecution(Phase("a").ipus(1), Phase("b").ipus(3), ["c"]),
        ),
        "a",
        "torch.tanh(x)",
        "even phases run on even IPUs: set others by .ipus()",
        rf"of block 'a' {LINE} of phase 0 is on IPU 1\. With ParallelPhasedExecution, even phases",
    ),
    "an odd phase on an even IPU": Refusal(
        infer(Blocks(*A_TO_C), poptorch.ParallelPhasedExecution(["a"], Phase("b").ipus(0), ["c"])),
        "b",
        "torch.tanh(x)",
        "odd phases run on odd IPUs: set others by .ipus()",
        rf"of block 'b' {LINE} of phase 1 is on IPU 0\.",
    ),
    "three IPUs": Refusal(
        infer(Blocks(("a", 0, "fc"), ("b", 1, "relu"), ("c", 2, "other"))),
        "c",
        CALLED,
        "set poptorch.Options().autoRoundNumIPUs(True)",
        rf"specifies the use of 3 IPUs, .* a minimum of 4 in order .* is IPU 2, .*'c' {LINE}",
    ),
    "a buffer that another stage of the same IPU writes": Refusal(
        infer(
            Blocks(("front", 0, "counted"), ("middle", 1, "fc"), ("back", 0, "count")),
            poptorch.PipelinedExecution(AutoStage.AutoIncrement),
        ),
        "back",
        "self.seen += x.sum(0)",
        "Use and write it in one stage, or use poptorch.ShardedExecution",
        rf"op 'add' of block 'front' {LINE} of stage 0 uses 'seen', which op 'assign' of block "
        rf"'back' {LINE} of stage 2 writes:",
    ),
    # --- refused while the model is traced
    "an op outside of scopes": Refusal(
        infer(Recorded(torch.relu)),
        "front",
        "return self.rest(x)",
        "Put it into one, or use poptorch.BeginBlock",
        rf"No active Block, all the ops must belong to a Block: op 'relu' {LINE} is outside of "
        "every poptorch.Block, behind block 'front'",
    ),
    "an op between scopes": Refusal(
        infer(Recorded(lambda x: in_block("back", 1)(x * 2))),
        "front",
        "x * 2",
        "Put it into one, or use poptorch.BeginBlock",
        rf"No active Block.*op 'mul' {LINE}",
    ),
    "a block that the strategy does not name": unnamed(infer(Recorded(in_block("back", 1)), NAMED)),
    "a block that no phase names": unnamed(
        infer(Recorded(in_block("back", 1)), poptorch.SerialPhasedExecution(["front"], ["other"]))
    ),
    "a layer's block that the strategy does not name": Refusal(
        infer(lambda: begun([0, 1], ["front", "back"]), NAMED),
        "back",
        "poptorch.BeginBlock(model[number]",
        "Add the block to a stage of the execution strategy",
        rf"Unknown Block 'back' .* that of BeginBlock\(user_id='back', .*\) of a Linear {LINE}",
    ),
    "SameAsIpu without an IPU": Refusal(
        infer(Recorded(in_block("back"))),
        "back",
        "with poptorch.Block(*arguments)",
        "Pass an ipu_id, or use poptorch.AutoStage.AutoIncrement",
        rf"no IPU was specified for block 'back'\. Pass an ipu_id, or use .*AutoIncrement\. {LINE}",
    ),
    "BeginBlocks out of order": Refusal(
        infer(lambda: begun([1, 0])),
        "layer1",
        "poptorch.BeginBlock(model[number]",
        "Write the BeginBlocks in the order in which the layers run",
        rf"BeginBlock\(user_id='layer1', ipu_id=1\) of a Linear {LINE} begins after "
        rf".*'layer0', ipu_id=0\) of a Linear {LINE}",
    ),
    "a BeginBlock on an unused layer": Refusal(
        infer(unused),
        "spare",
        'BeginBlock(model.spare, "spare"',
        "Put no unused layers into blocks: remove the BeginBlock",
        rf"'spare'.* {LINE} was put on layer 'spare', which the model does not call\.",
    ),
    "a block in a loop's body": Refusal(
        infer(Recorded(block_in_a_loop)),
        "back",
        'with poptorch.Block("back", 1)',
        "A body runs in one block: begin the block before that call",
        rf"block 'back' begins in a body of poptorch.for_loop or poptorch.cond {LINE}",
    ),
    # --- refused where they are written
    "two BeginBlocks on one layer": Refusal(
        begun_twice,
        "second",
        'BeginBlock(layer, "second")',
        "Call poptorch.removeBlocks(module) between them, or keep one",
        rf"module has already been assigned to a block: BeginBlock\(user_id='first', ipu_id=None\) "
        rf"of a ReLU {LINE} comes before user_id='second' {LINE}",
    ),
    "a BeginBlock of no layer": Refusal(
        lambda: poptorch.BeginBlock(3, "front"),
        "front",
        'BeginBlock(3, "front")',
        "Pass the layer at which the block begins",
        rf"BeginBlock takes a module, not int: user_id='front' {LINE}",
    ),
    "a number as id": Refusal(
        lambda: poptorch.Block(3),
        "3",
        "poptorch.Block(3)",
        "Write '3'",
        rf"The id of a block is a string, not 3 {LINE}",
    ),
    "a number as a function's id": Refusal(
        lambda: poptorch.BlockFunction(3),
        "3",
        "poptorch.BlockFunction(3)",
        "Write '3'",
        rf"The id of a block is a string, not 3 {LINE}",
    ),
    "a negative IPU": Refusal(
        lambda: poptorch.Block("a", -1),
        "a",
        'poptorch.Block("a", -1)',
        "Pass an IPU's number, or leave it out and name the IPU in the execution strategy",
        rf"{NUMBER}-1: block 'a' {LINE}",
    ),
    "True as IPU": Refusal(
        lambda: poptorch.Block("a", True),
        "a",
        'poptorch.Block("a", True)',
        "Pass an IPU's number",
        rf"{NUMBER}True: block 'a' {LINE}",
    ),
    "text as a layer's IPU": Refusal(
        lambda: poptorch.BeginBlock(torch.nn.ReLU(), "a", "1"),
        "a",
        'BeginBlock(torch.nn.ReLU(), "a", "1")',
        "Pass an IPU's number",
        rf"{NUMBER}'1': block 'a' {LINE}",
    ),
    "text as a stage's IPU": Refusal(
        lambda: Stage("a").ipu("0"),
        "a",
        'Stage("a").ipu("0")',
        "Pass an IPU's number, such as 0",
        rf"An IPU is a number from 0, not '0': Stage\('a'\) {LINE}",
    ),
    "a block in two stages": Refusal(
        lambda: poptorch.PipelinedExecution("a", Stage("b", "a")),
        "a",
        'Stage("b", "a")',
        "Name each block once; what runs later again needs a block with an id of its own",
        rf"a associated with more than one stage {LINE}",
    ),
    "a block in two phases": Refusal(
        lambda: poptorch.SerialPhasedExecution(["a"], ["b", "a"]),
        "a",
        '["b", "a"]',
        "Name each block once",
        rf"a associated with more than one stage {LINE}",
    ),
    "the stage of a block that the strategy does not have": Refusal(
        lambda: poptorch.ShardedExecution("a").stage("b"),
        "b",
        '.stage("b")',
        "Ask for a block that the execution strategy names; those are ['a']",
        rf"Unknown block: b {LINE}",
    ),
    "the stage of a block that no phase has": Refusal(
        lambda: poptorch.SerialPhasedExecution(["a"]).stage("b"),
        "b",
        '.stage("b")',
        "those are ['a']",
        rf"Unknown block: b {LINE}",
    ),
    "more IPUs than a phase has stages": Refusal(
        lambda: Phase("a").ipus(0, 2),
        "a",
        'Phase("a").ipus(0, 2)',
        "Pass as many as there are stages",
        rf"Expected 1 IPUs, one a stage of the phase, but got 2: \[0, 2\], for .*'a'\)\) {LINE}",
    ),
    "an AutoStage beside blocks": Refusal(
        lambda: poptorch.PipelinedExecution(AutoStage.AutoIncrement, "a"),
        "a",
        'AutoStage.AutoIncrement, "a"',
        "Leave out either the AutoStage or the blocks",
        rf"An AutoStage is the only argument of an execution strategy, not one of .*'a'\) {LINE}",
    ),
}

# What names no block, since there is none: the call, a part of the text, the line and the cure.
WITHOUT_BLOCK = [
    (lambda: Stage(), "at least one block", "Stage()", "Pass the ids of the blocks"),
    (lambda: Phase(), "at least one Stage", "Phase()", "Pass the stages that run in it"),
    (
        lambda: poptorch.PipelinedExecution("a", 3),
        "Expected a Stage, the id of a block or a list of ids but got 3",
        'PipelinedExecution("a", 3)',
        "Ids are strings, as in poptorch.Stage('front')",
    ),
    (
        lambda: poptorch.SerialPhasedExecution(3),
        "Expected a Phase, a list of stages or a list of ids of blocks but got 3",
        "SerialPhasedExecution(3)",
        "Make it one, as in poptorch.Phase('front')",
    ),
    (
        lambda: poptorch.SerialPhasedExecution(),
        "SerialPhasedExecution needs at least one phase",
        "SerialPhasedExecution()",
        "Pass the phases in their order",
    ),
]
