"""Networks of many kinds train and infer as in eager torch, op for op in the program.

Convolutional networks with norms over a few values amplify rounding. They are compared step by
step; "Networks that amplify rounding" in docs/explain/rounding.md has the measurement.
"""

import beside_eager
import pytest
import whole_models


@pytest.mark.shared
@pytest.mark.parametrize("name", whole_models.MODELS)
def test_ten_steps_are_those_of_eager_torch(name):
    model, batch = whole_models.MODELS[name]()
    if name in whole_models.ROUNDING_IS_AMPLIFIED:
        kinks = whole_models.ROUNDING_IS_AMPLIFIED[name]
        wrapped = beside_eager.assert_steps_are_eagers(model, batch, kinks=kinks)
    else:
        wrapped = beside_eager.assert_trains_as_eager(model, batch)
    report = wrapped.report()
    assert not report["generic_ops"] and not report["reference_kernels"]


@pytest.mark.shared
@pytest.mark.parametrize("name", whole_models.MODELS)
def test_scores_and_losses_are_those_of_eager_torch(name):
    beside_eager.assert_infers_as_eager(*whole_models.MODELS[name]())
