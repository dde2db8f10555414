"""Binds the arguments of a call to the parameters of a model's forward.

Programs import these classes by this path.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from poptorch._impl.wrapper.call_arguments import Arguments, Signature


class Args:
    """The arguments of a call. Arguments that the call leaves out have their defaults."""

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments

    def asTuple(self) -> tuple:
        """Returns the values in the order of forward's parameters."""
        positional, keyword = self._arguments.rebuild(iter(self._arguments.tensors))
        return (*positional, *keyword.values())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.asTuple())

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors of all values, also of nested ones, in order."""
        return self._arguments.tensors


class ArgsParser:
    """Binds calls of a model or a function.

    Args:
        model: A module, whose forward is called, or a function.
    """

    def __init__(self, model: torch.nn.Module | Callable[..., Any]) -> None:
        self._signature = Signature(model.forward if isinstance(model, torch.nn.Module) else model)

    @property
    def _varnames(self) -> list[str]:
        """The names of forward's parameters."""
        signature = self._signature
        return [p.name for p in (*signature.positional, *signature.keyword_only)]

    def __call__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Args:
        """Binds the arguments of a call.

        Args:
            args: The positional arguments.
            kwargs: The keyword arguments.

        Returns:
            The arguments in the order of the parameters.

        Raises:
            AssertionError: There are too many arguments, or unknown ones.
            poptorch.Error: An argument is missing.
        """
        return Args(self._signature.bind(tuple(args), dict(kwargs)))
