"""pipelined_execution: ops in stages, run for several steps.

Each stage becomes a graph. In cycle c, stage s runs step c - s, so that stages on different IPUs
work on different steps at the same time. Tensors that a stage passes to another are kept until
then. The cycles in which all stages work form a loop. On one IPU, the stages of a step run in
sequence.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import popxl
from popxl import ops
from popxl._impl.capture import take_in
from popxl._impl.records import of
from popxl.context import current
from popxl.ops.call import CallSiteInfo
from popxl.transforms import GradGraphInfo

_STEPS_PER_STAGE = 2
_Queues = dict[popxl.Tensor, list[Any]]


class _Pipeline:
    """Stages, and the loops of calls that they become.

    Attributes:
        steps: The number of steps.
        parent: The current graph at the start.
        blocks: The stage and the graph of each written block, in order.
    """

    def __init__(self, steps: int) -> None:
        self.steps, self.parent = steps, popxl.gcg()
        self.blocks: list[tuple[int, popxl.Graph]] = []
        # The tensors for which each block's inputs stand.
        self._uses: dict[popxl.Graph, dict[popxl.Tensor, popxl.Tensor]] = {}

    @property
    def stages(self) -> list[int]:
        """The numbers of the stages so far, ascending."""
        return sorted({stage for stage, _ in self.blocks})

    def _source(self, t: popxl.Tensor) -> popxl.Tensor:
        """Returns `t`, or the outside tensor for which it stands if no stage writes that tensor."""
        for _, graph in self.blocks:
            for outer, inner in of(graph).captured.items():
                if inner is t and not self._is_written(outer):
                    return self._source(outer)
        return t

    def _is_written(self, outer: popxl.Tensor) -> bool:
        seen = (of(graph).captured.get(outer) for _, graph in self.blocks)
        return any(t is not None and of(t).value.by_reference and of(t).version for t in seen)

    def _find_uses(self) -> None:
        for _, graph in self.blocks:
            self._uses[graph] = {t: self._source(outer) for outer, t in of(graph).captured.items()}

    def _check(self) -> None:
        count = len(self.stages)
        if not count or self.steps < _STEPS_PER_STAGE * count:
            raise ValueError(
                f"A pipeline of {count} stages needs at least {max(1, _STEPS_PER_STAGE * count)} "
                f"steps but got {self.steps}."
            )
        home = {graph: stage for stage, graph in self.blocks}
        for stage, graph in self.blocks:
            for t in self._uses[graph].values():
                if home.get(of(t).graph, 0) > stage:
                    raise ValueError(
                        f"Stage {stage} uses {t!r} of stage {home[of(t).graph]}. Stages must not "
                        "go backwards."
                    )

    def _set_outputs(self) -> None:
        """Makes tensors that later stages use outputs of the stages that compute them."""
        wanted: dict[popxl.Graph, list[popxl.Tensor]] = {g: [] for _, g in self.blocks}
        for _, graph in self.blocks:
            for t in self._uses[graph].values():
                if of(t).graph in wanted and t not in wanted[of(t).graph]:
                    wanted[of(t).graph].append(t)
        for graph, outputs in wanted.items():
            with graph:
                of(graph).set_outputs(outputs)

    def _call(self, graph: popxl.Graph, known: dict[popxl.Tensor, popxl.Tensor]) -> dict:
        """Runs a block of one step on the step's earlier results. Returns the block's results."""
        inputs = {inner: known.get(t, t) for inner, t in self._uses[graph].items()}
        return dict(zip(graph.outputs, ops.call(graph, inputs_dict=inputs), strict=True))

    def run(self) -> None:
        """Writes the loops into the current graph. Raises ValueError for invalid stages."""
        self._find_uses()
        self._check()
        self._set_outputs()
        graphs = [graph for _, graph in self.blocks]
        if len(set().union(*(_ipus(graph) for graph in graphs))) < 2:
            self._repeat("pipeline_step", self.steps, [], self._run_step)
        else:
            self._run_cycles()

    def _run_step(self, _inputs: list[popxl.Tensor]) -> list[popxl.Tensor]:
        known: dict[popxl.Tensor, popxl.Tensor] = {}
        for _, graph in self.blocks:
            known |= self._call(graph, known)
        return []

    def _repeat(
        self, name: str, count: int, carried: list[popxl.Tensor], body: Callable[[list], list]
    ) -> list[popxl.Tensor]:
        """Runs `body` in a loop: it maps the carried tensors to those of the next round."""
        graph = self.parent.ir.create_empty_graph(name)
        take_in(graph, (self.parent,))
        with graph:
            inputs = [popxl.graph_input(t.shape, t.dtype, t.name) for t in carried]
            for inner, t in zip(inputs, carried, strict=True):
                of(inner).ipu = of(t).ipu
            of(graph).set_outputs(body(inputs))
        captured = {inner: t for t, inner in of(graph).captured.items()}
        return list(ops.repeat(graph, count, *carried, inputs_dict=captured))

    def _run_cycles(self) -> None:
        """Fills the pipeline cycle by cycle, runs full cycles in a loop, and empties it."""
        place = {stage: i for i, stage in enumerate(self.stages)}
        made = {t: place[stage] for stage, graph in self.blocks for t in graph.outputs}
        blocks = [(place[stage], graph) for stage, graph in self.blocks]
        # Results by age, newest first, for as many cycles as their last user comes later.
        ages = {
            t: max(p - born for p, g in blocks if t in self._uses[g].values())
            for t, born in made.items()
        }
        queues: _Queues = {t: [None] * age for t, age in ages.items()}

        def cycle(queues: _Queues, first: int, last: int) -> _Queues:
            results: dict[popxl.Tensor, popxl.Tensor] = {}
            # Late stages first: their inputs come from the cycle before, and are passed on before
            # an earlier stage overwrites them.
            for now in range(last, first - 1, -1):
                old = {
                    t: queues[t][now - made[t] - 1] for t in made if 0 < now - made[t] <= ages[t]
                }
                for graph in (g for p, g in blocks if p == now):
                    results |= self._call(graph, old | results)
            return {t: [results.get(t), *queue][: ages[t]] for t, queue in queues.items()}

        def full_cycle(carried: list[popxl.Tensor]) -> list[popxl.Tensor]:
            left = iter(carried)
            full = cycle({t: [next(left) for _ in range(age)] for t, age in ages.items()}, 0, deep)
            return [t for queue in full.values() for t in queue]

        deep = len(place) - 1
        for index in range(deep):
            queues = cycle(queues, 0, index)
        carried = [t for queue in queues.values() for t in queue]
        carried = self._repeat("pipeline_cycle", self.steps - deep, carried, full_cycle)
        left = iter(carried)
        queues = {t: [next(left) for _ in range(age)] for t, age in ages.items()}
        for index in range(deep):
            queues = cycle(queues, index + 1, deep)


class Pipelining:
    """The stages of a pipeline; made by `pipelined_execution`."""

    def __init__(self, pipeline: _Pipeline) -> None:
        self._pipeline, self.steps = pipeline, pipeline.steps
        self._inside: int | None = None

    @property
    def stages(self) -> list[int]:
        """The numbers of the stages so far, ascending."""
        return self._pipeline.stages

    @contextmanager
    def stage(self, stage: int) -> Iterator[int]:
        """Puts the ops inside into this stage, counted from 0.

        The current graph is unchanged: variables, streams and graphs may be made inside.

        Args:
            stage: The number of the stage.

        Raises:
            ValueError: It is nested in another stage, or the number is negative.
        """
        if self._inside is not None or stage < 0:
            raise ValueError(f"Stage {stage} cannot begin inside stage {self._inside}.")
        parent, blocks = self._pipeline.parent, self._pipeline.blocks
        graph = parent.ir.create_empty_graph(f"pipeline_stage_{stage}")
        take_in(graph, (parent, *(other for _, other in blocks)))
        self._inside, current.homes[parent] = stage, graph
        try:
            yield stage
        finally:
            self._inside, current.homes[parent] = None, None
        blocks.append((stage, graph))

    def stash_and_restore_tensor(
        self, t: popxl.Tensor, from_stage: "int | None" = None
    ) -> popxl.Tensor:
        """Returns `t` of an earlier stage of the same step, kept until this stage runs.

        Args:
            t: The tensor.
            from_stage: Its stage; required if no op made it.

        Raises:
            RuntimeError: The stage is not known, or the call is outside a stage.
        """
        if self._inside is None:
            raise RuntimeError(f"{t!r} can be stashed only inside a stage.")
        if of(t).producer is None and from_stage is None:
            raise RuntimeError(f"No op made {t!r}: pass its stage as from_stage.")
        return t

    def stash_and_restore_activations(
        self, call_info: CallSiteInfo, grad_info: GradGraphInfo
    ) -> dict[popxl.Tensor, popxl.Tensor]:
        """Returns `grad_info.inputs_dict(call_info)`, with results kept until this stage runs.

        Args:
            call_info: The call of the forward graph.
            grad_info: The mapping of the gradient graph.
        """
        found = grad_info.inputs_dict(call_info)
        return {
            t: value if of(value).producer is None else self.stash_and_restore_tensor(value)
            for t, value in found.items()
        }


@contextmanager
def pipelined_execution(steps: int) -> Iterator[Pipelining]:
    """Runs the ops inside `steps` times, in their stages.

    Ops may use tensors from outside. Variables keep the last step's writes: write each in one stage
    only. Results are not available outside: store them. Streams make one transfer per step.

    Args:
        steps: The number of steps.

    Raises:
        ValueError: There are fewer steps than twice the stages, or no stage; a stage uses a later
            one.
        RuntimeError: An op is outside a stage.
    """
    pipeline = _Pipeline(steps)
    current.homes[pipeline.parent] = None
    try:
        yield Pipelining(pipeline)
    finally:
        del current.homes[pipeline.parent]
    pipeline.run()


def _ipus(graph: popxl.Graph) -> set[int]:
    """Returns the IPUs of a graph's ops, and of the graphs that it calls."""
    ipus = (of(t).ipu for op in of(graph).ops for t in op.outputs)
    found = {ipu for ipu in ipus if ipu is not None}
    return found.union(*(_ipus(called) for called in graph.called_graphs))
