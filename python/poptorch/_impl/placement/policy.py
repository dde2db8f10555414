"""Placement of a model: its strategy, the repetition of micro-batches, and the start of blocks.

The options and the model's blocks determine the placement, unless another policy is in use.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
from poptorch import _native
from poptorch._impl.placement import blocks
from poptorch._impl.placement.strategies import ExecutionStrategy, strategy_in
from poptorch.options import Options


class BlockStart(NamedTuple):
    """The start of a block at a module."""

    module: str  # its path
    block: str
    ipu: int


def _unchanged(executable: _native.Executable) -> _native.Executable:
    return executable


@dataclass(frozen=True)
class Placement:
    """The placement of one model.

    repeats: the number of runs of each micro-batch of a call. If it is more than one, the result of
    `adapted` takes each micro-batch once.
    begins: the modules at which blocks begin, in the order of the blocks. The model's blocks come
    in addition.
    adapted: returns the executable that calls of the wrapper run, from the compiled one.
    """

    strategy: ExecutionStrategy
    repeats: int = 1
    begins: tuple[BlockStart, ...] = ()
    adapted: Callable[[_native.Executable], _native.Executable] = _unchanged

    def apply_to(self, options: Options, training: bool) -> None:
        """Applies the strategy and the repetitions to a wrapper's options."""
        if self.strategy is not strategy_in(options):
            options.setExecutionStrategy(self.strategy)
        if self.repeats == 1:
            return
        if training:
            options.Training.gradient_accumulation *= self.repeats
        else:
            options.device_iterations *= self.repeats
        options.output_return_period *= self.repeats

    def annotate(self, model: torch.nn.Module) -> None:
        """Adds a BeginBlock to each module of `begins`."""
        for start in self.begins:
            blocks.BeginBlock(model.get_submodule(start.module), start.block, ipu_id=start.ipu)

    @contextmanager
    def recording(self, model: Callable | torch.nn.Module) -> Iterator[None]:
        """Records the blocks of a trace in the body.

        Each block of `begins` begins at the first of its modules that runs, unless a later block
        has begun.
        """
        with blocks.recording(self.strategy, model):
            if not self.begins or not isinstance(model, torch.nn.Module):  # functions have none
                yield
                return
            order = list(dict.fromkeys(start.block for start in self.begins))
            modules = dict(model.named_modules(remove_duplicate=False))
            starts = {id(modules[start.module]): start for start in self.begins}
            last = -1

            def begin(module: torch.nn.Module, _inputs) -> None:
                nonlocal last
                start = starts.get(id(module))
                if start is not None and order.index(start.block) > last:
                    last = order.index(start.block)
                    blocks.Block.start(start.block, ipu_id=start.ipu)

            handle = torch.nn.modules.module.register_module_forward_pre_hook(begin)
            try:
                yield
            finally:
                handle.remove()


class PlacementPolicy:
    """Chooses the placement of each model that is wrapped."""

    def place(self, model: Callable, options: Options, training: bool) -> Placement:
        """Returns the placement of a model. The policy may change the wrapper's `options`."""
        return Placement(strategy_in(options))


_in_use = PlacementPolicy()


def placement_of(model: Callable, options: Options, training: bool) -> Placement:
    """Returns the placement that the current policy chooses."""
    return _in_use.place(model, options, training)


@contextmanager
def using(policy: PlacementPolicy) -> Iterator[None]:
    """Makes `policy` place the models that are wrapped in the body."""
    global _in_use
    former, _in_use = _in_use, policy
    try:
        yield
    finally:
        _in_use = former
