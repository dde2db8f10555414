"""Annotations that are refused when the model compiles: the rows of test_annotations.

Those that are refused where they are written are in refused_arguments.
"""

from collections.abc import Callable
from typing import NamedTuple

import poptorch
import torch
from poptorch import AutoStage, Phase, Stage
from torch.nn import functional as F

LINE = r"\((\S*/refused_\w+\.py):(\d+)\)"
X = torch.randn(24, 4)


def options(strategy=None, iterations=8, accumulation=1, rounded=False, pool=None):
    made = poptorch.Options().showCompilationProgressBar(False).deviceIterations(iterations)
    made.autoRoundNumIPUs(rounded)
    if pool is not None:
        made.Emulator.devicePool(pool)
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


def block_in_a_block(x):
    with poptorch.Block("outer", 0):
        with poptorch.Block("inner", 1):
            x = torch.tanh(x)
        return torch.sigmoid(x)


def block_in_a_branch(x):
    def then(y):
        with poptorch.Block("branch", 1):
            return torch.relu(y)

    with poptorch.Block("middle", 0):
        return poptorch.cond(x.sum() > 0, then, [x], torch.tanh, [x])[0]


def again_elsewhere(x):
    with poptorch.Block("front", 1):
        return torch.relu(x)


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
    "a stage on two IPUs": Refusal(
        infer(Blocks(*TWO), poptorch.PipelinedExecution(["front", "back"])),
        "back",
        CALLED,
        "give its blocks one ipu_id, or stages of their own (AutoStage.AutoIncrement)",
        rf"stage 0 is on IPU 0, by op 'linear' of block 'front' {LINE}, and on IPU 1, by .* {LINE}",
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
    "a block that begins again on another IPU": Refusal(
        infer(Recorded(again_elsewhere)),
        "front",
        'with poptorch.Block("front", 1)',
        "pass the same ipu_id, or give what runs there another user_id",
        rf"block 'front' began on IPU 0 {LINE} and begins again with ipu_id=1 {LINE}\.",
    ),
    "a layer's block that begins again on another IPU": Refusal(
        infer(lambda: begun([0, 1], ["front", "front"])),
        "front",
        "poptorch.BeginBlock(model[number]",
        "pass the same ipu_id, or give what runs there another user_id",
        rf"block 'front' began on IPU 0 {LINE} and begins again with ipu_id=1 {LINE}\.",
    ),
    "an op behind a block in a block": Refusal(
        infer(Recorded(block_in_a_block)),
        "inner",
        "return torch.sigmoid(x)",
        "A Block that ends within another ends both",
        rf"No active Block.*op 'sigmoid' {LINE} is outside of every .*, behind block 'inner'",
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
    "a block in one branch": Refusal(
        infer(Recorded(block_in_a_branch)),
        "branch",
        'with poptorch.Block("branch", 1)',
        "A body runs in one block: begin the block before that call",
        rf"block 'branch' begins in a body of poptorch.for_loop or poptorch.cond {LINE}",
    ),
    # --- refused for want of IPUs
    "IPU 64": Refusal(
        infer(Blocks(("front", 0, "fc"), ("far", 64, "other")), rounded=True),
        "far",
        CALLED,
        "Use lower ipu_ids or fewer replicas",
        rf"Too many IPUs requested \(128\)\. .* is IPU 64, of op 'linear' of block 'far' {LINE}",
    ),
    "more IPUs than the pool has": Refusal(
        infer(Blocks(("front", 0, "fc"), ("back", 1, "other")), pool=1),
        "back",
        CALLED,
        "Choose a larger one with Emulator.devicePool() or POPTORCH_IPU_POOL, or use fewer IPUs",
        rf"acquire 2 IPU\(s\): the pool has 1\. .* is IPU 1, of op 'linear' of block 'back' {LINE}",
    ),
}
