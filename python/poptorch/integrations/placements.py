"""Places models on several IPUs without changes to the program, to test that results are the same.

A model without annotations and with the default strategy gets the strategy of a placement. The
layers that hold its parameters are divided into the placement's parts. If the options have too few
micro-batches to fill the pipeline, each micro-batch runs several times: the mean of equal gradients
is the gradient. If the placement has replicas and the options do not, all replicas read the same
inputs, and their results are compared. Callers see none of it.
"""

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import poptorch
import torch
from poptorch._impl.placement import policy
from poptorch._impl.placement.strategies import strategy_in

# The placements by name. A strategy is the name of a class of poptorch; `phases` is for phased
# strategies.
PLACEMENTS: dict[str, dict[str, Any]] = {
    "pipelined": {"strategy": "PipelinedExecution", "ipus": 2, "replicas": 1},
    "sharded": {"strategy": "ShardedExecution", "ipus": 2, "replicas": 1},
    "serial_phased": {"strategy": "SerialPhasedExecution", "ipus": 1, "phases": 3, "replicas": 1},
    "parallel_phased": {
        "strategy": "ParallelPhasedExecution", "ipus": 2, "phases": 3, "replicas": 1
    },
    "replicated": {"strategy": "PipelinedExecution", "ipus": 1, "replicas": 2},
    "pipelined_replicated": {"strategy": "PipelinedExecution", "ipus": 2, "replicas": 2},
}  # fmt: skip
# Ops that draw random numbers, in the text of a program.
_DRAW = re.compile(r" = (random_\w+|bernoulli|dropout|stochastic_cast)\(")


@contextlib.contextmanager
def using(placement: Mapping[str, Any], changes: list[str] | None = None) -> Iterator[None]:
    """Places models that are wrapped inside the block.

    Args:
        placement: A value of PLACEMENTS, or a dict with the same names.
        changes: A list that gets a line for each model.
    """
    with policy.using(_Policy(placement, [] if changes is None else changes)):
        yield


def micro_batches_of(placement: Mapping[str, Any], parts: int, training: bool) -> int:
    """Returns the fewest micro-batches that fill a placement's pipeline of `parts` parts."""
    if placement.get("strategy") != "PipelinedExecution":
        return 1
    return 2 * parts - 1 if training else parts


def strategy_of(placement: Mapping[str, Any]) -> Any:
    """Returns the execution strategy that a placement describes."""
    kind = getattr(poptorch, placement["strategy"])
    phases = [poptorch.Phase(f"part{part}") for part in range(placement.get("phases", 0))]
    for number, phase in enumerate(phases):
        phase.ipus(number % placement["ipus"])
    strategy = kind(*phases)
    if "liveness" in placement:
        strategy.setTensorsLiveness(poptorch.Liveness[placement["liveness"]])
    if placement.get("separate_backward_phase"):
        strategy.useSeparateBackwardPhase()
    return strategy


class _Policy(policy.PlacementPolicy):
    """A placement, for models whose options have the default strategy."""

    def __init__(self, placement: Mapping[str, Any], changes: list[str]) -> None:
        self._placement, self._changes = placement, changes
        self._default = repr(strategy_in(poptorch.Options()))

    def place(self, model: Callable, options: poptorch.Options, training: bool) -> policy.Placement:
        """Returns the placement of one model, and adds a line to the changes."""
        own = super().place(model, options, training)
        name = f"{type(model).__name__} ({'training' if training else 'inference'})"
        if repr(strategy_in(options)) != self._default:
            self._changes.append(f"{name}: not changed, it already has a strategy")
            return own
        parts = _layers_of_parts(model, self._placement)
        times = _repeats(len(parts), self._placement, options, training)
        replicas = self._placement["replicas"] if options.replication_factor == 1 else 1
        reduction = options.Training.accumulation_and_replication_reduction_type
        if training and reduction == poptorch.ReductionType.Sum:  # of equal gradients
            if times > 1:
                self._changes.append(f"{name}: not changed, it adds gradients up")
                return own
            replicas = 1
        cuts = ", ".join(f"part{part} has {layers}" for part, layers in enumerate(parts))
        self._changes.append(
            f"{name}: {self._placement['strategy']} with {cuts}; each micro-batch runs {times} "
            f"times on {replicas} replicas"
        )
        options.autoRoundNumIPUs(True)
        if replicas > 1:
            options.replicationFactor(replicas).broadcastBuffers(False)
            options.inputReplicaGrouping(replicas, poptorch.CommGroupType.Consecutive)
        begins = [
            policy.BlockStart(path, f"part{part}", part)
            for part, layers in enumerate(parts)
            for path in layers
        ]

        def adapted(executable: Any) -> Any:
            return _Repeating(executable, times, replicas)

        return policy.Placement(strategy_of(self._placement), times, tuple(begins), adapted)


