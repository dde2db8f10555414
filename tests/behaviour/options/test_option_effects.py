"""Tests effects of options at compilation and in runs that no other file tests."""

import poptorch
import pytest
import torch

X = torch.arange(12.0).reshape(12, 1)
MODES = poptorch.OutputMode


class Scale(torch.nn.Module):
    """A model with a buffer, and a block on each of several IPUs."""

    def __init__(self, ipus=1):
        super().__init__()
        self.register_buffer("factor", torch.tensor([2.0]))
        self.ipus = ipus

    def forward(self, x):
        for ipu in range(self.ipus):
            with poptorch.Block(ipu_id=ipu):
                x = x * (2.0 if ipu else self.factor)
        return x


@pytest.mark.parametrize("replicas, ipus, counted", [(128, 1, 128), (65, 1, "65"), (32, 4, 128)])
def test_too_many_ipus_are_refused_when_the_device_is_made(replicas, ipus, counted):
    options = poptorch.Options().replicationFactor(replicas).autoRoundNumIPUs(True)
    options.setExecutionStrategy(poptorch.ShardedExecution())
    options.Emulator.devicePool(256)
    wrapped = poptorch.inferenceModel(Scale(ipus), options)
    x = torch.ones(replicas, 1)
    text = rf"Too many IPUs requested \({counted}\). Experiments that need more than 64 IPUs "
    for call in (wrapped.compile, wrapped):
        with pytest.raises(poptorch.Error, match=text + "require distributed execution."):
            call(x)


def test_unknown_named_buffers_are_refused_at_the_first_compilation():
    options = poptorch.Options().updatableNamedBuffers(["factor", "wibble"])
    wrapped = poptorch.inferenceModel(Scale(), options)
    for call in (wrapped.compile, wrapped):
        with pytest.raises(poptorch.Error, match="the model has no buffer wibble"):
            call(X)
    good = poptorch.inferenceModel(Scale(), poptorch.Options().updatableNamedBuffers(["factor"]))
    assert torch.equal(good(X), 2 * X)


@pytest.mark.parametrize("steps", [1, 3, 4, 12])
def test_an_anchor_of_fewer_steps_than_its_period(steps):
    options = poptorch.Options().deviceIterations(steps)
    options.anchorTensor("every", "input0", MODES.EveryN, 4)
    options.anchorTensor("all", "input0", MODES.All)
    wrapped = poptorch.inferenceModel(Scale(), options)
    x = X[:steps]
    assert torch.equal(wrapped(x), 2 * x)
    assert torch.equal(wrapped.getAnchoredTensor("every"), x[3::4])  # none of 1 and of 3
    assert torch.equal(wrapped.getAnchoredTensor("all"), x)


def test_the_captured_graph_is_exported(tmp_path, monkeypatch):
    file = tmp_path / "new" / "folder" / "graph.txt"
    monkeypatch.setenv("POPTORCH_EXPORT_PROTO_FILE", str(file))
    wrapped = poptorch.inferenceModel(Scale())
    wrapped.compile(X)
    assert file.read_text() == wrapped.graph("traced")
    monkeypatch.setenv("POPTORCH_EXPORT_PROTO_FILE", str(tmp_path / "new" / "folder"))
    with pytest.raises(poptorch.Error, match="new/folder"):
        poptorch.inferenceModel(Scale()).compile(X)


class Counting(torch.nn.Module):
    """Writes its buffer in the body of a loop or a branch, which may be nested."""

    def __init__(self, run, depth):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))
        self.run, self.depth = run, depth

    def body(self, x, depth=1):
        if depth < self.depth:
            return self.run(lambda value: self.body(value, depth + 1), x)
        self.count += 1
        return x + self.count

    def forward(self, x):
        return self.run(self.body, x)


RUNS = {
    "for_loop": lambda body, x: poptorch.for_loop(2, body, [x])[0],
    "then": lambda body, x: poptorch.cond(x.sum() >= 0, body, [x], torch.abs, [x])[0],
    "else": lambda body, x: poptorch.cond(x.sum() < 0, torch.abs, [x], body, [x])[0],
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("depth", [1, 2])
def test_buffers_that_a_body_writes_are_not_broadcast(run, depth):
    options = poptorch.Options().replicationFactor(2)
    wrapped = poptorch.inferenceModel(Counting(run, depth), options)
    with pytest.raises(poptorch.Error, match="broadcasting buffers. .* The model writes count"):
        wrapped(X)
    options = options.clone().broadcastBuffers(False)
    assert (poptorch.inferenceModel(Counting(run, depth), options)(X) > X).all()
