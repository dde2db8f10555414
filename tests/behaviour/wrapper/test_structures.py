"""Nested structures of all kinds pass through a wrapped model as through the bare model."""

import collections
import copy
import types
import weakref

import poptorch
import poptorch.testing
import pytest
import random_structures
import torch
from random_structures import Maker, described


def tensors_of_call(call):
    return lambda number: torch.arange(3.0) + number * 10 + call


class Model(torch.nn.Module):
    """Describes its argument, adds up its tensors, and returns both and another structure."""

    def __init__(self, seed):
        super().__init__()
        self.seed, self.descriptions = seed, []

    def forward(self, value, x):
        tensors = []
        self.descriptions.append(described(value, tensors))
        total = sum((t.sum() * (i + 1) for i, t in enumerate(tensors)), start=x.sum())
        result = Maker(self.seed + 1, lambda number: x * number + total).structure()
        return total, result, value


@pytest.mark.shared
@pytest.mark.parametrize("block", range(20))
def test_random_structures_go_in_and_come_out(block):
    for seed in range(block * 25, block * 25 + 25):
        bare, inner = Model(seed), Model(seed)
        wrapped = poptorch.inferenceModel(inner)
        for call in range(2):
            x = torch.tensor([1.0, 2.0, 4.0]) + call
            found, expected = [], []
            given = [Maker(seed, tensors_of_call(call)).structure() for _ in range(2)]
            outcome = described(wrapped(given[0], x), found)
            assert outcome == described(bare(given[1], x), expected), seed
            for one, other in zip(found, expected, strict=True):
                torch.testing.assert_close(one, other, msg=f"seed {seed}")
            assert described(given[0], []) == described(given[1], []), seed
        assert inner.descriptions == bare.descriptions[:1], seed


def infer(function):
    return poptorch.inferenceModel(function)


A, B = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])


class Closing:
    """Has a __del__, which a copy of it would run."""

    def __init__(self, x):
        self.x = x

    def __del__(self):
        self.x = None


class Graph:
    """A batch whose store refers to it by a weak reference, as graph libraries have it."""

    def __init__(self, x):
        self.store = random_structures.Leaf(x)
        self.store.extra = weakref.ref(self)
        self.name = "graph"


@pytest.mark.parametrize(
    "hold, read",
    [
        (lambda x: types.SimpleNamespace(held=[x]), lambda v: v.held[0]),
        (lambda x: collections.UserDict(a=x), lambda v: v["a"]),
        (lambda x: collections.deque([x]), lambda v: v[0]),
        (lambda x: random_structures.Batch(x, 1), lambda v: v.x),
        (lambda x: [1, random_structures.Child({"a": 1}, x)], lambda v: v[1].value),
        (lambda x: random_structures.Child(random_structures.Colour.RED, x), lambda v: v.value),
        (lambda x: Graph(x), lambda v: v.store.extra().store._weight),
    ],
)
def test_each_call_uses_its_own_tensors(hold, read):
    wrapped = infer(lambda value: read(value) * 2)
    for tensor in (A, B):
        torch.testing.assert_close(wrapped(hold(tensor)), tensor * 2)


def test_the_same_object_with_other_tensors():
    wrapped = infer(lambda value: value.x + 1)
    value = types.SimpleNamespace(x=A)
    torch.testing.assert_close(wrapped(value), A + 1)
    value.x = B
    torch.testing.assert_close(wrapped(value), B + 1)


def change_scale(value):
    value.scale = 3.0


@pytest.mark.parametrize(
    "value, change, text",
    [
        (types.SimpleNamespace(scale=2.0), change_scale, r"value.scale: expected 2.0 but got 3.0"),
        (random_structures.Leaf({"a": [1]}), lambda v: v._weight["a"].append(2), "Length mismatch"),
        (random_structures.Batch(1, 2), lambda v: setattr(v, "z", 1), r"Unexpected arguments: .z"),
        ({1, 2}, lambda v: v.add(3), r"value: expected {1, 2} but got {1, 2, 3}"),
        (bytearray(b"a"), lambda v: v.append(98), r"Value mismatch for value: expected bytearray"),
        (random_structures.Tagged("t", 0, [1]), lambda v: setattr(v, "tag", "u"), "value.tag: exp"),
        (collections.defaultdict(int), lambda v: setattr(v, "default_factory", list), "factory"),
    ],
)
def test_a_value_that_changes_in_place_is_refused(value, change, text):
    value = copy.deepcopy(value)  # the placement configurations have the same parameters
    wrapped = infer(lambda x, value: x + 1)
    for _ in range(2):
        torch.testing.assert_close(wrapped(A, value=value), A + 1)
    change(value)
    with pytest.raises(poptorch.Error, match=text):
        wrapped(A, value=value)


def test_what_a_function_uses_is_constant():
    def scaling(scale, offset=0.0):
        return lambda y: y * scale + offset

    wrapped = infer(lambda x, f: f(x))
    for _ in range(2):
        torch.testing.assert_close(wrapped(A, scaling(2.0)), A * 2)
    for other in (scaling(3.0), scaling(2.0, 1.0), torch.neg):
        with pytest.raises(poptorch.Error, match="mismatch"):
            wrapped(A, other)
    table = torch.ones(2)

    def by_table(y):
        return y * int(table[0])

    wrapped = infer(lambda x, f: f(x))
    wrapped(A, by_table)
    table[0] = 5
    with pytest.raises(poptorch.Error, match=r"\[call\] table of f.* has changed since"):
        wrapped(A, by_table)