class _Repeating:
    """An executable that runs each micro-batch `times` times, on replicas that do the same.

    Callers pass each once and get the results of the last time, of one replica.
    """

    def __init__(self, executable: Any, times: int, replicas: int) -> None:
        self._executable, self._times, self._replicas = executable, times, replicas
        text = executable.text("program")
        self._draws = _DRAW.search(text) is not None
        streams = re.findall(r'^stream "[^"]*" : \w+\[(.*?)\](.*)', text, re.MULTILINE)
        shapes = [[int(size) for size in shape.split(",") if size] for shape, _ in streams]
        tails = [tail for _, tail in streams]
        self._inputs = [s for s, tail in zip(shapes, tails, strict=True) if _enters(tail)]
        self._outputs = [
            (s, (re.findall(r'keep="(\w+)"', tail) or ["all"])[0])
            for s, tail in zip(shapes, tails, strict=True)
            if not _enters(tail)
        ]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executable, name)

    def run(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Runs the micro-batches; returns the results of each once."""
        inputs = [self._repeated(*pair) for pair in zip(tensors, self._inputs, strict=False)]
        results = self._executable.run(inputs)
        return [self._own(*pair) for pair in zip(results, self._outputs, strict=False)]

    def _repeated(self, tensor: torch.Tensor, shape: list[int]) -> torch.Tensor:
        if self._times == 1:
            return tensor
        repeated = tensor.reshape(-1, *shape).repeat_interleave(self._times, 0)
        return repeated.flatten(0, 1) if shape else repeated

    def _own(self, result: torch.Tensor, output: tuple[list[int], str]) -> torch.Tensor:
        shape, keep = output  # of a micro-batch
        if keep == "once":
            return result
        by_replica = result.reshape(-1, self._replicas, *shape)
        own = by_replica[:, 0]
        for other in [] if self._draws else by_replica.unbind(1):
            torch.testing.assert_close(other, own, rtol=0, atol=0, equal_nan=True)
        if keep == "all":
            own = own[self._times - 1 :: self._times]
        elif keep == "sum":
            own = own / self._times
        if not shape:
            return own.reshape(()) if len(own) == 1 else own
        return own.flatten(0, 1)


def _enters(tail: str) -> bool:
    return "to_device=true" in tail


def _repeats(
    parts: int, placement: Mapping[str, Any], options: poptorch.Options, training: bool
) -> int:
    """Returns how often each micro-batch must run to fill a pipeline: a power of two."""
    needed = micro_batches_of(placement, parts, training)
    has = options.Training.gradient_accumulation if training else options.device_iterations
    times = 1
    while has * times < needed:
        times *= 2
    return times


def _layers_of_parts(model: Callable, placement: Mapping[str, Any]) -> list[list[str]]:
    """Returns for each part the paths of layers with parameters or buffers that belong to it."""
    modules = model.named_modules() if isinstance(model, torch.nn.Module) else ()
    holders = [path for path, module in modules if module._parameters or module._buffers]
    parts = max(1, min(len(holders), placement.get("phases") or placement["ipus"]))
    bounds = [-(-len(holders) * part // parts) for part in range(parts + 1)]
    return [holders[begin:end] for begin, end in itertools.pairwise(bounds)]
