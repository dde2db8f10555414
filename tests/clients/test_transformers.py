"""Whole models of the transformers library train as in eager torch, op for op in the program."""

import beside_eager
import pytest

transformers_models = pytest.importorskip("transformers_models")
further_transformers = pytest.importorskip("further_transformers")
MODELS = transformers_models.MODELS | further_transformers.MODELS
# Their norms divide by deviations of a few values.
ROUNDING_IS_AMPLIFIED = {"ResNet", "RegNet", "MT5"}


def assert_has_ops_of_the_graph(wrapped):
    """No op of the model is left to torch, or to a slow kernel."""
    report = wrapped.report()
    assert set(report["generic_ops"]) <= {"aten::ctc_loss.Tensor"}
    assert set(report["reference_kernels"]) <= {"check_answer"}


@pytest.mark.parametrize("name", MODELS)
def test_ten_steps_are_those_of_eager_torch(name):
    model, batch = transformers_models.training(name, MODELS)
    forced = name in ROUNDING_IS_AMPLIFIED
    assert_has_ops_of_the_graph(beside_eager.assert_trains_as_eager(model, batch, forced=forced))


@pytest.mark.parametrize("name", MODELS)
def test_scores_and_losses_are_those_of_eager_torch(name):
    model, batch = transformers_models.training(name, MODELS)
    assert_has_ops_of_the_graph(beside_eager.assert_infers_as_eager(model, batch))
