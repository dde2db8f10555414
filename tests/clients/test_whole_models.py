"""Networks of many kinds train and infer as in eager torch, op for op in the program."""

import beside_eager
import pytest
import whole_models

# Their norms divide by the deviations of a few values, and a sum that is rounded otherwise takes
# some across a kink: from the second step on, eager in float64 is as far from eager in float32.
ROUNDING_IS_AMPLIFIED = {"ResNet-50", "MobileNetV2", "EfficientNet-B0"}


@pytest.mark.parametrize("name", whole_models.MODELS)
def test_ten_steps_are_those_of_eager_torch(name):
    model, batch = whole_models.MODELS[name]()
    forced = name in ROUNDING_IS_AMPLIFIED
    wrapped = beside_eager.assert_trains_as_eager(model, batch, forced=forced)
    report = wrapped.report()
    assert not report["generic_ops"] and not report["reference_kernels"]


@pytest.mark.parametrize("name", whole_models.MODELS)
def test_scores_and_losses_are_those_of_eager_torch(name):
    beside_eager.assert_infers_as_eager(*whole_models.MODELS[name]())
