"""load_state_dict(assign=True) of a wrapper: the model uses the memory of the given tensors.

Torch puts other objects into the model. Here the objects stay where the memory of the given tensor
can be theirs, because the optimiser, other wrappers and compiled programs refer to them.
"""

from collections.abc import Mapping
from typing import Any

import torch
from poptorch._impl.wrapper import model_classes
from poptorch_core import Error


def load(
    model: torch.nn.Module, state_dict: Mapping[str, Any], strict: bool, *, compiled: bool
) -> Any:
    """Makes the model use the tensors of a state dict; returns torch's key report.

    compiled: a program refers to the model's tensors, so that their dtypes must stay.
    """
    loaded = _separate_members(model)
    report = loaded.load_state_dict(state_dict, strict, assign=True)
    pairs = list(zip(model.modules(), loaded.modules(), strict=True))
    if compiled:
        _check(model, loaded)
    for module, made in pairs:
        for members in ("_parameters", "_buffers"):
            own = vars(module)[members]
            for name, tensor in vars(made)[members].items():
                if tensor is not own.get(name):
                    _take(own, name, tensor)
        for name, value in vars(made).items():  # set_extra_state() may have set attributes
            if name not in _MEMBERS:
                vars(module)[name] = value
    return report


_MEMBERS = ("_parameters", "_buffers", "_modules")


def _separate_members(model: torch.nn.Module) -> torch.nn.Module:
    """Returns a copy whose parameters and buffers can be exchanged."""
    made = model_classes.shallow_copy(model)
    for module in made.modules():
        for name in ("_parameters", "_buffers"):
            vars(module)[name] = dict(vars(module)[name])
    return made


def _check(model: torch.nn.Module, loaded: torch.nn.Module) -> None:
    """Raises poptorch.Error for dtypes or devices other than those of the compiled tensors."""
    given = dict([*loaded.named_parameters(), *loaded.named_buffers()])
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if not _can_share(tensor, given[name]) or tensor.dtype != given[name].dtype:
            kinds = [f"{t.dtype} on {t.device}" for t in (tensor, given[name])]
            raise Error(
                f"[weights] load_state_dict(assign=True) would make {name} a tensor of {kinds[1]}, "
                f"but the model is compiled for {kinds[0]}. Call destroy() first, or leave assign "
                "out to convert the values."
            )


def _can_share(own: torch.Tensor, given: torch.Tensor) -> bool:
    return own.device == given.device and own.layout == given.layout


def _take(members: dict[str, Any], name: str, given: torch.Tensor) -> None:
    own = members.get(name)
    if own is not None and _can_share(own, given):
        own.data = given.detach()
    else:
        members[name] = given
