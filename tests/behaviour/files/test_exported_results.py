"""Results of a loaded executable are of classes that the program has imported."""

import collections
import sys
import types

import poptorch
import pytest
import torch


def test_a_result_of_a_class_that_is_not_imported_is_refused(tmp_path, monkeypatch):
    module = types.ModuleType("results_elsewhere")
    module.Pair = collections.namedtuple("Pair", "y z", module="results_elsewhere")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    model = poptorch.inferenceModel(lambda x: module.Pair(x + 1, x * 2))
    model.compileAndExport(tmp_path / "file", torch.ones(2), export_model=False)
    monkeypatch.delitem(sys.modules, module.__name__)
    with pytest.raises(poptorch.Error, match=r"\[load\] .* is a results_elsewhere\.Pair, which"):
        poptorch.inferenceModel(torch.relu).loadExecutable(tmp_path / "file")
