"""Results of a loaded executable are of classes that the program has imported."""

import collections
import sys
import types

import poptorch
import pytest
import random_structures
import torch
from poptorch._impl.pytree import objects, structure_json
from poptorch._impl.pytree.structures import flatten, unflatten

A = torch.tensor([1.0, 2.0])


def test_a_result_of_a_class_that_is_not_imported_is_refused(tmp_path, monkeypatch):
    module = types.ModuleType("results_elsewhere")
    module.Pair = collections.namedtuple("Pair", "y z", module="results_elsewhere")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    model = poptorch.inferenceModel(lambda x: module.Pair(x + 1, x * 2))
    model.compileAndExport(tmp_path / "file", torch.ones(2), export_model=False)
    monkeypatch.delitem(sys.modules, module.__name__)
    with pytest.raises(poptorch.Error, match=r"\[load\] .* is a results_elsewhere\.Pair, which"):
        poptorch.inferenceModel(torch.relu).loadExecutable(tmp_path / "file")


def returning(seed):
    """Returns a model that returns the structure of a seed, and its argument."""

    def model(value, x):
        return x + 1, random_structures.Maker(seed, lambda number: x * number).structure(), value

    return model


@pytest.mark.shared
@pytest.mark.parametrize("block", range(10))
def test_random_structures_survive(tmp_path, block):
    """Arguments and results of any structure are those of the model that was saved, or refused."""
    saved = 0
    for seed in range(block * 20, block * 20 + 20):
        x, found, expected = A, [], []
        value = random_structures.Maker(seed + 1, lambda number: A + number).structure()
        made = poptorch.inferenceModel(returning(seed))
        try:
            made.compileAndExport(tmp_path / "file", value, x, export_model=False)
        except poptorch.Error as error:
            assert "[save]" in str(error), seed
            continue
        loaded = poptorch.inferenceModel(returning(seed))
        loaded.loadExecutable(tmp_path / "file")
        results = random_structures.described(loaded(value, x), found)
        assert results == random_structures.described(made(value, x), expected), seed
        for one, other in zip(found, expected, strict=True):
            assert torch.equal(one, other), seed
        saved += 1
    assert saved > 4


def test_a_class_whose_objects_end_by_code_is_not_loaded(tmp_path, monkeypatch):
    class Held:
        pass

    def model(x):
        held = Held()
        held.x = x + 1
        return held

    monkeypatch.setitem(sys.modules, "held_elsewhere", module := types.ModuleType("held_elsewhere"))
    Held.__module__, Held.__qualname__, module.Held = module.__name__, "Held", Held
    poptorch.inferenceModel(model).compileAndExport(tmp_path / "f", A, export_model=False)
    loaded = poptorch.inferenceModel(torch.relu)
    loaded.loadExecutable(tmp_path / "f")
    assert type(loaded(A)) is Held and torch.equal(loaded(A).x, A + 1)
    Held.__del__ = lambda held: None
    objects.can_be_made.cache_clear()
    with pytest.raises(poptorch.Error, match=r"\[load\] .* is a held_elsewhere\.Held"):
        poptorch.inferenceModel(torch.relu).loadExecutable(tmp_path / "f")


def node_of(value):
    return structure_json.encode(flatten(value, []))


def test_structures_of_version_3_4_are_read():
    leaf = {"kind": "tensor", "name": "", "shape": [2], "dtype": "float32", "index": 0}
    here = ["random_structures", "Plain"]
    data = {"kind": "dataclass", "name": "", "type": here, "keys": ["a", "b"],
            "children": [leaf, {"kind": "constant", "name": "", "value": 3}]}  # fmt: skip
    found = unflatten(structure_json.decode(data), iter([A]))
    assert type(found) is random_structures.Plain and found.a is A and found.b == 3
    data = {"kind": "dict", "name": "", "type": ["random_structures", "Output"], "keys": ["loss"],
            "children": [leaf]}  # fmt: skip
    found = unflatten(structure_json.decode(data), iter([A]))
    assert found.loss is A and found["loss"] is A and found.logits is None


@pytest.mark.parametrize(
    "value, change",
    [
        (random_structures.Parent(A), lambda made: made.update(place=1)),
        (random_structures.Parent(A), lambda made: made["children"][0]["children"][0].update(of=7)),
        (random_structures.OwnDict(x=A), lambda made: made["children"][-1].update(kind="tensor")),
        (random_structures.OwnDict(x=A), lambda made: made["children"][-1].update(of=1)),
        (collections.deque([A]), lambda made: made["children"][-1].update(value="a")),
        (random_structures.Plain(A), lambda made: made.update(kind="registered")),
        (random_structures.Plain(A), lambda made: made.update(type=["torch.nn", "Linear"])),
        (random_structures.Plain(A), lambda made: made.update(type=["builtins", "type"])),
        (
            collections.defaultdict(list),
            lambda made: made["children"][0]["value"].update(factory="x"),
        ),
        (torch.Size([1]), lambda made: made.update(type=["collections", "deque"], kind="fields")),
    ],
)
def test_forged_structures_are_refused(value, change):
    made = node_of(value)
    structure_json.decode(made)
    change(made)
    with pytest.raises((poptorch.Error, TypeError, KeyError)):
        structure_json.decode(made)
