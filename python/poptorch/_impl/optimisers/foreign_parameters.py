"""Parameters that an optimiser holds and the model does not: their names, and messages about them.

Eager torch trains such a parameter if forward uses it, for example by layers in a Python list. A
program has only a constant for it, so this is refused. Otherwise, as after the replacement of a
head, torch ignores the parameter; a program does, too, with a warning.
"""

import contextlib
import weakref
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from poptorch._impl.inspection.source_lines import user_location
from poptorch._impl.weights import members
from poptorch._logging import logger_of
from poptorch_core import Error, errors

logger = logger_of(__name__)

_warned_about: weakref.WeakSet = weakref.WeakSet()
_SHOWN = 6  # names in a message
_REGISTERED = frozenset(("_parameters", "_buffers", "_modules"))


class Foreign(NamedTuple):
    """A parameter that the model does not have, with its name and place for messages."""

    parameter: torch.Tensor
    text: str


def foreign_parameters(optimiser: torch.optim.Optimizer, model: torch.nn.Module) -> list[Foreign]:
    """Returns the parameters that the optimiser holds and the model does not."""
    own = {id(parameter) for _, parameter in members.named_parameters(model)}
    paths: dict[int, str] | None = None
    found: list[Foreign] = []
    if all(own.issuperset(map(id, group["params"])) for group in optimiser.param_groups):
        return found
    with torch._C.DisableTorchFunctionSubclass():  # does not fetch weights of a wrapped model
        for index, group in enumerate(optimiser.param_groups):
            given = group.get("param_names")  # torch has them if it got named_parameters()
            for position, parameter in enumerate(group["params"]):
                if id(parameter) not in own:
                    paths = _paths(model) if paths is None else paths
                    name = paths.get(id(parameter)) or (given[position] if given else "")
                    place = f"group {index}, number {position}, shape {list(parameter.shape)}"
                    found.append(Foreign(parameter, f"{name or 'a parameter'} ({place})"))
    return found


def check(optimiser: torch.optim.Optimizer, model: torch.nn.Module) -> None:
    """Raises poptorch.Error if no parameter of the optimiser belongs to the model."""
    held = [id(p) for group in optimiser.param_groups for p in group["params"]]
    with torch._C.DisableTorchFunctionSubclass():
        own = {id(p): p.requires_grad for _, p in members.named_parameters(model)}
    if any(own.values()) and not any(key in own for key in held):
        foreign = foreign_parameters(optimiser, model)
        raise Error(
            f"[optimiser] none of the {len(held)} parameters of the {type(optimiser).__name__} "
            f"belongs to the model, which has {len(own)}. The optimizer holds {_texts(foreign)}; "
            f"the model has {_left_out(optimiser, model)}. Create the optimizer from parameters() "
            "of the wrapped model."
        )


def warn(optimiser: torch.optim.Optimizer, model: torch.nn.Module) -> None:
    """Warns once about parameters that the model does not have."""
    if optimiser in _warned_about:
        return
    foreign = foreign_parameters(optimiser, model)
    if not foreign:
        return
    _warned_about.add(optimiser)
    left_out = _left_out(optimiser, model)
    missing = f", and does not hold {left_out} of the model" if left_out else ""
    logger.warning(
        f"[optimiser] the {type(optimiser).__name__} holds {_texts(foreign)}, which the model "
        f"does not have: no step changes {'it' if len(foreign) == 1 else 'them'}{missing}. Create "
        "the optimizer after the last change of the model's layers"
    )


class _Watched:
    """Mixed into the class of a foreign parameter during a trace: a use with gradients raises."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        uses = function not in _WITHOUT_GRADIENT and function.__name__ != "__get__"
        if uses and torch.is_grad_enabled():
            for text in _texts_among([*args, *kwargs.values()]):
                raise errors.while_tracing(
                    f"[optimiser] forward uses {text}, which the optimizer holds, but which is "
                    f"not a parameter of the model ({user_location()}): the device would not train "
                    "it. Register layers of a list or dict by torch.nn.ModuleList or ModuleDict, "
                    "parameters by torch.nn.ParameterList, and other layers as attributes."
                )
        plain = [kind.__bases__[1] if issubclass(kind, _Watched) else kind for kind in types]
        return super().__torch_function__(function, plain, args, kwargs)  # type: ignore[misc]


_WITHOUT_GRADIENT = {torch.Tensor.detach, torch.detach, torch.Tensor.requires_grad_}


def _texts_among(arguments: Iterable[Any]) -> Iterator[str]:
    for argument in arguments:
        if isinstance(argument, (list, tuple)):
            yield from _texts_among(argument)
        elif isinstance(argument, _Watched):
            yield type(argument).__dict__["poptorch_text"]


@contextlib.contextmanager
def refused_in_forward(
    optimiser: torch.optim.Optimizer | None, model: torch.nn.Module | None
) -> Iterator[None]:
    """Encloses a trace in which forward must not use parameters that the model does not have."""
    if optimiser is None or model is None:
        yield
        return
    with contextlib.ExitStack() as stack:
        for parameter, text in foreign_parameters(optimiser, model):
            kind = type(parameter)
            if parameter.requires_grad:
                stack.callback(setattr, parameter, "__class__", kind)
                fields = {"poptorch_text": text}
                parameter.__class__ = type(kind.__name__, (_Watched, kind), fields)
        yield


def _texts(foreign: list[Foreign]) -> str:
    return errors.listed([text for _, text in foreign], _SHOWN)


def _left_out(optimiser: torch.optim.Optimizer, model: torch.nn.Module) -> str:
    """Returns the names of the model's trainable parameters that the optimiser does not hold."""
    held = {id(p) for group in optimiser.param_groups for p in group["params"]}
    with torch._C.DisableTorchFunctionSubclass():
        names = [n for n, p in model.named_parameters() if p.requires_grad and id(p) not in held]
    return errors.listed(names, _SHOWN)


def _paths(model: torch.nn.Module) -> dict[int, str]:
    """Returns the paths of parameters in attributes that torch does not register, by id."""
    found: dict[int, str] = {}
    seen: set[int] = set()
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if name not in _REGISTERED:
                _walk(value, f"{path}.{name}" if path else name, found, seen)
    return found


def _walk(value: Any, path: str, found: dict[int, str], seen: set[int]) -> None:
    if isinstance(value, torch.Tensor):
        found.setdefault(id(value), path)
    elif id(value) not in seen and isinstance(value, (torch.nn.Module, list, tuple, dict)):
        seen.add(id(value))
        if isinstance(value, torch.nn.Module):
            for name, parameter in value.named_parameters():
                found.setdefault(id(parameter), f"{path}.{name}")
            return
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            _walk(item, f"{path}[{key!r}]", found, seen)
