"""Ops that run other graphs: calls, loops and branches."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from popxl.context import get_current_graph
from popxl.dtypes import core_name
from popxl.graph import Graph, OpRecord
from popxl.ops.build import OpBuild, check_tensors
from popxl.ops.data import scratch
from popxl.records import of
from popxl.tensor import Tensor, constant, graph_input


class CallSiteInfo:
    """One call of a graph: what is which on both sides."""

    def __init__(self, record: OpRecord, graph: Graph, first: int = 0) -> None:
        self._record, self._graph, self._first = record, graph, first

    @property
    def called_graph(self) -> Graph:
        """The graph that is called."""
        return self._graph

    @property
    def inputs(self) -> "tuple[Tensor, ...]":
        """The caller's tensors that go in, without inputs that nothing goes into."""
        return tuple(t for t in self._given if t is not None)

    @property
    def _given(self) -> "list[Tensor | None]":
        return self._record.inputs[self._first : self._first + len(self._graph.inputs)]

    @property
    def outputs(self) -> "tuple[Tensor, ...]":
        """The caller's tensors that come out."""
        return tuple(self._record.outputs)

    def parent_input(self, idx: int) -> Tensor:
        """The caller's tensor at input `idx`. ValueError when nothing goes in there."""
        tensor = self._given[idx]
        if tensor is None:
            raise ValueError(f"Nothing was passed for input {idx} of {self._graph.name}.")
        return tensor

    def parent_output(self, idx: int) -> Tensor:
        """The caller's tensor at output `idx`."""
        return self._record.outputs[idx]

    def graph_to_parent(self, graph_tensor: Tensor) -> Tensor:
        """The caller's tensor for an input or output of the graph. ValueError for another."""
        if graph_tensor in self._graph.inputs:
            return self.parent_input(self._graph.inputs.index(graph_tensor))
        if graph_tensor in self._graph.outputs:
            return self._record.outputs[self._graph.outputs.index(graph_tensor)]
        raise ValueError(f"{graph_tensor!r} is no input or output of {self._graph.name}.")

    def parent_to_graph(self, parent_tensor: Tensor) -> Tensor:
        """The graph's input or output for a tensor of the caller. ValueError for another."""
        if parent_tensor in self.inputs:
            return self._graph.inputs[self._given.index(parent_tensor)]
        if parent_tensor in self._record.outputs:
            return self._graph.outputs[self._record.outputs.index(parent_tensor)]
        raise ValueError(f"{parent_tensor!r} does not go in or out of this call.")

    def graph_to_parent_input_index(self, idx: int) -> int:
        """Where the graph's input `idx` stands among the op's inputs."""
        return idx + self._first

    def parent_to_graph_input_index(self, idx: int) -> int:
        """Which input of the graph the op's input `idx` is."""
        return idx - self._first

    def graph_to_parent_output_index(self, idx: int) -> int:
        """Where the graph's output `idx` stands among the op's outputs."""
        return idx

    def parent_to_graph_output_index(self, idx: int) -> int:
        """Which output of the graph the op's output `idx` is."""
        return idx

    def set_parent_input_modified(
        self, parent_tensor: Tensor, infer_modified_regions: bool = False
    ) -> None:
        """Nothing to do: what a graph writes to by-reference inputs is found by itself."""
        if parent_tensor not in self.inputs:
            raise ValueError(f"{parent_tensor!r} does not go into this call.")


def _flattened(inputs: Iterable[Any]) -> list[Any]:
    out: list[Any] = []
    for given in inputs:
        if isinstance(given, Tensor) or not isinstance(given, (list, tuple)):
            out.append(given)
        else:
            out.extend(_flattened(given))
    return out


