"""Annotations that the compiler refuses: rows of test_annotations.

refused_scopes has those that are refused while the model is traced, refused_arguments those that
are refused at once.
"""

import poptorch
import torch
from poptorch import AutoStage, Phase, Stage
from refusals import LINE, Refusal, infer, train
from torch.nn import functional as F

PIPELINED = poptorch.PipelinedExecution()
TWO = (("front", 0, "fc"), ("back", 1, "other"))
FOUR = (("a", 0, "fc"), ("b", 1, "relu"), ("c", 2, "other"), ("d", 3, "relu"))
A_TO_C = tuple((name, None, "tanh") for name in "abc")
TIED = (("front", 0, "fc"), ("back", 1, "fc"))
IDLE = (("front", 0, "fc"), ("idle", 1, "dead"))
IDLE_BEFORE_LAST = (("front", 0, "fc"), ("idle", 0, "dead"), ("back", 1, "other"))
CALLED = "getattr(self, step)(x)"


class Blocks(torch.nn.Module):
    """Calls `step` in scopes, each (user_id, ipu_id, name of the step)."""

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


def tied(call):
    text = rf"parameter 'fc\.\w+' is used on IPU 0 by op '\w+' of block 'front' {LINE} and on IPU 1"
    text += rf" by op '\w+' of block 'back' {LINE}"
    return Refusal(call, "back", CALLED, "give their blocks the same ipu_id", text)


def idle(call):
    text = rf"block 'idle' computes nothing that is used: op '\w+' of block 'idle' {LINE}"
    return Refusal(call, "idle", "self.spare(x)", "leave unused layers out of blocks", text)


REFUSED = {
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
        "give its blocks one ipu_id, or separate stages (AutoStage.AutoIncrement)",
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
    "IPU 64": Refusal(
        infer(Blocks(("front", 0, "fc"), ("far", 64, "other")), rounded=True),
        "far",
        CALLED,
        "Use lower ipu_ids or fewer replicas",
        r"Too many IPUs requested \(128\)\. .* "
        rf"is IPU 64, used by op 'linear' of block 'far' {LINE}",
    ),
    "more IPUs than the pool has": Refusal(
        infer(Blocks(("front", 0, "fc"), ("back", 1, "other")), pool=1),
        "back",
        CALLED,
        "Choose a larger one with Emulator.devicePool() or POPTORCH_IPU_POOL, or use fewer IPUs",
        r"acquire 2 IPU\(s\): the pool has 1\. .* "
        rf"is IPU 1, used by op 'linear' of block 'back' {LINE}",
    ),
}
