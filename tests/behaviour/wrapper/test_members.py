"""The members of a model that a compilation lists are those of torch, in the same order."""

import collections

import pytest
import torch
from poptorch._impl.weights import members
from poptorch_core import _torch


class Shared(torch.nn.Module):
    """Has a module and a parameter twice, a buffer, and absent members."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
        self.second = self.first
        self.tied = torch.nn.Linear(2, 3, bias=False)
        self.tied.weight = self.first[0].weight
        self.absent = None
        self.register_module("nothing", None)
        self.register_parameter("empty", None)
        self.register_buffer("scale", torch.ones(2))
        self.register_buffer("again", self.scale)


class Renaming(torch.nn.Linear):
    """Lists its parameters under other names."""

    def named_parameters(self, *arguments, **keywords):
        for name, tensor in super().named_parameters(*arguments, **keywords):
            yield "renamed." + name, tensor


class Empty(torch.nn.Module):
    """Has members whose paths are like those of others, or are empty."""

    def __init__(self):
        super().__init__()
        self._modules[""] = torch.nn.Linear(1, 1)
        self._modules["a.b"] = torch.nn.Linear(1, 1)


MODELS = {
    "empty": Empty,
    "shared": Shared,
    "nested": lambda: torch.nn.Sequential(Shared(), torch.nn.ModuleList([Shared(), Shared()])),
    "overridden": lambda: Renaming(2, 2),
    "script": lambda: torch.nn.Sequential(torch.jit.script(torch.nn.Linear(2, 2))),
    "leaf": lambda: torch.nn.Linear(2, 2),
}


def same(ours, theirs):
    ours, theirs = list(ours), list(theirs)
    assert [name for name, _ in ours] == [name for name, _ in theirs]
    assert all(a is b for (_, a), (_, b) in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("name", MODELS)
def test_members_are_those_of_torch(name):
    model = MODELS[name]()
    for kind in ("modules", "parameters", "buffers"):
        for once in (True, False):
            listed = getattr(members, f"named_{kind}")(model, remove_duplicate=once)
            same(listed, getattr(model, f"named_{kind}")(remove_duplicate=once))


def test_members_are_listed_once_in_a_body():
    model = Shared()
    with members.listed_once():
        before = list(members.named_parameters(model))
        model.register_parameter("late", torch.nn.Parameter(torch.ones(1)))
        same(members.named_parameters(model), before)
    same(members.named_parameters(model), model.named_parameters())


def test_members_are_listed_again_around_code_of_the_user():
    model, names = Shared(), ["early", "later"]

    def add():
        model.register_parameter(names.pop(), torch.nn.Parameter(torch.ones(1)))
        same(members.named_parameters(model), model.named_parameters())

    with members.kept(), members.listed_once():
        members.named_parameters(model)
        with members.listed_again():
            add()
            add()
        same(members.named_parameters(model), model.named_parameters())
        same(members.named_buffers(model), model.named_buffers())
        model.register_buffer("late", torch.ones(1))
        assert len(list(members.named_buffers(model))) < len(list(model.named_buffers()))


@pytest.mark.parametrize("name", ["shared", "script"])
def test_changed_tensors_are_those_of_the_earlier_time(name):
    model = torch.nn.Sequential(MODELS[name](), torch.nn.BatchNorm1d(3))
    norm = model[1]
    with members.kept():
        changed = members.changed_tensors(model)
        assert changed() == []
        before = dict(norm._buffers), dict(norm._parameters)
        norm.running_mean = torch.ones(3)
        del norm.running_var
        norm.weight = None
        members.named_modules(model)  # lists the members again
        found = changed()
    assert [(each.module, each.kind) for each in found] == [
        (norm, "_buffers"), (norm, "_parameters")
    ]  # fmt: skip
    for each, held in zip(found, before, strict=True):
        assert list(each.before) == list(held)
        assert all(each.before[key] is held[key] for key in held)


def test_an_added_buffer_and_another_dictionary_are_changes():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    changed = members.changed_tensors(model)
    model[0].register_buffer("late", torch.ones(1))
    model[1]._parameters = {}
    assert [(each.module, each.kind) for each in changed()] == [
        (model[0], "_buffers"), (model[1], "_parameters")
    ]  # fmt: skip


def _new_parameter(model):
    model.tied.weight = torch.nn.Parameter(torch.ones(3, 2))


def _other_class(model):
    model.tied.__class__ = Renaming


CHANGES = {
    "parameter": _new_parameter,
    "added parameter": lambda model: model.register_parameter("late", model.tied.weight),
    "removed parameter": lambda model: model.first[0].register_parameter("bias", None),
    "buffer": lambda model: setattr(model, "scale", torch.zeros(2)),
    "removed buffer": lambda model: delattr(model, "again"),
    "module": lambda model: setattr(model, "second", torch.nn.Linear(2, 2)),
    "added module": lambda model: model.first.append(torch.nn.Linear(3, 3)),
    "removed module": lambda model: delattr(model, "tied"),
    "other order": lambda model: model._modules.move_to_end("first"),
    "other name": lambda model: model._modules.update(renamed=model._modules.pop("tied")),
    "other dictionary": lambda model: setattr(model, "_buffers", {"new": torch.ones(1)}),
    "other class": _other_class,
    "other plain class": lambda model: setattr(model.tied, "__class__", torch.nn.Bilinear),
}


@pytest.mark.parametrize("change", CHANGES)
def test_kept_lists_follow_the_model(change):
    model = torch.nn.Sequential(Shared())
    if change == "other order":
        model[0]._modules = collections.OrderedDict(model[0]._modules)
    with members.kept():
        for step in range(2):
            for kind in ("modules", "parameters", "buffers"):
                for once in (True, False):
                    listed = getattr(members, f"named_{kind}")(model, remove_duplicate=once)
                    same(listed, getattr(model, f"named_{kind}")(remove_duplicate=once))
            if step == 0:
                CHANGES[change](model[0])


def test_lists_are_kept_until_the_end_of_the_body():
    model = Shared()
    with members.kept():
        before = members.named_parameters(model)
        with members.kept():
            assert members.named_parameters(model) is before
        assert members.named_parameters(model) is before
    assert members.named_parameters(model) is not before


def test_unknown_kinds_of_members_are_refused():
    with pytest.raises(ValueError, match="not '_hooks'"):
        _torch.MemberLists(Shared(), lambda kind: True).listed("_hooks")
