"""Stages and execution strategies: which IPU, stage and phase a block belongs to.

Phased strategies are in phased_strategies.py.

A strategy is a description; what a trace counts while it runs is in blocks.BlockRecorder.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from poptorch._impl.inspection.source_lines import user_location
from poptorch._impl.options.group_class import OptionGroup, value_of
from poptorch._logging import logger_of
from poptorch.enums import AutoStage, Liveness

logger = logger_of(__name__)

_Placed = TypeVar("_Placed")
_MOST_IPUS = 1 << 16  # more than any system has


class Place(NamedTuple):
    """Where the ops of a block run."""

    ipu: int
    stage: int
    phase: int = -1  # of phased strategies alone


def as_id(value: object) -> str:
    """How to write what is no id as one."""
    return f"Write '{value}'." if isinstance(value, int) else "Write a name in quotes."


def is_ipu(value: object) -> bool:
    """Whether it is the number of an IPU."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_IPUS


class Stage:
    """What runs on one IPU at a stretch: one or more blocks, by their ids.

    Raises AssertionError unless the ids are strings.
    """

    def __init__(self, *block_ids: str) -> None:
        for block in block_ids:
            if not isinstance(block, str):
                raise AssertionError(
                    f"A Stage takes the ids of blocks, which are strings, but got {block!r} "
                    f"({user_location()}). {as_id(block)}"
                )
        if not block_ids:
            raise AssertionError(
                f"A Stage needs the id of at least one block ({user_location()}). Pass the ids of "
                "the blocks that run in it."
            )
        self._blocks = list(block_ids)
        self._ipu: int | None = None

    @property
    def own_ipu(self) -> int | None:
        """The IPU that ipu() has set, or None."""
        return self._ipu

    @property
    def blocks(self) -> list[str]:
        """The ids of the blocks."""
        return self._blocks

    def ipu(self, ipu: int) -> "Stage":
        """Runs the stage on this IPU, whatever its blocks say. Gives the stage itself."""
        if not is_ipu(ipu):
            raise AssertionError(
                f"An IPU is a number from 0, not {ipu!r}: {self!r} ({user_location()}). Pass an "
                "IPU's number, such as 0."
            )
        self._ipu = ipu
        return self

    def __repr__(self) -> str:
        blocks = ", ".join(map(repr, self._blocks))
        return f"Stage({blocks})" + (f".ipu({self._ipu})" if self._ipu is not None else "")


def stage_of(argument: Any) -> Stage:
    """A Stage, or the stage of a block's id or of a list of ids."""
    if isinstance(argument, Stage):
        return argument
    if isinstance(argument, str):
        return Stage(argument)
    if not isinstance(argument, (list, tuple)) or not argument:
        raise AssertionError(
            f"Expected a Stage, the id of a block or a list of ids but got {argument!r} "
            f"({user_location()}). Ids are strings, as in poptorch.Stage('front')."
        )
    return Stage(*argument)


def add_block(known: dict[str, _Placed], block: str, place: _Placed) -> None:
    """Notes where a block is. Raises AssertionError for one that is somewhere already."""
    if block in known:
        raise AssertionError(
            f"{block} associated with more than one stage ({user_location()}). Name each block "
            "once; what runs later again needs a block with an id of its own."
        )
    known[block] = place


def find_block(known: dict[str, _Placed], block: str) -> _Placed:
    """Where a block is. Raises AssertionError for one that the strategy does not name."""
    if block not in known:
        raise AssertionError(
            f"Unknown Block '{block}' list of expected Blocks: {list(known)} ({user_location()}). "
            "Add the block to a stage of the execution strategy, or give it one of these ids."
        )
    return known[block]


def find_stage(known: dict[str, _Placed], block: str) -> _Placed:
    """Where a strategy's own block is. Raises AssertionError for an unknown one."""
    if block not in known:
        raise AssertionError(
            f"Unknown block: {block} ({user_location()}). Ask for a block that the execution "
            f"strategy names; those are {list(known)}."
        )
    return known[block]


