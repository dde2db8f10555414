"""By this path programs bind the arguments of a call to the parameters of a model's forward."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from poptorch._impl.wrapper.call_arguments import Arguments, Signature


class Args:
    """A call's arguments, those that it leaves out with their defaults."""

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments

    def asTuple(self) -> tuple:
        """The values in the order of forward's parameters."""
        positional, keyword = self._arguments.rebuild(iter(self._arguments.tensors))
        return (*positional, *keyword.values())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.asTuple())

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors of all values, also of nested ones, in order."""
        return self._arguments.tensors


class ArgsParser:
    """Binds calls of a model, or of a function."""

    def __init__(self, model: torch.nn.Module | Callable[..., Any]) -> None:
        self._signature = Signature(model.forward if isinstance(model, torch.nn.Module) else model)

    @property
    def _varnames(self) -> list[str]:
        """The names of forward's parameters."""
        signature = self._signature
        return [p.name for p in (*signature.positional, *signature.keyword_only)]

    def __call__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Args:
        """Raises AssertionError for too many or unknown arguments, poptorch.Error for missing."""
        return Args(self._signature.bind(tuple(args), dict(kwargs)))
