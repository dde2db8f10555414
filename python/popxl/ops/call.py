"""Ops that run other graphs: calls and loops."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from popxl._impl.records import of
from popxl.context import get_current_graph, get_op_graph
from popxl.dtypes import core_name
from popxl.errors import popart_exception, unsupported
from popxl.graph import Graph, OpRecord
from popxl.ops.build import OpBuild
from popxl.ops.data import scratch
from popxl.ops.routing import route
from popxl.tensor import Tensor, constant


class CallSiteInfo:
    """One call of a graph: the mapping between the caller's and the graph's tensors.

    Made by `call_with_info`.
    """

    def __init__(self, record: OpRecord, graph: Graph) -> None:
        self._record, self._graph = record, graph
        self._returned: list[Tensor] = []
        self._places: list[int] = []  # the inputs' positions among operands of the returning op

    @property
    def called_graph(self) -> Graph:
        """The called graph."""
        return self._graph

    @property
    def inputs(self) -> "tuple[Tensor, ...]":
        """The caller's input tensors, without inputs that are not given."""
        return tuple(t for t in self._given if t is not None)

    @property
    def _given(self) -> "list[Tensor | None]":
        return self._record.inputs[: len(self._graph.inputs)]

    @property
    def outputs(self) -> "tuple[Tensor, ...]":
        """The caller's output tensors."""
        return tuple(self._record.outputs)

    def parent_input(self, idx: int) -> Tensor:
        """Returns the caller's tensor at input `idx`. Raises ValueError if it is not given.

        Args:
            idx: The index, from 0.
        """
        tensor = self._given[idx]
        if tensor is None:
            raise ValueError(f"Input {idx} of {self._graph.name} was not passed.")
        return tensor

    def parent_output(self, idx: int) -> Tensor:
        """Returns the caller's tensor at output `idx`.

        Args:
            idx: The index, from 0.
        """
        return self._record.outputs[idx]

    def graph_to_parent(self, graph_tensor: Tensor) -> Tensor:
        """Returns the caller's tensor of a graph's input or output. Raises ValueError if none.

        Args:
            graph_tensor: An input or output of the graph.
        """
        if graph_tensor in self._graph.inputs:
            return self.parent_input(self._graph.inputs.index(graph_tensor))
        if graph_tensor in self._graph.outputs:
            return self._record.outputs[self._graph.outputs.index(graph_tensor)]
        raise ValueError(f"{graph_tensor!r} is not an input or output of {self._graph.name}.")

    def parent_to_graph(self, parent_tensor: Tensor) -> Tensor:
        """Returns the graph's input or output of a caller's tensor. Raises ValueError if none.

        Args:
            parent_tensor: A tensor of the caller.
        """
        if parent_tensor in self.inputs:
            return self._graph.inputs[self._given.index(parent_tensor)]
        if parent_tensor in self._record.outputs:
            return self._graph.outputs[self._record.outputs.index(parent_tensor)]
        raise ValueError(f"{parent_tensor!r} is not an input or output of this call.")

    def graph_to_parent_input_index(self, idx: int) -> int:
        """Returns the index of the graph's input `idx` among the op's inputs.

        Args:
            idx: The index, from 0.
        """
        return idx

    def parent_to_graph_input_index(self, idx: int) -> int:
        """Returns the index of the op's input `idx` among the graph's inputs.

        Args:
            idx: The index, from 0.
        """
        return idx

    def graph_to_parent_output_index(self, idx: int) -> int:
        """Returns the index of the graph's output `idx` among the op's outputs.

        Args:
            idx: The index, from 0.
        """
        return idx

    def parent_to_graph_output_index(self, idx: int) -> int:
        """Returns the index of the op's output `idx` among the graph's outputs.

        Args:
            idx: The index, from 0.
        """
        return idx

    def set_parent_input_modified(
        self, parent_tensor: Tensor, infer_modified_regions: bool = False
    ) -> None:
        """Makes the graph's writes to an input change the tensor that was passed for it.

        By-reference inputs do not need it. Between rounds of a loop the input keeps written values,
        unless an output feeds it. Call this before the tensor is used again.

        Args:
            parent_tensor: A tensor of the caller.
            infer_modified_regions: Accepted for compatibility with PopXL, without effect.

        Raises:
            ValueError: The tensor is not an input of the call.
        """
        if parent_tensor not in self.inputs:
            raise ValueError(f"{parent_tensor!r} is not an input of this call.")
        pairs = zip(self._graph.inputs, self._given, strict=True)
        inner = [t for t, given in pairs if given is parent_tensor and of(t).version]
        inner = [t for t in inner if not of(t).value.by_reference and t not in self._returned]
        if inner:
            of(parent_tensor).write(self._returning(inner)[-1])
            self._record.modified.append(parent_tensor)

    def _returning(self, inner: "list[Tensor]") -> "list[Any]":
        """Makes the compiler's op also return the final values of inputs: its last results."""
        record, caller, graph = self._record, of(self._record.graph), self._graph
        old = record.core_op()
        if old is None:
            raise unsupported(
                f"set_parent_input_modified after autodiff of graph {caller.label}",
                "Call it before.",
            )
        operands = old.operands
        if self._returned:
            operands = [operands[i] for i in self._places]
        self._returned += inner
        left = [(graph.inputs.index(t), of(t).read_out()) for t in self._returned]
        name = of(graph.ir).core_name(f"{graph.name}_returning")
        before = old.results
        new = old.return_inputs(name, of(graph).core, operands, left)
        self._places = [new.operands.index(value) for value in operands]
        for value, other in zip(before, new.results, strict=False):
            tensor = caller.by_value.pop(value, None)
            if tensor is not None and of(tensor).value is value:
                of(tensor).value, caller.by_value[other] = other, tensor
        record.core, record.runs_copy = new.id, True
        return new.results[-len(inner) :]


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


