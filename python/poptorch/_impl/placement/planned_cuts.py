"""Estimates of a model whose pipeline is cut at given modules, whatever blocks it has."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from poptorch import _native
from poptorch._impl.inspection import estimate as estimating
from poptorch._impl.placement import policy
from poptorch._impl.placement.strategies import PipelinedExecution
from poptorch.options import Options


def block_starts(cuts: Sequence[str]) -> tuple[policy.BlockStart, ...]:
    """Returns the starts of the blocks after the first."""
    return tuple(policy.BlockStart(path, str(i), i) for i, path in enumerate(cuts, 1))


@dataclass(frozen=True)
class PlannedCuts(policy.Placement):
    """A pipeline that is cut where `begins` says. Blocks of the model itself are ignored."""

    @contextmanager
    def recording(self, model: Callable | torch.nn.Module) -> Iterator[None]:
        """Begins a block at each module of `begins` in the body."""
        assert isinstance(model, torch.nn.Module)  # planner.plan refuses functions
        modules = dict(model.named_modules(remove_duplicate=False))
        starts = {id(modules[start.module]): start for start in self.begins}

        def begin(module: torch.nn.Module, _inputs) -> None:
            start = starts.pop(id(module), None)
            if start is not None:
                _native.set_block(start.ipu, start.ipu, -1, start.block, False)

        handle = torch.nn.modules.module.register_module_forward_pre_hook(begin)
        try:
            yield
        finally:
            handle.remove()


class _FixedPolicy(policy.PlacementPolicy):
    def __init__(self, placement: policy.Placement) -> None:
        self._placement = placement

    def place(self, model: Callable, options: Options, training: bool) -> policy.Placement:
        return self._placement


def estimate(
    model: torch.nn.Module,
    inputs,
    options: Options,
    cuts: Sequence[str],
    *,
    training: bool,
    optimizer: torch.optim.Optimizer | None,
) -> estimating.Estimate:
    """Returns the estimate of the model with a stage that begins at each of `cuts`.

    Args:
        model: The model.
        inputs: The arguments of one micro-batch: a tuple or list, or one tensor.
        options: The options. Their strategy and the model's blocks are ignored.
        cuts: Paths of the modules at which stages after the first begin.
        training: Whether to estimate training.
        optimizer: The optimiser of training.
    """
    placement = PlannedCuts(PipelinedExecution(), begins=block_starts(cuts))
    with policy.using(_FixedPolicy(placement)):
        return estimating.estimate(model, inputs, options, training=training, optimizer=optimizer)
