"""Annotations that are refused while the model is traced: further rows of test_annotations."""

import poptorch
import torch
from refusals import LINE, Refusal, infer

NAMED = poptorch.PipelinedExecution("front", "other")


class Recorded(torch.nn.Module):
    """A linear layer, then `rest`."""

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


def unnamed(call):
    text = rf"Unknown Block 'back' list of expected Blocks: \['front', 'other'\] {LINE}"
    cure = "Add the block to a stage of the execution strategy, or give it one of these ids"
    return Refusal(call, "back", "with poptorch.Block(*arguments)", cure, text)


REFUSED = {
    "an op outside of scopes": Refusal(
        infer(Recorded(torch.relu)),
        "front",
        "return self.rest(x)",
        "Put it into one, or use poptorch.BeginBlock",
        rf"No active Block, all the ops must belong to a Block: op 'relu' {LINE} is outside of "
        "every poptorch.Block, after block 'front'",
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
        rf"Unknown Block 'back' .* belongs to BeginBlock\(user_id=back, .*\) of a Linear {LINE}",
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
        "pass the same ipu_id, or use another user_id there",
        rf"block 'front' began on IPU 0 {LINE} and begins again with ipu_id=1 {LINE}\.",
    ),
    "a layer's block that begins again on another IPU": Refusal(
        infer(lambda: begun([0, 1], ["front", "front"])),
        "front",
        "poptorch.BeginBlock(model[number]",
        "pass the same ipu_id, or use another user_id there",
        rf"block 'front' began on IPU 0 {LINE} and begins again with ipu_id=1 {LINE}\.",
    ),
    "an op behind a block in a block": Refusal(
        infer(Recorded(block_in_a_block)),
        "inner",
        "return torch.sigmoid(x)",
        "A Block that ends within another ends both",
        rf"No active Block.*op 'sigmoid' {LINE} is outside of every .*, after block 'inner'",
    ),
    "BeginBlocks out of order": Refusal(
        infer(lambda: begun([1, 0])),
        "layer1",
        "poptorch.BeginBlock(model[number]",
        "Write the BeginBlocks in the order in which the layers run",
        rf"BeginBlock\(user_id=layer1, ipu_id=1\) of a Linear {LINE} begins after "
        rf"BeginBlock\(user_id=layer0, ipu_id=0\) of a Linear {LINE}",
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
}
