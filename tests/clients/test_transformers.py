"""Whole models of the transformers library train as in eager torch, op for op in the program."""

import beside_eager
import pytest

transformers_models = pytest.importorskip("transformers_models")


@pytest.mark.parametrize("name", transformers_models.MODELS)
def test_ten_steps_are_those_of_eager_torch(name):
    model, batch = transformers_models.training(name)
    wrapped = beside_eager.assert_trains_as_eager(model, batch)
    report = wrapped.report()
    assert not report["generic_ops"] and set(report["reference_kernels"]) <= {"check_answer"}
