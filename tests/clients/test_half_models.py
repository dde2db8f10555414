"""Whole models in float16 are as close to float32 in eager torch as eager float16 is."""

import copy

import beside_eager
import poptorch
import pytest
import torch

transformers_models = pytest.importorskip("transformers_models")
whole_models = pytest.importorskip("whole_models")

NAMES = [
    "BERT", "RoBERTa", "DeBERTa", "GPT-2", "Llama", "mixture of experts", "T5", "BART", "Mamba",
    "RWKV",
    "DeiT", "Swin", "ConvNeXt", "Wav2Vec2", "Whisper", "WaveNet", "LSTM language model", "DLRM",
]  # fmt: skip


def eager_steps(model, batch, rate):
    optimiser = beside_eager.sgd(model, rate)
    losses = [beside_eager.eager_step(model, optimiser, batch)[1].float() for _ in range(10)]
    return torch.cat(losses), beside_eager.flat(model)


@pytest.mark.shared
@pytest.mark.parametrize("name", NAMES)
def test_ten_steps_in_float16_are_those_of_float32(name):
    own = name in whole_models.MODELS
    model, batch = whole_models.MODELS[name]() if own else transformers_models.training(name)
    model = model.half()
    before = beside_eager.flat(model)
    batch = beside_eager.converted(batch, torch.float16)
    full = beside_eager.converted(batch, torch.float32)
    rate = 0.02 if "pixel_values" in batch else 0.05
    losses, weights = eager_steps(copy.deepcopy(model).float(), full, rate)
    _, halves = eager_steps(copy.deepcopy(model), batch, rate)
    optimiser = beside_eager.sgd(model, rate)
    wrapped = poptorch.trainingModel(model, beside_eager.options_of(), optimiser)
    found = torch.cat([beside_eager.call(wrapped, batch)[1].reshape(1) for _ in range(10)])
    torch.testing.assert_close(found.float(), losses, rtol=1e-2, atol=2e-3)
    assert {p.dtype for p in model.parameters()} == {torch.float16}
    way = (weights - before).norm()
    error = (beside_eager.flat(model) - weights).norm() / way
    assert error < 0.15
    if name != "DeiT":  # eager's float16 gives infinities or NaN in the first step
        assert error < 1.2 * (halves - weights).norm() / way + 5e-3
