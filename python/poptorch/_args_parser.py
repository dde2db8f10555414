"""Binds the arguments of a call to the parameters of a model's forward.

Programs import these classes by this path.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from poptorch._impl.wrapper.call_arguments import Arguments, Signature


class Args:
    """The arguments of a call. Arguments that the call leaves out have their defaults.

    Programs also know it as ParsedArgs.
    """

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


ParsedArgs = Args


class ArgsParser:
    """Binds calls of a model or a function.

    A subclass that does not call this constructor assigns `_varnames`, the names of the arguments,
    and optionally `_defaults`, a list of equal length. inspect.Parameter.empty stands for none.

    Args:
        model: A module, whose forward is called, or a function.
    """

    _signature: Signature
    _defaults: Sequence[Any]

    def __init__(self, model: torch.nn.Module | Callable[..., Any]) -> None:
        self._signature = Signature(model.forward if isinstance(model, torch.nn.Module) else model)

    @property
    def _varnames(self) -> list[str]:
        """The names of forward's parameters. Assigning them renames the parameters in order."""
        return [parameter.name for parameter in self._signature.parameters]

    @_varnames.setter
    def _varnames(self, names: Sequence[str]) -> None:
        former = self._signature.parameters if "_signature" in vars(self) else []
        defaults = [parameter.default for parameter in former]
        self._signature = Signature.of_names(names, defaults)

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
        signature = self._signature
        if "_defaults" in vars(self):
            signature = Signature.of_names(self._varnames, self._defaults)
        return Args(signature.bind(tuple(args), dict(kwargs)))
