"""The remedies that an out-of-memory error suggests save about as much memory as promised."""

import re

import poptorch
import pytest
import torch
from poptorch._impl.wrapper.compiled_model import existing
from poptorch._impl.wrapper.state import wrapper_state

WIDTH, BATCH, LAYERS = 32, 2048, 6


class Deep(torch.nn.Module):
    """Equal layers on two IPUs. `kept` = ("of" or "after" its GELU, layer) places a checkpoint."""

    def __init__(self, cut, kept=(), width=WIDTH):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(LAYERS))
        self.kept = kept
        poptorch.BeginBlock(self.layers[cut], "1", ipu_id=1)

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if self.kept == ("of", i):
                x = poptorch.recomputationCheckpoint(x)
            x = torch.nn.functional.gelu(x)
            if self.kept == ("after", i):
                x = poptorch.recomputationCheckpoint(x)
        return poptorch.identity_loss(x.square(), reduction="mean")


@pytest.fixture
def small_ipus(monkeypatch):
    """IPUs of four tiles: 2,555,904 bytes."""
    monkeypatch.delenv("POPTORCH_IPU_MODEL", raising=False)
    monkeypatch.setenv("POPTORCH_SMALL_IPU_MODEL", "1")


def compiled(model, limit, batch=BATCH):
    options = poptorch.Options().useIpuModel(True)
    options.Training.gradientAccumulation(3)
    options.Emulator.memoryLimit(limit)
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    wrapped = poptorch.trainingModel(model, options, adam)
    wrapped.compile(torch.randn(3 * batch, model.layers[0].in_features))
    return wrapped.report()["ipus"]


def refusal(model, batch=BATCH):
    with pytest.raises(poptorch.Error) as error:
        compiled(model, "error", batch)
    return error.value.message


def test_the_checkpoint_saves_what_was_said(small_ipus):
    text = refusal(Deep(5))
    assert text.startswith("[memory] IPU 0 (stages 0, 2) needs ")
    pattern = r"recompute from '\S+' (of|after) 'layers\.(\d)':[^(]*\(saves ([\d.]+) MB"
    found = re.search(pattern, text)
    assert found, text
    before = compiled(Deep(5), "off")[0]["needed_bytes"]
    after = compiled(Deep(5, kept=(found[1], int(found[2]))), "off")[0]["needed_bytes"]
    assert before - after == pytest.approx(float(found[3]) * 1e6, rel=0.5)


def test_the_other_cut_moves_the_state_that_was_said(small_ipus):
    width = 200  # weights take more memory than activations
    text = refusal(Deep(4, width=width), batch=4)
    found = re.search(r"at 'layers\.(\d)'[^(]*\([^(]*?saves ([\d.]+) MB|"
                      r"at 'layers\.(\d)'.*?\(saves ([\d.]+) MB", text)  # fmt: skip
    assert found, text
    cut, saving = (found[1], found[2]) if found[1] else (found[3], found[4])
    before = compiled(Deep(4, width=width), "off", 4)[0]["state_bytes"]
    after = compiled(Deep(int(cut), width=width), "off", 4)[0]["state_bytes"]
    assert before - after == pytest.approx(float(saving) * 1e6, abs=1e5)


def test_half_the_batch_saves_about_what_was_said(small_ipus):
    text = refusal(Deep(5))
    found = re.search(r"halve the micro-batch[^(]*\(saves ([\d.]+) MB", text)
    before = compiled(Deep(5), "off")[0]["needed_bytes"]
    after = compiled(Deep(5), "off", BATCH // 2)[0]["needed_bytes"]
    assert before - after == pytest.approx(float(found[1]) * 1e6, rel=0.1)


def test_each_compilation_reports_that_the_program_does_not_fit(small_ipus, capfd, monkeypatch):
    monkeypatch.delenv("POPTORCH_REPARSE", raising=False)  # with it, no program is kept
    model = torch.nn.Linear(1000, 700)
    cached = []
    for iterations in (1, 3):
        options = poptorch.Options().useIpuModel(True).deviceIterations(iterations)
        options.Emulator.memoryLimit("warn")
        wrapped = poptorch.inferenceModel(model, options)
        capfd.readouterr()
        wrapped.compile(torch.ones(iterations, 1000))
        assert capfd.readouterr().err.count("[memory] IPU 0 needs ") == 1
        program = existing(wrapper_state(wrapped).compiled)
        cached.append(program.executable.inspect()["compile"]["cached"])
    assert cached == [False, True]
