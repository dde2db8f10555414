"""Stages and execution strategies, which assign blocks to IPUs, stages and phases.

Phased strategies are in phased_strategies.py. A strategy is only a description;
blocks.BlockRecorder has the state of a trace.
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
    """The IPU, stage and phase of a block's ops."""

    ipu: int
    stage: int
    phase: int = -1  # only for phased strategies


def as_id(value: object) -> str:
    """Returns a hint on how to write a value as an id."""
    return f"Write '{value}'." if isinstance(value, int) else "Write a name in quotes."


def is_ipu(value: object) -> bool:
    """Returns whether it is the number of an IPU."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_IPUS


class Stage:
    """One or more blocks, by their ids, that run on one IPU one after the other."""

    def __init__(self, *block_ids: str) -> None:
        """Creates a stage.

        Args:
            *block_ids: The ids of its blocks.

        Raises:
            AssertionError: There is no id, or one is not a string.
        """
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
        """Sets the IPU of the stage; it overrides ipu_id of the blocks.

        Args:
            ipu: The number of the IPU, from 0.

        Returns:
            The stage.

        Raises:
            AssertionError: `ipu` is not the number of an IPU.
        """
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
    """Returns a Stage unchanged; makes one from a block's id or a list of ids."""
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
    """Adds a block. Raises AssertionError if it has a place already."""
    if block in known:
        raise AssertionError(
            f"{block} associated with more than one stage ({user_location()}). Name each block "
            "once; give code that runs again later a block with a different id."
        )
    known[block] = place


def find_block(known: dict[str, _Placed], block: str) -> _Placed:
    """Returns a block's place. Raises AssertionError if the strategy does not name the block."""
    if block not in known:
        raise AssertionError(
            f"Unknown Block '{block}' list of expected Blocks: {list(known)} ({user_location()}). "
            "Add the block to a stage of the execution strategy, or give it one of these ids."
        )
    return known[block]


def find_stage(known: dict[str, _Placed], block: str) -> _Placed:
    """Returns the place of a block in a strategy. Raises AssertionError for an unknown block."""
    if block not in known:
        raise AssertionError(
            f"Unknown block: {block} ({user_location()}). Pass a block that the execution "
            f"strategy names; those are {list(known)}."
        )
    return known[block]


def default_ipu(block: str, ipu: int) -> int:
    """Returns and logs the IPU of a block if neither the block nor its stage names one."""
    logger.debug(f"No IPU specified for block {block}: default to stage_id {ipu}")
    return ipu


class ExecutionStrategy:
    """The base class of the four strategies. NAME is the compiler's name for a strategy."""

    NAME = ""
    MODE = 0
    liveness = Liveness.AlwaysLive
    separate_backward_phase = False

    def __eq__(self, other: object) -> bool:
        # The text of a strategy has all of it. Options compare their values after a copy.
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(type(self))  # stages may change

    @property
    def phase_count(self) -> int:
        """The number of phases that the strategy names; 0 unless it is phased."""
        return 0

    def toDict(self) -> dict[str, Any]:
        """Returns the backend's options: "execution_mode" is 0 pipelined, 1 sharded, 2 phased."""
        return {"execution_mode": self.MODE}

    def place(self, block_id: str, ipu_id: int | None, count: int, first: int) -> Place:
        """Returns a block's place. count: blocks before it; first: number of the first stage."""
        raise NotImplementedError


class PipelinedExecution(ExecutionStrategy):
    """Runs the stages at the same time, each on a different micro-batch.

    Args:
        *args: One AutoStage (default: SameAsIpu), or the stages in order: Stage objects, ids of
            blocks, or lists of ids.

    Raises:
        AssertionError: An argument is of another type, or a block is in two stages.
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
                    f"An AutoStage must be the only argument of an execution strategy, not one of "
                    f"{args} ({user_location()}). Leave out either the AutoStage or the blocks."
                )
            (self._auto,) = auto
            return
        self._stages = [stage_of(argument) for argument in args]
        for number, stage in enumerate(self._stages):
            for block in stage.blocks:
                add_block(self._stage_ids, block, number)

    @property
    def auto_stage(self) -> AutoStage | None:
        """The rule that places blocks; None if the strategy names its stages."""
        return self._auto

    @property
    def stages(self) -> list[Stage]:
        """The stages that the strategy names."""
        return self._stages

    def stage(self, block_id: str) -> Stage:
        """Returns the stage of a block.

        Args:
            block_id: The name of the block.

        Raises:
            AssertionError: The strategy does not name the block.
        """
        return self._stages[find_stage(self._stage_ids, block_id)]

    def place(self, block_id: str, ipu_id: int | None, count: int, first: int) -> Place:
        """Returns a block's place.

        Args:
            block_id: The name of the block.
            ipu_id: The IPU that the block names, or None.
            count: The number of blocks before it.
            first: The number of the first stage.

        Raises:
            AssertionError: The strategy does not name the block, or the block has no IPU.
        """
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
    """Runs one micro-batch at a time through the stages, one after the other.

    The arguments are those of PipelinedExecution.
    """

    NAME = "sharded"
    MODE = 1


def strategy_in(options: OptionGroup) -> ExecutionStrategy:
    """Returns the strategy in the options."""
    return value_of(options, "_execution_strategy")


def strategy_of(value: ExecutionStrategy | AutoStage) -> ExecutionStrategy:
    """Checks the argument of Options.setExecutionStrategy; an AutoStage becomes a pipeline."""
    if isinstance(value, AutoStage):
        value = PipelinedExecution(value)
    if not isinstance(value, ExecutionStrategy):
        raise AssertionError(
            "[options] setExecutionStrategy expects an execution strategy, such as "
            f"poptorch.PipelinedExecution(), or a poptorch.AutoStage, but got {value!r}."
        )
    return value
