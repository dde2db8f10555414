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
