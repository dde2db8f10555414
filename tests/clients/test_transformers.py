"""Whole models of the transformers library train as in eager torch, op for op in the program.

One model of each family runs; with ALL_TRANSFORMERS in the environment, all seventy.
"""

import os

import beside_eager
import pytest

transformers_models = pytest.importorskip("transformers_models")
further_transformers = pytest.importorskip("further_transformers")
MODELS = transformers_models.MODELS | further_transformers.MODELS
FAMILIES = {
    "encoder": "BERT",
    "encoder, relative positions": "DeBERTa",
    "decoder": "GPT-2",
    "decoder, grouped queries, rotary positions": "Llama",
    "mixture of experts": "mixture of experts",
    "encoder and decoder": "T5",
    "state space": "Mamba",
    "image patches": "ViT",
    "image windows": "Swin",
    "sound": "Wav2Vec2",
    "text and images": "CLIP",
    "detection, convolutions": "DETR",
}
CHOSEN = list(MODELS) if "ALL_TRANSFORMERS" in os.environ else list(FAMILIES.values())
# Their norms divide by deviations of a few values.
ROUNDING_IS_AMPLIFIED = {"ResNet", "RegNet", "MT5"}


def assert_has_ops_of_the_graph(wrapped):
    """Checks that no op of the model is left to torch, or to a slow kernel."""
    report = wrapped.report()
    assert set(report["generic_ops"]) <= {"aten::ctc_loss.Tensor"}
    assert set(report["reference_kernels"]) <= {"check_answer"}


@pytest.mark.shared
@pytest.mark.parametrize("name", CHOSEN)
def test_ten_steps_are_those_of_eager_torch(name):
    model, batch = transformers_models.training(name, MODELS)
    compare = beside_eager.assert_trains_as_eager
    if name in ROUNDING_IS_AMPLIFIED:
        compare = beside_eager.assert_steps_are_eagers
    assert_has_ops_of_the_graph(compare(model, batch))


@pytest.mark.shared
@pytest.mark.parametrize("name", CHOSEN)
def test_scores_and_losses_are_those_of_eager_torch(name):
    model, batch = transformers_models.training(name, MODELS)
    assert_has_ops_of_the_graph(beside_eager.assert_infers_as_eager(model, batch))
