"""Hooks of a module's backward pass in a trace: they become parts of the backward graph.

A hook needs the gradients of the module's outputs at the place of its inputs. So a function before
the module returns, besides its inputs, a zero for each output. The zero's gradient is made equal to
the output's.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from poptorch_core import _torch

Gradients = tuple[torch.Tensor | None, ...]


class BackwardHooks:
    """Replaces torch.utils.hooks.BackwardHook in a trace for training."""

    def __init__(self, module: torch.nn.Module, hooks: Sequence, pre_hooks: Sequence) -> None:
        self._module, self._hooks, self._pre_hooks = module, list(hooks), list(pre_hooks)
        self._inputs: dict[int, torch.Tensor] = {}  # inputs with gradients, by index
        self._arguments: tuple = ()

    def setup_input_hook(self, arguments: tuple) -> tuple:
        """Returns the arguments for the module's forward."""
        self._arguments = arguments
        if self._hooks:
            self._inputs = {i: x.clone() for i, x in _followed(arguments).items()}
        return _replaced(arguments, self._inputs)

    def setup_output_hook(self, result: Any) -> Any:
        """Returns the module's result from that of its forward."""
        results = result if isinstance(result, tuple) else (result,)
        if self._inputs:
            results = _replaced(results, self._through_hooks(results))
        if self._pre_hooks or (self._hooks and not self._inputs):
            results = _replaced(results, self._through_output_hooks(results))
        return results if isinstance(result, tuple) else results[0]

    def _through_hooks(self, results: tuple) -> dict[int, torch.Tensor]:
        followed = _followed(results)
        inputs = list(self._inputs.values())

        def gradients_of(inside: list[torch.Tensor]) -> list[torch.Tensor | None]:
            zeros = [_zeros(y) for y in followed.values()]
            gradients = _torch.begin_backward([*inside, *zeros])
            of_inputs = _packed(self._arguments, self._inputs, gradients[: len(inside)])
            of_outputs = _packed(results, followed, gradients[len(inside) :])
            of_inputs = self._changed(of_inputs, of_outputs)
            return [of_inputs[i] for i in self._inputs]

        made = self._recorded("backward_hook", inputs, gradients_of)
        _torch.use_results(inputs, made[: len(inputs)])
        zeros = made[len(inputs) :]
        return {
            i: self._tied(y, zero) for (i, y), zero in zip(followed.items(), zeros, strict=True)
        }

    def _tied(self, output: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
        """Returns the output; its gradient goes to the zero, too."""

        def gradients_of(inside: list[torch.Tensor]) -> list[torch.Tensor | None]:
            return _torch.begin_backward(inside[:1]) * 2

        return self._recorded("output", [output, zero], gradients_of)[0]

    def _changed(self, of_inputs: Gradients, of_outputs: Gradients) -> Gradients:
        for hook in self._hooks:
            changed = hook(self._module, of_inputs, of_outputs)
            of_inputs = _checked(changed, of_inputs, "Backward hook", "grad_input")
        return of_inputs

    def _through_output_hooks(self, results: tuple) -> dict[int, torch.Tensor]:
        followed = _followed(results)
        if not followed:
            return {}

        def gradients_of(inside: list[torch.Tensor]) -> list[torch.Tensor | None]:
            gradients = _packed(results, followed, _torch.begin_backward(inside))
            for hook in self._pre_hooks:
                changed = hook(self._module, gradients)
                gradients = _checked(changed, gradients, "Backward pre hook", "grad_output")
            if not self._inputs:
                self._told_without_inputs(gradients)
            return [gradients[i] for i in followed]

        made = self._recorded("backward_pre_hook", list(followed.values()), gradients_of)
        return dict(zip(followed, made, strict=True))

    def _recorded(
        self,
        name: str,
        arguments: list[torch.Tensor],
        gradients_of: Callable[[list[torch.Tensor]], list[torch.Tensor | None]],
    ) -> list[torch.Tensor]:
        """Returns the results of an identity function whose backward `gradients_of` traces."""
        inside = _torch.begin_function(f"{type(self._module).__name__}_{name}", arguments)
        try:
            with torch.no_grad():
                gradients = gradients_of(inside)
            return _torch.end_function(gradients)
        except BaseException:  # the model may catch it
            _torch.abandon_function()
            raise

    def _told_without_inputs(self, of_outputs: Gradients) -> None:
        for hook in self._hooks:
            changed = hook(self._module, (None,) * len(self._arguments), of_outputs)
            if changed is not None and any(gradient is not None for gradient in changed):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always "
                    "return None or None for all gradients."
                )


def _checked(changed: Any, before: Gradients, whose: str, what: str) -> Gradients:
    """Returns the gradients after a hook, which returns new ones or None."""
    if changed is None:
        return before
    changed = changed if isinstance(changed, tuple) else (changed,)
    if len(changed) != len(before):
        raise RuntimeError(
            f"{whose} returned an invalid number of {what}, got {len(changed)}, but expected "
            f"{len(before)}"
        )
    return changed


def _followed(values: Sequence) -> dict[int, torch.Tensor]:
    """Returns the tensors that get gradients, by index."""
    if not torch.is_grad_enabled() or _torch.in_function():
        return {}
    return {i: x for i, x in enumerate(values) if isinstance(x, torch.Tensor) and x.requires_grad}


def _packed(
    values: Sequence, followed: Iterable[int], gradients: Sequence[torch.Tensor | None]
) -> Gradients:
    """Returns a gradient for each value; zeros for tensors without one, as in eager torch."""
    by_place = dict(zip(followed, gradients, strict=True))
    return tuple(
        by_place[i] if i in by_place else _zeros(x) if isinstance(x, torch.Tensor) else None
        for i, x in enumerate(values)
    )


def _zeros(like: torch.Tensor) -> torch.Tensor:
    return torch.zeros(like.shape, dtype=like.dtype, device=like.device)


def _replaced(values: tuple, new: dict[int, torch.Tensor]) -> tuple:
    changed = [new.get(i, value) for i, value in enumerate(values)]
    return tuple(changed) if type(values) is tuple else type(values)(*changed)
