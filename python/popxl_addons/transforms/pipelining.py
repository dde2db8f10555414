"""pipelined_execution: ops in stages, run for several steps.

What is written inside becomes a graph that runs once a step, all stages in order: the result is
that of the steps one after the other. IPUs wait only for what they receive, so that stages on
different IPUs work on different steps at the same time. On one IPU the graph runs in a loop; over
several, it is called step by step.
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
        self.stages: list[int] = []
        self._current: int | None = None

    @contextmanager
    def stage(self, stage: int) -> Iterator[int]:
        """Ops inside belong to this stage, from 0. ValueError inside another stage."""
        if self._current is not None or stage < 0:
            raise ValueError(f"Stage {stage} cannot begin inside of stage {self._current}.")
        self._current = stage
        if stage not in self.stages:
            self.stages.append(stage)
        try:
            yield stage
        finally:
            self._current = None

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


@contextmanager
def pipelined_execution(steps: int) -> Iterator[Pipelining]:
    """Runs the ops inside `steps` times, in the stages that they are written in.

    Tensors from outside may be used; variables that ops inside write keep what the last step
    wrote. Results of ops inside stay inside: store them. Streams make one transfer a step.
    ValueError: fewer steps than twice the stages, or no stage.
    """
    parent: Any = popxl.gcg()
    body = parent.ir.create_empty_graph("pipeline")
    body._around = parent
    pipeline = Pipelining(steps)
    with body:
        yield pipeline
    if not pipeline.stages or steps < _STEPS_PER_STAGE * len(pipeline.stages):
        raise ValueError(
            f"A pipeline of {len(pipeline.stages)} stages needs at least "
            f"{max(1, _STEPS_PER_STAGE * len(pipeline.stages))} steps but got {steps}."
        )
    inputs = {inner: outer for outer, inner in body._captured.items()}
    if len(_ipus(body)) < 2:
        ops.repeat(body, steps, inputs_dict=inputs)
        return
    for _ in range(steps):
        ops.call(body, inputs_dict=inputs)


def _ipus(graph: popxl.Graph) -> set[int]:
    """The IPUs of a graph's ops, and of the graphs that it calls."""
    found = {t._ipu for op in graph._ops for t in op.outputs if t._ipu is not None}
    return found.union(*(_ipus(called) for called in graph.called_graphs))