@pytest.mark.parametrize(
    "hide",
    [
        lambda x: {"a": x}.values(),
        lambda x: {"a": x}.items(),
        lambda x: {x},
        lambda x: {"a": 1, (1, x): 2},
        lambda x: iter([x]),
        lambda x: map(torch.neg, [x]),
        lambda x: (y for y in [x]),
        lambda x: types.MappingProxyType({"a": [x]}),
        lambda x: slice(x, None),
        lambda x: [weakref.WeakValueDictionary(a=x), x],
        lambda x: ValueError(x),
        lambda x: random_structures.Leaf({"a": {x}.__iter__()}),
        Closing,
    ],
)
def test_a_tensor_out_of_reach_is_refused(hide):
    value = hide(A)
    with pytest.raises(poptorch.Error, match=r"\[call\] .* holds a tensor, but the type"):
        infer(lambda x, value: x)(A, value)
    with pytest.raises(poptorch.Error, match=r"\[outputs\] the model returns a "):
        infer(lambda x: hide(x * 2))(A)


def test_an_object_in_two_places_is_one_object():
    def build(x):
        pair = [x * 2]
        parent = random_structures.Parent(pair)
        return parent, pair, Graph(x)

    for made in (infer(build)(A), build(A)):
        parent, pair, graph = made
        assert parent.child.value is pair and parent.child.parent is parent
        assert graph.store.extra() is graph
    inner = []
    infer(lambda p, c: inner.append(p.child is c) or c.value * 2)(*(lambda p: (p, p.child))(parent))
    assert inner == [True]


def test_an_object_in_two_places_may_not_become_two():
    wrapped = infer(lambda a, b: a.x + b.x)
    batch = random_structures.Batch(A, B)
    wrapped(batch, batch)
    with pytest.raises(poptorch.Error, match=r"\[call\] b is not the same object as a, as it was"):
        wrapped(batch, random_structures.Batch(A, B))
    wrapped = infer(lambda a, b: a.x + b.x)
    wrapped(batch, random_structures.Batch(A * 2, B))
    torch.testing.assert_close(wrapped(batch, batch), A * 2)
    wrapped = infer(lambda a, b: a[0] + b[0])
    pair = [A]
    wrapped(pair, pair)
    torch.testing.assert_close(wrapped(pair, [B]), A + B)


def test_containers_that_contain_themselves():
    items = [A]
    items.append(items)
    found = infer(lambda value: [value[1][0] * 2, value])(items)
    assert found[1][1] is found[1] and torch.equal(found[1][0], A) and torch.equal(found[0], A * 2)
    pair = ([A], 1)
    pair[0].append(pair)
    with pytest.raises(poptorch.Error, match="contains itself"):
        infer(lambda value: value[0][0])(pair)
    deep = A
    for _ in range(2000):
        deep = [deep]
    with pytest.raises(poptorch.Error, match=r"\[call\] value.* is nested too deeply"):
        infer(lambda value: A)(deep)


def test_an_object_without_tensors_is_passed_itself():
    config, seen = random_structures.Batch(1, {"a": 2}), []
    wrapped = infer(lambda x, config: seen.append(config) or (x + 1, config))
    assert wrapped(A, config)[1] is config and seen == [config]


def test_registered_dataclasses_and_classes_in_contexts():
    value = random_structures.RegisteredData(random_structures.Registered(A, "one"), B)
    wrapped = infer(lambda v: random_structures.Registered(v.a.value * v.b, v.a.kind))
    torch.testing.assert_close(wrapped(value).value, A * B)
    assert wrapped(value).kind == "one"
    value.a.kind = "two"
    with pytest.raises(poptorch.Error, match="expected 'one' but got 'two'"):
        wrapped(value)


def test_close_results_of_objects():
    one, other = random_structures.Batch(A, B), random_structures.Batch(A, B + 1)
    assert poptorch.testing.allclose(one, random_structures.Batch(A, B))
    assert not poptorch.testing.allclose(one, other)
    other = random_structures.Batch(A, B)
    other.more = 1
    with pytest.raises(poptorch.Error, match=r"\[testing\] structures differ"):
        poptorch.testing.allclose(one, other)


@pytest.mark.parametrize(
    "change, name",
    [
        (lambda v: setattr(v, "x", v.x * 2), "value.x"),
        (lambda v: setattr(v, "y", v.x * 2), "value"),
        (lambda v: delattr(v, "items"), "value"),
        (lambda v: v.items.append(v.x), "value.items"),
        (lambda v: v.items[0].update(a=None), "value.items[0]['a']"),
        (lambda v: v.items[0].pop("a"), "value.items[0]"),
        (lambda v: v.x.add_(1), None),
        (lambda v: v.items + [v.x], None),
    ],
)
def test_changes_of_an_argument_are_warned_about(change, name, caplog):
    value = types.SimpleNamespace(x=A.clone(), items=[{"a": B}])

    def model(value):
        change(value)
        return value.x + 1

    infer(model)(value)
    told = [r.message for r in caplog.records if "of its arguments, but it has a copy" in r.message]
    assert [text.split()[3] for text in told] == ([] if name is None else [name])
