"""pipelined_execution: ops in stages, run for several steps.

Each stage becomes a graph. In cycle c, stage s runs step c - s, so that stages on different IPUs
work on different steps at the same time; what one stage hands to another is kept until then. On one
IPU a loop runs the stages of a step one after the other.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import popxl
from popxl import ops
from popxl.ops.call import CallSiteInfo
from popxl.transforms import GradGraphInfo

_STEPS_PER_STAGE = 2


class Pipelining:
    """The stages of a pipeline; made by `pipelined_execution`."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self._parent: Any = popxl.gcg()
        self._blocks: list[tuple[int, popxl.Graph]] = []  # as written: stage, its ops
        self._inside: int | None = None

    @property
    def stages(self) -> list[int]:
        """The numbers of the stages so far, ascending."""
        return sorted({stage for stage, _ in self._blocks})

    @contextmanager
    def stage(self, stage: int) -> Iterator[int]:
        """Ops inside belong to this stage, from 0. ValueError inside another stage."""
        if self._inside is not None or stage < 0:
            raise ValueError(f"Stage {stage} cannot begin inside of stage {self._inside}.")
        graph = self._parent.ir.create_empty_graph(f"pipeline_stage_{stage}")
        graph._sources = (self._parent, *(other for _, other in self._blocks))
        self._inside = stage
        try:
            with graph:
                yield stage
        finally:
            self._inside = None
        self._blocks.append((stage, graph))

    def stash_and_restore_tensor(
        self, t: popxl.Tensor, from_stage: "int | None" = None
    ) -> popxl.Tensor:
        """`t` of an earlier stage of the same step, kept until this stage runs."""
        return t

    def stash_and_restore_activations(
        self, call_info: CallSiteInfo, grad_info: GradGraphInfo
    ) -> dict[popxl.Tensor, popxl.Tensor]:
        """`grad_info.inputs_dict(call_info)`, each tensor kept until this stage runs."""
        found = grad_info.inputs_dict(call_info)
        return {t: self.stash_and_restore_tensor(value) for t, value in found.items()}

    # --- running ----------------------------------------------------------------------------------
    def _check(self) -> None:
        count = len(self.stages)
        if not count or self.steps < _STEPS_PER_STAGE * count:
            raise ValueError(
                f"A pipeline of {count} stages needs at least {max(1, _STEPS_PER_STAGE * count)} "
                f"steps but got {self.steps}."
            )
        home = {graph: stage for stage, graph in self._blocks}
        for stage, graph in self._blocks:
            for t in graph._captured:
                if home.get(t._graph, 0) > stage:
                    raise ValueError(
                        f"Stage {stage} uses {t!r} of stage {home[t._graph]}. Stages must not go "
                        "backwards."
                    )

    def _set_outputs(self) -> None:
        """Makes what later stages use outputs of the stages that compute it."""
        wanted: dict[popxl.Graph, list[popxl.Tensor]] = {g: [] for _, g in self._blocks}
        for _, graph in self._blocks:
            for t in graph._captured:
                if t._graph in wanted and t not in wanted[t._graph]:
                    wanted[t._graph].append(t)
        for graph, outputs in wanted.items():
            with graph:
                graph._set_outputs(outputs)

    def _call(self, graph: popxl.Graph, known: dict[popxl.Tensor, popxl.Tensor]) -> None:
        """Runs a block of one step; `known` are the results of the step's earlier stages."""
        inputs = {inner: known.get(t, t) for t, inner in graph._captured.items()}
        known.update(zip(graph.outputs, ops.call(graph, inputs_dict=inputs), strict=True))

    def _run(self) -> None:
        self._check()
        self._set_outputs()
        graphs = [graph for _, graph in self._blocks]
        if len(set().union(*(_ipus(graph) for graph in graphs))) < 2:
            step = self._parent.ir.create_empty_graph("pipeline_step")
            step._sources = (self._parent,)
            known: dict[popxl.Tensor, popxl.Tensor] = {}
            with step:
                for graph in graphs:
                    self._call(graph, known)
            inputs = {inner: t for t, inner in step._captured.items()}
            ops.repeat(step, self.steps, inputs_dict=inputs)
            return
        stages = self.stages
        results: list[dict] = [{} for _ in range(self.steps)]
        for cycle in range(self.steps + len(stages) - 1):
            # Late stages first: what they take was made in the cycle before, and is handed over
            # before its maker goes on.
            for place, stage in reversed(list(enumerate(stages))):
                step_index = cycle - place
                if 0 <= step_index < self.steps:
                    for graph in (g for s, g in self._blocks if s == stage):
                        self._call(graph, results[step_index])


@contextmanager
def pipelined_execution(steps: int) -> Iterator[Pipelining]:
    """Runs the ops inside `steps` times, in the stages that they are written in.

    Tensors from outside may be used; variables that ops inside write keep what the last step
    wrote: write each in one stage. Ops outside of stages run once, before. Results stay inside:
    store them. Streams make one transfer a step.
    ValueError: fewer steps than twice the stages, no stage, a stage that uses a later one.
    """
    pipeline = Pipelining(steps)
    yield pipeline
    pipeline._run()


def _ipus(graph: popxl.Graph) -> set[int]:
    """The IPUs of a graph's ops, and of the graphs that it calls."""
    found = {t._ipu for op in graph._ops for t in op.outputs if t._ipu is not None}
    return found.union(*(_ipus(called) for called in graph.called_graphs))
