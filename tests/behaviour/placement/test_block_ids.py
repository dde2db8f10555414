"""Tests block ids of any type, annotated models in files, and the cleanup after a refused block."""

import ast
import sys

import poptorch
import pytest
import torch
import zygote
from test_blocks import Scoped, X, chain, options, places, wrapped


@pytest.mark.parametrize("ids", [(1, 2), (("front", 1), 2.5), (poptorch.AutoStage.SameAsIpu, "b")])
def test_ids_of_any_type(ids):
    increment = poptorch.AutoStage.AutoIncrement
    for model in (
        Scoped({"user_id": ids[0]}, {"user_id": ids[1]}),
        Scoped(*[{"user_id": name, "ipu_id": i} for i, name in enumerate(ids)]),
    ):
        assert places(wrapped(model, poptorch.PipelinedExecution(increment))) == [(0, 0), (1, 1)]
    model = chain(2)
    for layer, name in zip(model, ids, strict=True):
        hook = repr([*poptorch.BeginBlock(layer, name)._forward_pre_hooks.values()])
        assert hook == f"[BeginBlock(user_id={name}, ipu_id=None)]"
    named = poptorch.PipelinedExecution(str(ids[0]), str(ids[1]))
    assert places(wrapped(model, named)) == [(0, 0), (1, 1)]

    @poptorch.BlockFunction(ids[0], ipu_id=1)
    def doubled(x):
        return torch.relu(x) * 2

    assert places(wrapped(doubled, poptorch.PipelinedExecution(increment))) == [(1, 0)]


ANNOTATED = """
import sys, torch, poptorch
model = torch.load(sys.argv[1], weights_only=False)
print([hook for layer in model for hook in layer._forward_pre_hooks.values()])
options = poptorch.Options().deviceIterations(2)
options.setExecutionStrategy(poptorch.PipelinedExecution("front", "1"))
print(poptorch.inferenceModel(model, options)(torch.ones(2, 4)).tolist())
"""


@pytest.mark.shared
def test_annotated_models_in_files(tmp_path):
    model = chain(2)
    poptorch.BeginBlock(model[0], "front", ipu_id=1)
    poptorch.BeginBlock(model[1], 1, ipu_id=0)
    torch.save(model, tmp_path / "model.pt")
    expected = model(torch.ones(2, 4)).detach()
    run = [sys.executable, "-c", ANNOTATED, tmp_path / "model.pt"]
    shown, values = zygote.run(run, capture_output=True, text=True, check=True).stdout.split(
        "\n", 1
    )
    assert shown == "[BeginBlock(user_id=front, ipu_id=1), BeginBlock(user_id=1, ipu_id=0)]"
    torch.testing.assert_close(torch.tensor(ast.literal_eval(values)), expected)


@pytest.mark.parametrize("kind", [AssertionError, poptorch.Error])
def test_a_refused_block_leaves_no_trace(kind):
    model = chain(2)
    poptorch.BeginBlock(model[0], "a", ipu_id=0)
    poptorch.BeginBlock(model[1], "a" if kind is poptorch.Error else "b", ipu_id=1)
    made = poptorch.inferenceModel(model, options(poptorch.PipelinedExecution("a", "c")))
    for _ in range(2):
        with pytest.raises(kind, match="Unknown Block 'b'|began on IPU 0"):
            made(X)
        assert not poptorch.isRunningOnIpu()
        torch.testing.assert_close(made.model(X), model(X))
    poptorch.removeBlocks(model)
    made.destroy()
    torch.testing.assert_close(wrapped(model)(X), model(X).detach())
