"""Phases and the phased strategies, which run one phase at a time and keep the rest off-chip."""

from collections.abc import Sequence
from typing import Any

from poptorch._impl.inspection.source_lines import user_location
from poptorch._impl.placement.strategies import (
    ExecutionStrategy,
    Place,
    Stage,
    add_block,
    default_ipu,
    find_block,
    find_stage,
)
from poptorch.enums import Liveness


class Phase:
    """Stages that run in parallel between two exchanges with Streaming Memory."""

    def __init__(self, *arg: Stage | str) -> None:
        """Creates a phase.

        Args:
            *arg: Stage objects, or ids of blocks, which form one stage.

        Raises:
            AssertionError: There is no argument, or one of another type.
        """
        stages = arg
        if not stages:
            raise AssertionError(
                f"A Phase needs at least one Stage, or the id of a block ({user_location()}). Pass "
                "the stages that run in it, or leave it out."
            )
        ids = [stage for stage in stages if isinstance(stage, str)]
        if len(ids) == len(stages):
            stages = (Stage(*ids),)
        self._stages: list[Stage] = []
        for stage in stages:
            if not isinstance(stage, Stage):
                raise AssertionError(
                    "All arguments must either be block IDs (strings) or Stages, but a Phase got "
                    f"{stage!r} ({user_location()}). Pass either, as in poptorch.Stage('a')."
                )
            self._stages.append(stage)

    @property
    def stages(self) -> list[Stage]:
        """The stages."""
        return self._stages

    def stage(self, idx: int) -> Stage:
        """Returns a stage by its number, from 0.

        Args:
            idx: The number of the stage, from 0.
        """
        return self._stages[idx]

    def ipus(self, *ipus: int) -> "Phase":
        """Sets the IPUs of the stages, in their order.

        Args:
            *ipus: The number of an IPU, from 0, for each stage.

        Returns:
            The phase.

        Raises:
            AssertionError: The numbers of IPUs and stages differ.
        """
        if len(ipus) != len(self._stages):
            raise AssertionError(
                f"Expected {len(self._stages)} IPUs, one a stage of the phase, but got "
                f"{len(ipus)}: {list(ipus)}, for {self!r} ({user_location()}). Pass as "
                "many as there are stages."
            )
        for stage, ipu in zip(self._stages, ipus, strict=True):
            stage.ipu(ipu)
        return self

    def __repr__(self) -> str:
        return f"Phase({', '.join(map(repr, self._stages))})"


def _phase_of(argument: Any) -> Phase:
    if isinstance(argument, Phase):
        return argument
    if isinstance(argument, (Stage, str)):
        return Phase(argument)
    if not isinstance(argument, (list, tuple)) or not argument:
        raise AssertionError(
            f"Expected a Phase, a Stage, the id of a block or a list of those but got {argument!r} "
            f"({user_location()}). Make it one, as in poptorch.Phase('front')."
        )
    return Phase(*argument)


