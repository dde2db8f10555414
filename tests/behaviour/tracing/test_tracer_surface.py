"""Tests what a user sees inside a traced forward, and the text of the traced form."""

import pathlib

import poptorch
import pytest
import torch
from poptorch._impl.trace import session
from torch import nn


class Seen(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
        self.register_buffer("scale", torch.ones(2))
        self.notes = {}

    def forward(self, x):
        y = self.fc(x)
        self.notes.update(
            devices=[t.device.type for t in (x, y, y.t(), self.fc.weight, self.scale, y[0])],
            text=repr(y),
            dtype=torch.arange(3).dtype,
            grad=y.requires_grad,
            running=poptorch.isRunningOnIpu(),
        )
        on_ipu = torch.zeros(2, device="ipu").to("ipu") + torch.ones(2, device=x.device)
        return y * self.scale + on_ipu


def test_tensors_report_the_ipu():
    model = Seen()
    poptorch.inferenceModel(model)(torch.randn(3, 4))
    assert set(model.notes["devices"]) == {"ipu"}
    assert "<unavailable>" in model.notes["text"]
    assert model.notes["dtype"] == torch.int64
    assert model.notes["running"]
    assert model.fc.weight.device.type == "cpu"
    assert model.scale.device.type == "cpu"
    assert not poptorch.isRunningOnIpu()


def test_wide_types_come_back_narrow():
    run = poptorch.inferenceModel(lambda x: (x.long() + 1, x.double() * 2, x > 0))
    whole, real, truth = run(torch.ones(2))
    assert (whole.dtype, real.dtype, truth.dtype) == (torch.int32, torch.float32, torch.bool)


def test_traced_form_names_modules_and_lines():
    model = nn.Sequential(nn.Linear(4, 2), nn.Tanh())
    text = session.trace(lambda x: [model(x[0])], model, [torch.randn(3, 4)], locations=True)
    assert 'state "0.weight" : f32[2,4]' in text
    linear = next(line for line in text.splitlines() if " = linear(" in line)
    assert 'scope("0")' in linear
    assert f"{pathlib.Path(__file__).name}" in linear


def test_traces_are_the_same_text():
    def trace():
        torch.manual_seed(1)
        model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        inputs = [torch.randn(2, 3, 8)]
        return session.trace(lambda x: [model(x[0])], model, inputs, training=True)

    assert trace() == trace()


def test_random_numbers_are_new_each_time_and_have_the_right_spread():
    run = poptorch.inferenceModel(
        lambda x: (torch.rand_like(x), torch.randn_like(x), nn.functional.dropout(x, 0.25))
    )
    x = torch.ones(200, 100)
    first, second = run(x), run(x)
    uniform, normal, dropped = first
    assert not torch.equal(uniform, second[0])
    assert uniform.mean().item() == pytest.approx(0.5, abs=0.01)
    assert normal.mean().item() == pytest.approx(0, abs=0.03)
    assert normal.std().item() == pytest.approx(1, abs=0.03)
    assert (dropped == 0).float().mean().item() == pytest.approx(0.25, abs=0.02)
    assert dropped.max().item() == pytest.approx(1 / 0.75)


def test_every_whole_layer_stays_whole():
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Dropout(0.1))
    text = session.trace(lambda x: [model(x[0])], model, [torch.randn(3, 4)], training=True)
    ops = [line.split(" = ")[1].split("(")[0] for line in text.splitlines() if " = " in line]
    assert [op for op in ops if op != "variable"] == ["linear", "gelu", "layer_norm", "dropout"]


def test_hugging_face_bert_trains_as_in_eager_mode():
    transformers = pytest.importorskip("transformers")
    from tracer_case import compare_training

    config = transformers.BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )

    class Answers(nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = transformers.BertForQuestionAnswering(config)

        def forward(self, tokens, mask):
            found = self.bert(input_ids=tokens, attention_mask=mask)
            return found.start_logits, found.end_logits

    torch.manual_seed(5)
    mask = torch.ones(2, 8, dtype=torch.int64)
    mask[1, 5:] = 0
    compare_training(Answers(), torch.randint(0, 50, (2, 8)), mask, tolerance=2e-4)