def bound(
    graph: Graph,
    inputs: Iterable[Any],
    inputs_dict: "Mapping[Tensor, Any] | None",
    check_inputs: bool = True,
) -> "list[Tensor | None]":
    """Returns the caller's tensor for every input of the graph.

    Args:
        graph: The called graph.
        inputs: Tensors or values for the first inputs.
        inputs_dict: Tensors or values by input.
        check_inputs: Whether every input must be given; otherwise missing ones are None.

    Raises:
        ValueError: The inputs do not fit.
    """
    here = get_current_graph().ir
    if graph.ir is not here:
        raise ValueError(
            f"{graph.name} belongs to {graph.ir!r} but the current program is {here!r}. Make the "
            "graph in the current program."
        )
    positional = _flattened(inputs)
    if len(positional) > len(graph.inputs):
        raise ValueError(
            f"Too many inputs have been provided: {graph.name} takes {len(graph.inputs)} but "
            f"{len(positional)} were given."
        )
    given: dict[Tensor, Any] = dict(zip(graph.inputs, positional, strict=False))
    for key, value in (inputs_dict or {}).items():
        if not isinstance(key, Tensor) or key not in graph.inputs:
            raise ValueError(f"{key!r} is not in the called graph, {graph.name}, as an input.")
        if key in given:
            raise ValueError(f"Graph input tensor is specified twice: {key!r} of {graph.name}.")
        given[key] = value
    for inner, outer in of(graph).routed.items():
        if inner not in given:
            given[inner] = route(outer, get_op_graph(), of(inner).value.by_reference)
    missing = [t.name for t in graph.inputs if t not in given]
    if missing and check_inputs:
        raise ValueError(
            f"Not enough inputs have been provided: {graph.name} needs {missing} as well. Pass "
            "them to the call."
        )
    out = [of(_as_tensor(given[t], t)).here() if t in given else None for t in graph.inputs]
    for tensor, expected in zip(out, graph.inputs, strict=True):
        if tensor is None:
            continue
        if tensor.shape != expected.shape or tensor.dtype != expected.dtype:
            raise popart_exception(f"{tensor!r} does not fit input {expected!r} of {graph.name}.")
    return out


def _nothing(caller: Graph, inner: Tensor) -> Any:
    """Returns zeros for an input that is not given; separate memory if it is by reference."""
    if of(inner).value.by_reference:
        name = of(caller.ir).core_name(f"scratch.{inner.name}")
        of(caller.ir).module.add_state(name, (core_name(inner.dtype), list(inner.shape)), "buffer")
        return of(caller).core.variable(name)
    zero = of(caller).core.scalar(core_name(inner.dtype), 0.0)
    if not inner.shape:
        return zero
    return of(caller).core.emit("broadcast_to", [zero], {"shape": list(inner.shape)}).results[0]


