"""Annotations that are refused where they are written: further rows of test_annotations."""

import poptorch
import torch
from poptorch import AutoStage, Phase, Stage
from refusals import LINE, Refusal

NUMBER = "An ipu_id is a number from 0, not "


def begun_twice():
    layer = poptorch.BeginBlock(torch.nn.ReLU(), "first")
    poptorch.BeginBlock(layer, "second")


REFUSED = {
    "two BeginBlocks on one layer": Refusal(
        begun_twice,
        "second",
        'BeginBlock(layer, "second")',
        "Call poptorch.removeBlocks(module) between them, or keep one",
        rf"module has already been assigned to a block: BeginBlock\(user_id=first, ipu_id=None\) "
        rf"of a ReLU {LINE} comes before user_id='second' {LINE}",
    ),
    "a BeginBlock of no layer": Refusal(
        lambda: poptorch.BeginBlock(3, "front"),
        "front",
        'BeginBlock(3, "front")',
        "Pass the layer at which the block begins",
        rf"BeginBlock takes a module, not int: user_id='front' {LINE}",
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
        "Name each block once; give code that runs again later a block with a different id",
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
        "Pass a block that the execution strategy names; those are ['a']",
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
        rf"An AutoStage must be the only argument of an .*strategy, not one of .*'a'\) {LINE}",
    ),
}

# Refusals without a block: the call, a part of the text, the line and the cure.
WITHOUT_BLOCK = [
    (
        lambda: poptorch.BlockFunction(torch.relu),
        "The id of a block is a name, not <built-in method relu",
        "poptorch.BlockFunction(torch.relu)",
        "with the id, or with () for none",
    ),
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
        "Expected a Phase, a Stage, the id of a block or a list of those but got 3",
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