def default_ipu(block: str, ipu: int) -> int:
    """Of a block that says none, nor does its stage."""
    logger.debug(f"No IPU specified for block {block}: default to stage_id {ipu}")
    return ipu


class ExecutionStrategy:
    """What the four strategies have in common. NAME is what the compiler calls it."""

    NAME = ""
    MODE = 0
    liveness = Liveness.AlwaysLive
    separate_backward_phase = False

    @property
    def phase_count(self) -> int:
        """The number of phases that the strategy names; 0 unless it is phased."""
        return 0

    def toDict(self) -> dict[str, Any]:
        """What the backend is told of it: "execution_mode", 0 pipelined, 1 sharded, 2 phased."""
        return {"execution_mode": self.MODE}

    def place(self, block_id: str, ipu_id: int | None, count: int, first: int) -> Place:
        """Where a block goes. `count`: blocks before it; `first`: the number of the first stage."""
        raise NotImplementedError


class PipelinedExecution(ExecutionStrategy):
    """Stages work at one time, each on another micro-batch.

    Takes one AutoStage (default: SameAsIpu), or the stages in order: Stage objects, ids of blocks,
    or lists of ids. Raises AssertionError for a block in two stages.
    """

    NAME = "pipelined"

    def __init__(self, *args: AutoStage | Stage | str | Sequence[str]) -> None:
        self._auto: AutoStage | None = None
        self._stages: list[Stage] = []
        self._stage_ids: dict[str, int] = {}
        if not args:
            args = (AutoStage.SameAsIpu,)
        if auto := [argument for argument in args if isinstance(argument, AutoStage)]:
            if len(args) != 1:
                raise AssertionError(
                    f"An AutoStage is the only argument of an execution strategy, not one of "
                    f"{args} ({user_location()}). Leave out either the AutoStage or the blocks."
                )
            (self._auto,) = auto
            return
        self._stages = [stage_of(argument) for argument in args]
        for number, stage in enumerate(self._stages):
            for block in stage.blocks:
                add_block(self._stage_ids, block, number)

    def stage(self, block_id: str) -> Stage:
        """The stage of a block. Raises AssertionError for an unknown one."""
        return self._stages[find_stage(self._stage_ids, block_id)]

    def place(self, block_id: str, ipu_id: int | None, count: int, first: int) -> Place:
        if self._auto == AutoStage.SameAsIpu:
            if ipu_id is None:
                raise AssertionError(
                    f"poptorch.AutoStage.SameAsIpu was selected but no IPU was specified for block "
                    f"'{block_id}'. Pass an ipu_id, or use poptorch.AutoStage.AutoIncrement. "
                    f"({user_location()})"
                )
            return Place(ipu_id, ipu_id)
        if self._auto == AutoStage.AutoIncrement:
            stage = first + count
            return Place(default_ipu(block_id, stage) if ipu_id is None else ipu_id, stage)
        number = find_block(self._stage_ids, block_id)
        ipu = self._stages[number].own_ipu
        if ipu is None:
            ipu = default_ipu(block_id, number) if ipu_id is None else ipu_id
        return Place(ipu, first + number)

    def __repr__(self) -> str:
        what = [self._auto] if self._auto is not None else self._stages
        return f"{type(self).__name__}({', '.join(map(str, what))})"


class ShardedExecution(PipelinedExecution):
    """One micro-batch at a time passes through the IPUs, one after the other.

    Takes what PipelinedExecution takes.
    """

    NAME = "sharded"
    MODE = 1


def strategy_in(options: OptionGroup) -> ExecutionStrategy:
    """Returns the strategy that the options have."""
    return value_of(options, "_execution_strategy")


def strategy_of(value: ExecutionStrategy | AutoStage) -> ExecutionStrategy:
    """The check of Options.setExecutionStrategy: a strategy, or an AutoStage for a pipeline."""
    if isinstance(value, AutoStage):
        value = PipelinedExecution(value)
    if not isinstance(value, ExecutionStrategy):
        raise AssertionError(
            "[options] setExecutionStrategy expects an execution strategy, such as "
            f"poptorch.PipelinedExecution(), or a poptorch.AutoStage, but got {value!r}."
        )
    return value