def _as_tensor(given: Any, expected: Tensor) -> Tensor:
    if isinstance(given, Tensor):
        return given
    try:
        return constant(given, expected.dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{given!r} cannot be passed for {expected!r}.") from error


def routed(inner: Tensor, graph: Graph) -> Tensor:
    """The tensor of the current graph for an input that takes one of a graph further out."""
    outer, here = of(graph).routed[inner], get_current_graph()
    if of(outer).graph in (here, *of(here).sources):
        return outer
    for known, source in of(here).routed.items():
        if source is outer:
            return known
    by_ref = of(inner).value.by_reference
    made = graph_input(outer.shape, outer.dtype, outer.name, by_ref, outer.meta_shape)
    of(here).routed[made] = outer
    return made


def _bound(
    graph: Graph,
    inputs: Iterable[Any],
    inputs_dict: "Mapping[Tensor, Any] | None",
    check_inputs: bool = True,
) -> "list[Tensor | None]":
    """One tensor of the caller for every input of the graph. ValueError when they do not fit.

    check_inputs: whether each must be given; None stands for those that are not.
    """
    here = get_current_graph().ir
    if graph.ir is not here:
        raise ValueError(
            f"{graph.name} belongs to {graph.ir!r} but the current program is {here!r}. Make the "
            "graph in this one."
        )
    positional = _flattened(inputs)
    if len(positional) > len(graph.inputs):
        raise ValueError(
            f"{graph.name} takes {len(graph.inputs)} inputs but {len(positional)} were given."
        )
    given: dict[Tensor, Any] = dict(zip(graph.inputs, positional, strict=False))
    for key, value in (inputs_dict or {}).items():
        if not isinstance(key, Tensor) or key not in graph.inputs:
            raise ValueError(f"{key!r} is no input of {graph.name}.")
        if key in given:
            raise ValueError(f"Input {key!r} of {graph.name} is given twice.")
        given[key] = value
    given |= {t: routed(t, graph) for t in of(graph).routed if t not in given}
    missing = [t.name for t in graph.inputs if t not in given]
    if missing and check_inputs:
        raise ValueError(f"{graph.name} needs its inputs {missing}. Pass them to the call.")
    out = [of(_as_tensor(given[t], t)).here() if t in given else None for t in graph.inputs]
    for tensor, expected in zip(out, graph.inputs, strict=True):
        if tensor is None:
            continue
        if tensor.shape != expected.shape or tensor.dtype != expected.dtype:
            raise ValueError(f"{tensor!r} does not fit input {expected!r} of {graph.name}.")
    return out


def _nothing(caller: Graph, inner: Tensor) -> Any:
    """What an input gets that nobody passes: memory of its own if it is written, zeros."""
    if of(inner).value.by_reference:
        name = of(caller.ir).core_name(f"scratch.{inner.name}")
        of(caller.ir).module.add_state(name, (core_name(inner.dtype), list(inner.shape)), "buffer")
        return of(caller).core.variable(name)
    zero = of(caller).core.scalar(core_name(inner.dtype), 0.0)
    if not inner.shape:
        return zero
    return of(caller).core.emit("broadcast_to", [zero], {"shape": list(inner.shape)}).results[0]


class _Operands:
    """The core operands of a call, and what to do after it for by-reference inputs."""

    def __init__(self, graph: Graph, tensors: "Sequence[Tensor | None]") -> None:
        self.values: list[Any] = []
        self.modified: list[Tensor] = []
        self._back: list[tuple[Tensor, Any]] = []
        caller = get_current_graph()
        pairs = list(zip(tensors, graph.inputs, strict=True))
        by_ref = [
            t for t, i in pairs if t is not None and of(i).value.by_reference and of(i).version
        ]
        written = {of(t).root() for t in by_ref}
        for tensor, inner in pairs:
            if tensor is None:
                self.values.append(_nothing(caller, inner))
                continue
            if not of(inner).value.by_reference or not of(inner).version:
                # By value: what the graph writes through another input must not be seen.
                copied = of(tensor).root() in written
                self.values.append(of(tensor).read_out() if copied else of(tensor).read())
                continue
            self.modified.append(tensor)
            root = of(tensor).root()
            plain = tensor is root or of(tensor).to_view is None
            if plain and of(root).is_memory():
                self.values.append(of(root).read())
            else:
                memory = scratch(caller, tensor)
                self.values.append(memory)
                self._back.append((tensor, memory))

    def write_back(self) -> None:
        for tensor in self.modified:
            of(of(tensor).root()).version += 1
        for tensor, memory in self._back:
            of(tensor).write(of(of(tensor).graph).core.emit("identity", [memory]).results[0])


def _place(out: Tensor, inner: Tensor) -> None:
    """Puts a call's output where the graph leaves it; without IPUs it works on its caller's."""
    if of(of(inner).graph).placed and of(inner).ipu is not None:
        of(out).ipu = of(inner).ipu


def _run(
    op_type: str, core: str, graph: Graph, tensors: "Sequence[Tensor | None]", **attrs: Any
) -> CallSiteInfo:
    op = OpBuild(op_type, *tensors, together=False)
    op.record.called, op.record.repeats = (graph,), attrs.get("count", 1)
    of(op.graph).placed |= of(graph).placed
    operands = _Operands(graph, tensors)
    results = op.emit(core, *operands.values, graph=of(graph).core, **attrs).results
    operands.write_back()
    op.record.modified.extend(operands.modified)
    for value, inner in zip(results, graph.outputs, strict=True):
        out = op.output(value, inner.name, inner.meta_shape)
        _place(out, inner)
    op.done()
    return CallSiteInfo(op.record, graph)


def call(graph: Graph, *inputs: Any, inputs_dict: "Mapping[Tensor, Any] | None" = None) -> tuple:
    """Runs `graph`; returns its outputs. See `call_with_info`."""
    return call_with_info(graph, *inputs, inputs_dict=inputs_dict).outputs


def call_with_info(
    graph: Graph,
    *inputs: Any,
    inputs_dict: "Mapping[Tensor, Any] | None" = None,
    check_inputs: bool = True,
) -> CallSiteInfo:
    """Runs `graph` on tensors of the current graph.

    inputs: for the graph's first inputs, in order; lists are flattened, what is no tensor becomes
        a constant of the input's dtype.
    inputs_dict: for the others, {input of the graph: tensor}.
    What the graph writes to its by-reference inputs reaches the tensors passed for them.
    ValueError: too many, missing, doubly given or unknown inputs, other shapes or dtypes.
    check_inputs: whether all inputs must be given; those that are not hold zeros.
    TypeError: something cannot become a tensor.
    """
    return _run("Call", "call", graph, _bound(graph, inputs, inputs_dict, check_inputs))


def repeat(
    graph: Graph, repeat_count: int, *inputs: Any, inputs_dict: Any = None
) -> "tuple[Tensor, ...]":
    """Runs `graph` several times; returns the last outputs. See `repeat_with_info`."""
    return repeat_with_info(graph, repeat_count, *inputs, inputs_dict=inputs_dict).outputs


def repeat_with_info(
    graph: Graph,
    repeat_count: int,
    *inputs: Any,
    inputs_dict: "Mapping[Tensor, Any] | None" = None,
    check_inputs: bool = True,
) -> CallSiteInfo:
    """Runs `graph` `repeat_count` times: output i is input i of the next round.

    The remaining inputs stay as they are; by-reference ones carry what the graph writes.
    ValueError: a negative count, more outputs than inputs, and as for `call_with_info`.
    TypeError: a count that is no int.
    """
    if not isinstance(repeat_count, (int, np.integer)):
        raise TypeError(f"The repeat count must be an int but is {repeat_count!r}.")
    if repeat_count < 0:
        raise ValueError(f"The repeat count must not be negative but is {repeat_count}.")
    if len(graph.outputs) > len(graph.inputs):
        raise ValueError(
            f"{graph.name} has {len(graph.outputs)} outputs but {len(graph.inputs)} inputs: "
            "each output must feed an input of the next round."
        )
    tensors = _bound(graph, inputs, inputs_dict, check_inputs)
    return _run("Loop", "repeat", graph, tensors, count=repeat_count)


def conditional(
    cond: Tensor,
    then_branch: Graph,
    else_branch: Graph,
    then_inputs: "Iterable[Any] | None" = None,
    else_inputs: "Iterable[Any] | None" = None,
    then_inputs_dict: "Mapping[Tensor, Any] | None" = None,
    else_inputs_dict: "Mapping[Tensor, Any] | None" = None,
) -> "tuple[Tensor, ...]":
    """Runs one of two graphs; returns its outputs. See `conditional_with_info`."""
    info = conditional_with_info(
        cond, then_branch, else_branch, then_inputs, else_inputs, then_inputs_dict, else_inputs_dict
    )
    return info.outputs


class ConditionalSiteInfo:
    """A branch, as the calls of its two graphs."""

    def __init__(self, record: OpRecord, then: CallSiteInfo, other: CallSiteInfo) -> None:
        self._record, self.then_info, self.else_info = record, then, other

    @property
    def outputs(self) -> "tuple[Tensor, ...]":
        """What the branch that runs returns."""
        return tuple(self._record.outputs)


def _branch_graph(caller: Graph, branch: Graph, types: list, first: int, name: str) -> Any:
    """A graph that takes the inputs of both branches and calls one of them."""
    wrapper = of(caller.ir).module.add_graph(of(caller.ir).core_name(f"{branch.name}_{name}"))
    values = [wrapper.add_input(t, f"x{i}") for i, t in enumerate(types)]
    mine = values[first : first + len(branch.inputs)]
    wrapper.set_outputs(wrapper.emit("call", mine, {"graph": of(branch).core}).results)
    return wrapper


def conditional_with_info(
    cond: Tensor,
    then_branch: Graph,
    else_branch: Graph,
    then_inputs: "Iterable[Any] | None" = None,
    else_inputs: "Iterable[Any] | None" = None,
    then_inputs_dict: "Mapping[Tensor, Any] | None" = None,
    else_inputs_dict: "Mapping[Tensor, Any] | None" = None,
    check_inputs: bool = True,
) -> ConditionalSiteInfo:
    """Runs `then_branch` if the scalar bool `cond` is true, else `else_branch`.

    ValueError: the graphs give other outputs; inputs as for `call_with_info`.
    NotImplementedError: a branch takes inputs by reference.
    """
    caller = check_tensors("If", [cond], together=False)
    if any(of(t).value.by_reference for g in (then_branch, else_branch) for t in g.inputs):
        raise NotImplementedError("The branches of a conditional take no inputs by reference.")
    outs = [[(t.shape, t.dtype) for t in g.outputs] for g in (then_branch, else_branch)]
    if outs[0] != outs[1]:
        raise ValueError(
            f"{then_branch.name} and {else_branch.name} must give the same outputs but give "
            f"{outs[0]} and {outs[1]}."
        )
    then_tensors = _bound(then_branch, then_inputs or (), then_inputs_dict)
    else_tensors = _bound(else_branch, else_inputs or (), else_inputs_dict)
    tensors = [*then_tensors, *else_tensors]
    op = OpBuild("If", cond, *tensors, together=False)
    op.record.called = (then_branch, else_branch)
    of(op.graph).placed |= of(then_branch).placed or of(else_branch).placed
    types = [(core_name(t.dtype), list(t.shape)) for t in tensors if t is not None]  # all are given
    attrs = {
        "then": _branch_graph(caller, then_branch, types, 0, "then"),
        "else": _branch_graph(caller, else_branch, types, len(then_tensors), "else"),
    }
    results = op.emit("if", cond, *tensors, **attrs).results
    for value, a, b in zip(results, then_branch.outputs, else_branch.outputs, strict=True):
        out = op.output(value, f"{a.name}_or_{b.name}")
        _place(out, b)
        _place(out, a)
    op.done()
    return ConditionalSiteInfo(
        op.record,
        CallSiteInfo(op.record, then_branch, 1),
        CallSiteInfo(op.record, else_branch, 1 + len(then_tensors)),
    )
