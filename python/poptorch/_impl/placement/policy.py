"""How a model is placed: by which strategy, how often its micro-batches run, where blocks begin.

The options and the model's own blocks say all of it, unless another policy is in use.
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
    """A block begins where a module runs."""

    module: str  # its path
    block: str
    ipu: int


def _unchanged(executable: _native.Executable) -> _native.Executable:
    return executable


@dataclass(frozen=True)
class Placement:
    """Of one model.

    repeats: how often each micro-batch of a call runs. More than once, `adapted` gives something
    that takes each once.
    begins: modules by block, in the order of the blocks; besides those of the model's own blocks.
    adapted: what calls of the wrapper run, from what was compiled.
    """

    strategy: ExecutionStrategy
    repeats: int = 1
    begins: tuple[BlockStart, ...] = ()
    adapted: Callable[[_native.Executable], _native.Executable] = _unchanged

    def apply_to(self, options: Options, training: bool) -> None:
        """Brings the strategy and the repetitions into a wrapper's options."""
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
        """Begins the blocks for good: a BeginBlock on each module."""
        for start in self.begins:
            blocks.BeginBlock(model.get_submodule(start.module), start.block, ipu_id=start.ipu)

    @contextmanager
    def recording(self, model: Callable | torch.nn.Module) -> Iterator[None]:
        """While it lasts, blocks of a trace are recorded, and each block of `begins` begins at the
        first of its modules that runs, unless a later one has begun."""
        with blocks.recording(self.strategy, model):
            if not self.begins or not isinstance(model, torch.nn.Module):  # begins is of modules
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
        """options: the wrapper's own. A policy may change what goes with the placement there."""
        return Placement(strategy_in(options))


_in_use = PlacementPolicy()


def placement_of(model: Callable, options: Options, training: bool) -> Placement:
    """By the policy in use."""
    return _in_use.place(model, options, training)


@contextmanager
def using(policy: PlacementPolicy) -> Iterator[None]:
    """While it lasts, models that are wrapped are placed by `policy`."""
    global _in_use
    former, _in_use = _in_use, policy
    try:
        yield
    finally:
        _in_use = former
