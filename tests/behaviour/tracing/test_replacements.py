"""Tests that a trace replaces functions of torch, and leaves them afterwards as they were."""

import contextlib

import poptorch
import pytest
import torch
from poptorch._impl.trace import session
from poptorch._impl.trace.patches.replaced import is_class_method, replace
from torch import nn

ABSENT = object()
# Every attribute that a trace replaces, once.
PLACES = list(
    {
        (id(holder), name): (holder, name)
        for holder, name, _ in (*session._replacements_in_modes(str), *session._replacements(True))
    }.values()
)


def held() -> list:
    """Returns what each module or class itself holds, without what a class inherits."""
    return [vars(holder).get(name, ABSENT) for holder, name in PLACES]


class Model(nn.Module):
    """Notes what torch holds while it is traced; fails if it is asked to."""

    def __init__(self, fails: bool) -> None:
        super().__init__()
        self.fails = fails

    def forward(self, x):
        seen.append(held())
        if self.fails:
            raise RuntimeError("no such layer")
        return x + 1


seen: list[list] = []


@pytest.mark.parametrize("fails", [False, True], ids=["returns", "raises"])
def test_a_trace_leaves_torch_as_it_was(fails):
    seen.clear()
    before = held()
    wrapped = poptorch.inferenceModel(Model(fails))
    if fails:
        with pytest.raises(RuntimeError, match="no such layer"):
            wrapped.compile(torch.ones(2))
    else:
        wrapped.compile(torch.ones(2))
    assert all(now is former for now, former in zip(held(), before, strict=True))
    unchanged = [
        f"{holder.__name__}.{name}"
        for (holder, name), now, former in zip(PLACES, seen[0], before, strict=True)
        if now is former
    ]
    assert not unchanged


class Inner(nn.Module):
    """Notes how torch calls modules while it is traced; fails if it is asked to."""

    def forward(self, x, fails=False):
        calls.append(nn.Module._call_impl)
        if fails:
            raise ValueError("inside")
        return x * 2


class Outer(nn.Module):
    """Calls two modules. If it is asked to, it calls one of them again, which fails."""

    def __init__(self, fails: bool = False) -> None:
        super().__init__()
        self.inner, self.added, self.fails = Inner(), nn.Linear(2, 2), fails

    def forward(self, x):
        x = self.inner(x)
        with contextlib.suppress(ValueError):
            if self.fails:
                self.inner(x, fails=True)
        return self.added(x) - 1


calls: list = []


def text_of(model: nn.Module) -> str:
    return session.trace(lambda tensors: [model(*tensors)], model, [torch.ones(2, 2)])


def test_modules_are_called_by_another_method_during_a_trace():
    calls.clear()
    plain = nn.Module._call_impl
    poptorch.inferenceModel(Outer()).compile(torch.ones(2, 2))
    assert nn.Module._call_impl is plain
    assert len(calls) == 1 and plain not in calls


def test_a_module_that_fails_is_left():
    text = text_of(Outer(fails=True))
    assert 'scope("inner")' in text
    assert next(line for line in text.splitlines() if " = sub(" in line).endswith("f32[2,2]")


@pytest.mark.parametrize("where", ["module", "everywhere", "backward"])
def test_modules_with_hooks_have_the_same_paths(where):
    model, seen = Outer(), []
    expected = text_of(model)
    assert 'scope("inner")' in expected and 'scope("added")' in expected

    def hook(module, *_):
        seen.append(type(module))

    if where == "module":
        handles = [model.inner.register_forward_pre_hook(hook)]
        handles.append(model.inner.register_forward_hook(hook))
    elif where == "backward":
        handles = [model.inner.register_full_backward_hook(hook)]
    else:
        everywhere = nn.modules.module
        handles = [everywhere.register_module_forward_pre_hook(hook)]
        handles.append(everywhere.register_module_forward_hook(hook))
    try:
        assert text_of(model) == expected
    finally:
        for handle in handles:
            handle.remove()
    all_kinds = {Inner: 2, Outer: 2, nn.Linear: 2}
    counts: dict = {"module": {Inner: 2}, "everywhere": all_kinds, "backward": {}}
    assert {kind: seen.count(kind) for kind in seen} == counts[where]


class Base:
    value = 1

    @classmethod
    def kind(cls) -> str:
        return cls.__name__


class Derived(Base):
    pass


def test_replaced_attributes_of_a_class_are_inherited_again():
    replacements = [(Derived, "value", 2), (Base, "value", 3), (Derived, "value", 4)]
    with contextlib.ExitStack() as stack:
        replace(stack, replacements)
        assert (Base.value, Derived.value) == (3, 4)
    assert (Base.value, Derived.value) == (1, 1)
    assert "value" not in vars(Derived)


def test_class_methods_remain_so():
    assert is_class_method(Derived, "kind") and not is_class_method(Derived, "value")
    with contextlib.ExitStack() as stack:
        replace(stack, [(Base, "kind", classmethod(lambda cls: "other"))])
        assert Derived.kind() == "other"
    assert Derived.kind() == "Derived"


def test_a_name_that_does_not_exist_undoes_those_before_it():
    with pytest.raises(AttributeError, match="missing"), contextlib.ExitStack() as stack:
        replace(stack, [(Base, "value", 2), (Base, "missing", 3)])
    assert Base.value == 1 and not hasattr(Base, "missing")
