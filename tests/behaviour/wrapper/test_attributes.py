"""The native loops over attributes of modules."""

import collections
import weakref

import torch
from poptorch._impl.trace import closures, reachable
from poptorch_core import _torch


class Holding(torch.nn.Module):
    """Has attributes of all kinds."""

    def __init__(self):
        super().__init__()
        self.size = 2
        self.text = ""
        self.tensor = torch.ones(2)
        self.full, self.empty = [torch.ones(1)], []
        self.no_items = collections.OrderedDict()
        self.function = torch.sin
        self.layer = torch.nn.Linear(1, 1)


class Items(list):
    """A list with attributes, which is not empty even without elements."""


def test_held_values_leave_out_scalars_and_empty_containers():
    module = Holding()
    module.items = Items()
    names, types = frozenset(("_modules", "_parameters")), frozenset((int, str, bool, type(None)))
    found = _torch.held_values([module], names, types)
    assert [id(value) for value in found] == [
        id(value) for value in (module.tensor, module.full, module.function, module.items)
    ]


def test_attributes_beside_names():
    module = Holding()
    found = _torch.attributes_beside(module, frozenset(vars(torch.nn.Module())))
    assert list(found) == ["size", "text", "tensor", "full", "empty", "no_items", "function"]
    assert all(value is getattr(module, name) for name, value in found.items())


def test_attributes_of_all_objects_are_divided_by_type():
    full, plain = Holding(), torch.nn.Identity()
    names, types = frozenset(vars(torch.nn.Module())), frozenset((int, str))
    (attributes, others), (none, nothing) = _torch.attributes_of_all([full, plain], names, types)
    assert attributes == _torch.attributes_beside(full, names)
    assert list(others) == ["tensor", "full", "empty", "no_items", "function"]
    assert (none, nothing) == ({}, None)


def test_objects_with_other_attributes_are_found():
    objects, names = [Holding() for _ in range(4)], frozenset(vars(torch.nn.Module()))
    attributes = [_torch.attributes_beside(each, names) for each in objects]
    assert _torch.with_other_attributes(objects, names, attributes) == set()
    objects[1].size = 3
    objects[2].added = 1
    del objects[3].text
    objects[0].training = False  # one of the names
    assert _torch.with_other_attributes(objects, names, attributes) == {1, 2, 3}


def test_tensors_that_a_device_takes_are_plain():
    plain, sparse = torch.ones(2), torch.ones(2).to_sparse()
    assert _torch.are_plain([plain, torch.nn.Parameter(plain)]) and _torch.are_plain([])
    assert not _torch.are_plain([plain, sparse])
    assert not _torch.are_plain([plain.to("meta")])


def test_dictionaries_hold_the_same_objects():
    one, other = torch.ones(1), torch.ones(1)
    assert _torch.holds_same_objects({"a": one, "b": other}, {"b": other, "a": one})
    assert not _torch.holds_same_objects({"a": one}, {"a": other})
    assert not _torch.holds_same_objects({"a": one}, {"b": one})
    assert not _torch.holds_same_objects({"a": one}, {"a": one, "b": other})
    assert not _torch.holds_same_objects({"a": one, "b": other}, {"a": one})


def test_constants_are_the_tensors_among_attributes():
    module = torch.nn.Sequential(Holding())
    module[0].elsewhere = [torch.nn.Linear(2, 2)]
    found = closures.constants_beside(module)
    expected = [module[0].tensor, *module[0].elsewhere[0].parameters()]
    assert [id(tensor) for tensor in found] == [id(tensor) for tensor in expected]


def test_changes_are_new_objects_and_written_tensors():
    module = Holding()
    before = reachable.Snapshot(module)
    assert before.changes() == []
    module.tensor.add_(1)
    module.size = 3
    module.full.append(1)
    del module.function
    assert {change.name for change in before.changes()} == {
        "self.tensor", "self.size", "self.full[1]", "self.function"
    }  # fmt: skip


def test_weak_proxies_of_modules_have_the_attributes_of_the_module():
    module = Holding()
    found = reachable.Holder(weakref.proxy(module), "self").values()
    assert found["size"] == 2
    assert "_modules" not in found
