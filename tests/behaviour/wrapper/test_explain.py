"""poptorch.explain lists the ops and modules that a model uses, without running it."""

import re

import poptorch
import pytest
import torch
from torch import nn
from torch._higher_order_ops.while_loop import while_loop

HERE = r"\S*test_explain\.py:\d+"


class Model(nn.Module):
    def __init__(self, refused=False):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
        self.out = nn.Linear(4, 3)
        self.refused = refused

    def forward(self, x, target=None):
        x = self.encoder(x) + torch.linalg.svdvals(x).sum()
        if self.refused:
            for _ in range(2):
                x = x + torch.hash_tensor(x)
            x.to_sparse()
        y = self.out(x)
        return y if target is None else (y, nn.functional.mse_loss(y, target))


def test_ops_and_places():
    found = poptorch.explain(Model(), torch.randn(5, 4))
    assert found.is_supported and found.refusals == () and found.ended_by == ""
    ops = {op.name: op for op in found.ops}
    assert {name: op.count for name, op in ops.items() if not op.foreign} == {
        "linear": 3,
        "relu": 1,
        "add": 1,
        "sum": 1,
    }
    (foreign,) = [op for op in found.ops if op.foreign]
    assert foreign.name.startswith("aten::_linalg_svd")
    assert re.fullmatch(HERE, foreign.places[0][0])
    assert [op.count for op in found.ops] == sorted((op.count for op in found.ops), reverse=True)


def test_the_counts_are_those_of_what_is_compiled():
    model, x = Model(), torch.randn(5, 4)
    wrapped = poptorch.inferenceModel(model)
    wrapped(x)
    found = poptorch.explain(wrapped, x)
    text = wrapped.graph("traced")
    for op in found.ops:
        name = "aten" if op.foreign else op.name
        assert len(re.findall(rf" = {name}\(", text)) == op.count


def test_modules():
    by_path = {m.path: m for m in poptorch.explain(Model(), torch.randn(5, 4)).modules}
    assert list(by_path) == ["", "encoder", "encoder.0", "encoder.1", "encoder.2", "out"]
    encoder, whole = by_path["encoder"], by_path[""]
    assert (encoder.kind, encoder.parameters, encoder.parameter_bytes) == ("Sequential", 76, 304)
    assert (encoder.ops, encoder.activation_bytes) == (3, 4 * 5 * (8 + 8 + 4))
    assert whole.parameters == 91
    assert whole.ops == sum(op.count for op in poptorch.explain(Model(), torch.randn(5, 4)).ops)


def test_refusals_and_their_cures():
    found = poptorch.explain(Model(refused=True), torch.randn(5, 4))
    assert not found.is_supported
    assert [refusal.name for refusal in found.refusals] == ["aten::hash_tensor", "aten::_to_sparse"]
    (hashes,), (sparse,) = (refusal.places for refusal in found.refusals)
    assert hashes[1] == 2 and sparse[1] == 1
    assert found.refusals[1].reason.endswith("Keep it dense.")
    assert {"linear": 3}.items() <= {op.name: op.count for op in found.ops}.items()
    assert "random_uniform" not in {op.name for op in found.ops}
    text = str(found)
    assert re.search(rf"aten::hash_tensor  {HERE}, 2 times: its result needs", text)
    assert re.search(r"  the model \(Model\)", text)


def test_where_the_capture_ends():
    def masked(x):
        return torch.relu(x)[x > 0]

    class Masked(nn.Module):
        forward = staticmethod(masked)

    found = poptorch.explain(Masked(), torch.randn(5, 4))
    assert not found.is_supported
    assert re.search(rf"determined at runtime.*\({HERE}\)", found.ended_by)
    assert {op.name for op in found.ops} == {"relu", "gt"}
    assert f"{found.ended_by} Later ops were not checked." in str(found)


def test_what_python_refuses_ends_the_capture():
    class Looping(nn.Module):
        def forward(self, x):
            x = torch.hash_tensor(x.tanh()) + x
            return while_loop(lambda y: y.sum() < 9, lambda y: (y + 1,), (x,))[0]

    found = poptorch.explain(Looping(), torch.ones(4))
    assert [refusal.name for refusal in found.refusals] == ["aten::hash_tensor"]
    assert found.ended_by.startswith("[while_loop] how often the body runs")


def test_functions():
    for model in (torch.tanh, poptorch.inferenceModel(torch.tanh)):
        found = poptorch.explain(model, torch.ones(3))
        assert [(op.name, op.count) for op in found.ops] == [("tanh", 1)]
        assert found.modules == () and found.is_supported and "tanh" in str(found)


def test_nothing_is_allocated():
    with torch.device("meta"):
        model, x = nn.Linear(1 << 17, 1 << 17), torch.empty(8, 1 << 17)
    found = poptorch.explain(model, x)
    assert found.modules[0].parameter_bytes == 4 * ((1 << 34) + (1 << 17))
    assert found.modules[0].activation_bytes == 4 * 8 << 17


def test_training_is_the_models_mode_unless_told():
    class Dropping(nn.Module):
        def forward(self, x):
            return nn.functional.dropout(x, 0.5, self.training)

    def names(model, **keywords):
        return [op.name for op in poptorch.explain(model, torch.ones(4), **keywords).ops]

    assert names(Dropping().train()) == ["dropout"]
    assert names(Dropping().eval()) == []


def test_an_error_of_the_program_is_its_own():
    class Broken(nn.Module):
        def forward(self, x):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        poptorch.explain(Broken(), torch.ones(4))