class _Operands:
    """The core operands of a call, and the writes to by-reference inputs after it."""

    def __init__(self, graph: Graph, tensors: "Sequence[Tensor | None]") -> None:
        self.values: list[Any] = []
        self.modified: list[Tensor] = []
        self._back: list[tuple[Tensor, Any]] = []
        caller = get_op_graph()
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
                # A value: the graph's writes through another input must not change it.
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


def place(out: Tensor, inner: Tensor) -> None:
    """Sets the IPU of a call's output; a graph without IPUs runs on its caller's."""
    if of(of(inner).graph).placed and of(inner).ipu is not None:
        of(out).ipu = of(inner).ipu


def _run(
    op_type: str, core: str, graph: Graph, tensors: "Sequence[Tensor | None]", **attrs: Any
) -> CallSiteInfo:
    op = OpBuild(op_type, *tensors, together=False)
    op.record.called, op.record.repeats = (graph,), attrs.get("count", 1)
    of(op.graph).placed |= of(graph).placed
    operands = _Operands(graph, tensors)
    made = op.emit(core, *operands.values, graph=of(graph).core, **attrs)
    op.record.core, results = made.id, made.results
    operands.write_back()
    op.record.modified.extend(operands.modified)
    for value, inner in zip(results, graph.outputs, strict=True):
        out = op.output(value, inner.name, inner.meta_shape)
        place(out, inner)
    op.done()
    return CallSiteInfo(op.record, graph)


def call(graph: Graph, *inputs: Any, inputs_dict: "Mapping[Tensor, Any] | None" = None) -> tuple:
    """Runs `graph`; returns its outputs. See `call_with_info`.

    Args:
        graph, *inputs, inputs_dict: As for `call_with_info`.
    """
    return call_with_info(graph, *inputs, inputs_dict=inputs_dict).outputs


def call_with_info(
    graph: Graph,
    *inputs: Any,
    inputs_dict: "Mapping[Tensor, Any] | None" = None,
    check_inputs: bool = True,
) -> CallSiteInfo:
    """Runs `graph` on tensors of the current graph.

    The graph's writes to by-reference inputs change the tensors passed for them.

    Args:
        graph: The graph.
        inputs: Tensors for its first inputs, in order. Lists are flattened, and other values
            become constants of the input's dtype.
        inputs_dict: {input of the graph: tensor} for the other inputs.
        check_inputs: Whether all inputs must be given; missing ones hold zeros.

    Raises:
        ValueError: Inputs are too many, missing, given twice or unknown.
        popart_exception: A shape or dtype differs from the input's.
        TypeError: A value cannot become a tensor.
    """
    return _run("Call", "call", graph, bound(graph, inputs, inputs_dict, check_inputs))


def repeat(
    graph: Graph, repeat_count: int, *inputs: Any, inputs_dict: Any = None
) -> "tuple[Tensor, ...]":
    """Runs `graph` several times; returns the last outputs. See `repeat_with_info`.

    Args:
        graph, repeat_count, *inputs, inputs_dict: As for `repeat_with_info`.
    """
    return repeat_with_info(graph, repeat_count, *inputs, inputs_dict=inputs_dict).outputs


def repeat_with_info(
    graph: Graph,
    repeat_count: int,
    *inputs: Any,
    inputs_dict: "Mapping[Tensor, Any] | None" = None,
    check_inputs: bool = True,
) -> CallSiteInfo:
    """Runs `graph` `repeat_count` times: output i is input i of the next round.

    The remaining inputs stay unchanged; by-reference ones keep the graph's writes. The other
    arguments are those of `call_with_info`.

    Args:
        graph: The graph to run.
        repeat_count: The number of rounds.
        *inputs, inputs_dict, check_inputs: As for `call_with_info`.

    Raises:
        ValueError: The count is negative; there are more outputs than inputs; see also
            `call_with_info`.
        TypeError: The count is not an int.
    """
    if not isinstance(repeat_count, (int, np.integer)):
        raise TypeError(f"The repeat count must be an int but is {repeat_count!r}.")
    if repeat_count < 0:
        raise ValueError(f"Repeat count must be >= 0 but is {repeat_count}.")
    if len(graph.outputs) > len(graph.inputs):
        raise ValueError(
            f"To repeat the subgraph {graph.name}, each output must feed an input of the next "
            f"round, but it has {len(graph.outputs)} outputs and {len(graph.inputs)} inputs."
        )
    tensors = bound(graph, inputs, inputs_dict, check_inputs)
    return _run("Loop", "repeat", graph, tensors, count=repeat_count)
