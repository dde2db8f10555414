"""Execution strategies as nested dicts of plain values."""

from collections.abc import Mapping
from typing import Any

from poptorch._impl.placement.phased_strategies import (
    ParallelPhasedExecution,
    Phase,
    SerialPhasedExecution,
)
from poptorch._impl.placement.strategies import (
    ExecutionStrategy,
    PipelinedExecution,
    ShardedExecution,
    Stage,
)
from poptorch.enums import AutoStage, Liveness

_KINDS: dict[str, type[ExecutionStrategy]] = {
    kind.__name__: kind
    for kind in (
        PipelinedExecution,
        ShardedExecution,
        SerialPhasedExecution,
        ParallelPhasedExecution,
    )
}


def to_dict(strategy: ExecutionStrategy) -> dict[str, Any]:
    """Returns a strategy as a dict: its "kind", with its stages, phases or auto_stage.

    Raises ValueError for a strategy of a class of the user.
    """
    kind = type(strategy).__name__
    if _KINDS.get(kind) is not type(strategy):
        raise ValueError(f"[options] {kind} is not one of {', '.join(_KINDS)}.")
    if isinstance(strategy, PipelinedExecution):
        if strategy.auto_stage is not None:
            return {"kind": kind, "auto_stage": strategy.auto_stage.name}
        return {"kind": kind, "stages": [_of_stage(stage) for stage in strategy.stages]}
    phased: Any = strategy
    phases = [phased.phase(number) for number in range(strategy.phase_count)]
    return {
        "kind": kind,
        "phases": [[_of_stage(stage) for stage in phase.stages] for phase in phases],
        "liveness": strategy.liveness.name,
        "separate_backward_phase": strategy.separate_backward_phase,
    }


def from_dict(given: Mapping[str, Any]) -> ExecutionStrategy:
    """Returns the strategy of a dict. A stage may be the id of a block, or a list of ids.

    Raises AssertionError or ValueError for other dicts.
    """
    rest = dict(given)
    kind = _KINDS.get(rest.pop("kind", ""))
    if kind is None:
        raise ValueError(
            f"[options] a strategy has a kind: one of {', '.join(_KINDS)}, not "
            f"{given.get('kind')!r}."
        )
    if issubclass(kind, PipelinedExecution):
        made: Any = _pipelined(kind, rest)
    else:
        phased: Any = kind
        made = phased(*map(_phase, rest.pop("phases", ())))
        made.liveness = _member(Liveness, rest.pop("liveness", "AlwaysLive"))
        made.useSeparateBackwardPhase(rest.pop("separate_backward_phase", False))
    if rest:
        raise ValueError(f"[options] {kind.__name__} has no {', '.join(map(str, rest))}.")
    return made


def _pipelined(kind: type[PipelinedExecution], rest: dict[str, Any]) -> PipelinedExecution:
    stages = [_stage(stage) for stage in rest.pop("stages", ())]
    auto = rest.pop("auto_stage", None)
    return kind(*stages, *([] if auto is None else [_member(AutoStage, auto)]))


def _phase(given: Any) -> Phase:
    return Phase(*map(_stage, [given] if isinstance(given, (str, Mapping)) else given))


def _of_stage(stage: Stage) -> dict[str, Any]:
    own = {} if stage.own_ipu is None else {"ipu": stage.own_ipu}
    return {"blocks": list(stage.blocks), **own}


def _stage(given: Any) -> Stage:
    if isinstance(given, str):
        return Stage(given)
    if not isinstance(given, Mapping):
        return Stage(*given)
    made = Stage(*given["blocks"])
    return made if given.get("ipu") is None else made.ipu(given["ipu"])


def _member(kind: Any, name: Any) -> Any:
    if name not in kind.__members__:
        raise ValueError(f"[options] {kind.__name__} has no member {name!r}.")
    return kind[name]