class _PhasedExecution(ExecutionStrategy):
    MODE = 2

    def __init__(self, *phases: Phase | Stage | str | Sequence[Stage] | Sequence[str]) -> None:
        if not phases:
            raise AssertionError(
                f"{type(self).__name__} needs at least one phase ({user_location()}). Pass the "
                "phases in their order."
            )
        self._phases = [_phase_of(phase) for phase in phases]
        # Block → numbers of its phase, of its stage in that phase, and of its stage among all.
        self._places: dict[str, tuple[int, int, int]] = {}
        stages = 0
        for number, phase in enumerate(self._phases):
            for index, stage in enumerate(phase.stages):
                for block in stage.blocks:
                    add_block(self._places, block, (number, index, stages))
                stages += 1

    @property
    def phase_count(self) -> int:
        """The number of phases that the strategy names."""
        return len(self._phases)

    def toDict(self) -> dict[str, Any]:
        return {
            **super().toDict(),
            "separate_backward_phase": self.separate_backward_phase,
            "tensors_liveness": int(self.liveness),
            "serial_phases_execution": isinstance(self, SerialPhasedExecution),
        }

    def phase(self, phase: int) -> Phase:
        """Returns a phase by its number, from 0.

        Raises:
            AssertionError: There is no such phase.
        """
        if not isinstance(phase, int) or not (0 <= phase < len(self._phases)):
            raise AssertionError(
                f"A phase is a number from 0 to {len(self._phases) - 1}, not {phase!r}: {self!r} "
                f"({user_location()}). Ask for one of those, or add a phase."
            )
        return self._phases[phase]

    def stage(self, block_id: str) -> Stage:
        """Returns the stage of a block.

        Raises:
            AssertionError: The strategy does not name the block.
        """
        phase, index, _ = find_stage(self._places, block_id)
        return self._phases[phase].stage(index)

    def useSeparateBackwardPhase(self, use: bool = True) -> "_PhasedExecution":
        """Runs the last phase's backward pass in a separate phase. Returns the strategy."""
        if not isinstance(use, bool):
            raise AssertionError(f"Expected True or False but got {use!r}.")
        self.separate_backward_phase = use
        return self

    def place(self, block_id: str, ipu_id: int | None, count: int, first: int) -> Place:
        phase, index, stage = find_block(self._places, block_id)
        ipu = self._phases[phase].stage(index).own_ipu
        if ipu is None:
            own = self._ipu_of(phase, index)
            ipu = default_ipu(block_id, own) if ipu_id is None else ipu_id
        return Place(ipu, stage, phase)

    def _ipu_of(self, phase: int, index: int) -> int:
        """Returns the IPU of a stage if neither the stage nor its blocks name one."""
        raise NotImplementedError

    def __repr__(self) -> str:
        text = f"{type(self).__name__}({', '.join(map(repr, self._phases))})"
        if self.liveness != Liveness.AlwaysLive:
            text += f".{self.liveness.name}"
        return text + (".separate_backward_phase" if self.separate_backward_phase else "")


class SerialPhasedExecution(_PhasedExecution):
    """Runs one phase after the other on one group of IPUs.

    Weights and optimiser state are on-chip during the phases that use them; setTensorsLiveness()
    sets where other values are kept. A stage without an IPU runs on the IPU of its number in the
    phase.

    Args:
        *phases: The phases in order: Phase objects, stages, ids of blocks, or lists of those.

    Raises:
        AssertionError: There is no phase, an argument is of another type, or a block is in two
            stages.
    """

    NAME = "serial_phased"

    def setTensorsLiveness(self, liveness: Liveness) -> "SerialPhasedExecution":
        """Sets which values leave the chip between phases. Returns the strategy.

        Args:
            liveness: The Liveness to use.

        Raises:
            AssertionError: `liveness` is not a Liveness.
        """
        if not isinstance(liveness, Liveness):
            raise AssertionError(f"Expected a poptorch.Liveness but got {liveness!r}.")
        self.liveness = liveness
        return self

    def _ipu_of(self, phase: int, index: int) -> int:
        return index


class ParallelPhasedExecution(_PhasedExecution):
    """Alternates phases between two groups of IPUs: even phases on even IPUs, odd on odd IPUs.

    The arguments are those of SerialPhasedExecution. A stage without an IPU runs on IPU 2i in even
    phases and 2i + 1 in odd ones, where i is its number in the phase.
    """

    NAME = "parallel_phased"

    def sendTensorsOffChipAfterFwd(self, off_chip: bool = True) -> "ParallelPhasedExecution":
        """Keeps values for the backward pass off-chip. Returns the strategy.

        Args:
            off_chip: Whether to store them off-chip.

        Raises:
            AssertionError: `off_chip` is not a bool.
        """
        if not isinstance(off_chip, bool):
            raise AssertionError(f"Expected True or False but got {off_chip!r}.")
        self.liveness = Liveness.OffChipAfterFwd if off_chip else Liveness.AlwaysLive
        return self

    def _ipu_of(self, phase: int, index: int) -> int:
        return 2 * index + phase % 2
