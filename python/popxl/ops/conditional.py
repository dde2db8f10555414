"""Branches: ops that run one of two graphs."""

from collections.abc import Iterable, Mapping
from typing import Any

from popxl._impl.records import of
from popxl.dtypes import core_name
from popxl.graph import Graph, OpRecord
from popxl.ops.build import OpBuild, check_tensors
from popxl.ops.call import bound, place
from popxl.tensor import Tensor


def conditional(
    cond: Tensor,
    then_branch: Graph,
    else_branch: Graph,
    then_inputs: "Iterable[Any] | None" = None,
    else_inputs: "Iterable[Any] | None" = None,
    then_inputs_dict: "Mapping[Tensor, Any] | None" = None,
    else_inputs_dict: "Mapping[Tensor, Any] | None" = None,
) -> "tuple[Tensor, ...]":
    """Runs one of two graphs; returns its outputs. See `conditional_with_info`.

    Args:
        cond: The condition: a bool tensor of one element.
        then_branch: The graph that runs if the condition is true.
        else_branch: The graph that runs otherwise.
        then_inputs: The inputs of `then_branch`, in order.
        else_inputs: The inputs of `else_branch`, in order.
        then_inputs_dict: Inputs of `then_branch` by its tensors.
        else_inputs_dict: Inputs of `else_branch` by its tensors.
    """
    info = conditional_with_info(
        cond, then_branch, else_branch, then_inputs, else_inputs, then_inputs_dict, else_inputs_dict
    )
    return info.outputs


class ConditionalSiteInfo:
    """A conditional: the mapping between the caller's tensors and those of both graphs.

    The op's inputs are the condition, the inputs of the first graph, then those of the second.

    Made by `conditional_with_info`.
    """

    def __init__(self, record: OpRecord) -> None:
        self._record = record
        self._then, self._else = record.called

    @property
    def _first_else(self) -> int:
        return 1 + len(self._then.inputs)

    @property
    def called_graph(self) -> "tuple[Graph, Graph]":
        """The graph that runs if the condition is true, and the other."""
        return (self._then, self._else)

    @property
    def inputs(self) -> "tuple[Tensor, ...]":
        """The condition, the inputs of the first graph, then those of the second."""
        return tuple(t for t in self._record.inputs if t is not None)

    @property
    def outputs(self) -> "tuple[Tensor, ...]":
        """The outputs of the branch that runs."""
        return tuple(self._record.outputs)

    def parent_input(self, idx: int) -> Tensor:
        """Returns the op's input `idx`; 0 is the condition. Raises IndexError if there is none.

        Args:
            idx: The index, from 0.
        """
        return self.inputs[idx]

    def parent_output(self, idx: int) -> Tensor:
        """Returns the op's output `idx`. Raises IndexError if there is none.

        Args:
            idx: The index, from 0.
        """
        return self.outputs[idx]

    def is_parent_index_in_then_branch(self, idx: int) -> bool:
        """Returns whether input `idx` is the first graph's. Raises IndexError if no graph's.

        Args:
            idx: The index, from 0.
        """
        if not 1 <= idx < len(self.inputs):
            raise IndexError(f"Input {idx} of the op is not an input of a graph.")
        return idx < self._first_else

    def graph_to_parent_input_index(self, idx: int, then_branch: bool = True) -> int:
        """Returns the op's index of a graph's input. Raises IndexError if there is none.

        Args:
            idx: The index, from 0.
            then_branch: Whether the index is of the first graph; otherwise of the second.
        """
        graph = self._then if then_branch else self._else
        if not 0 <= idx < len(graph.inputs):
            raise IndexError(f"{graph.name} has no input {idx}.")
        return idx + (1 if then_branch else self._first_else)

    def parent_to_graph_input_index(self, idx: int) -> int:
        """Returns the graph's index of the op's input. Raises IndexError if no graph takes it.

        Args:
            idx: The index, from 0.
        """
        return idx - (1 if self.is_parent_index_in_then_branch(idx) else self._first_else)

    def graph_to_parent_output_index(self, idx: int, then_branch: bool = True) -> int:
        """Returns the op's index of a graph's output. Raises IndexError if there is none.

        Args:
            idx: The index, from 0.
            then_branch: Whether the index is of the first graph; otherwise of the second.
        """
        return self._output_index(idx, then_branch)

    def parent_to_graph_output_index(self, idx: int, then_branch: bool = True) -> int:
        """Returns the graph's index of the op's output. Raises IndexError if there is none.

        Args:
            idx: The index, from 0.
            then_branch: Whether the result is of the first graph; otherwise of the second.
        """
        return self._output_index(idx, then_branch)

    def _output_index(self, idx: int, then_branch: bool) -> int:
        graph = self._then if then_branch else self._else
        if not 0 <= idx < len(graph.outputs):
            raise IndexError(f"{graph.name} has no output {idx}.")
        return idx

    def graph_to_parent(self, graph_tensor: Tensor) -> Tensor:
        """Returns the caller's tensor of a graph's input or output. Raises ValueError if none.

        Args:
            graph_tensor: An input or output of the graph.
        """
        for then, graph in ((True, self._then), (False, self._else)):
            if graph_tensor in graph.inputs:
                index = graph.inputs.index(graph_tensor)
                return self.parent_input(self.graph_to_parent_input_index(index, then))
            if graph_tensor in graph.outputs:
                return self.parent_output(graph.outputs.index(graph_tensor))
        raise ValueError(
            f"{graph_tensor!r} is not an input or output of {self._then.name} or {self._else.name}."
        )

    def parent_to_graph(self, parent_tensor: Tensor) -> Tensor:
        """Returns the first graph input that takes a caller's tensor, or the first graph's output.

        Args:
            parent_tensor: A tensor of the caller.

        Raises:
            ValueError: The tensor is neither an input nor an output.
        """
        if parent_tensor in self.inputs[1:]:
            index = 1 + self.inputs[1:].index(parent_tensor)
            then = self.is_parent_index_in_then_branch(index)
            graph = self._then if then else self._else
            return graph.inputs[self.parent_to_graph_input_index(index)]
        if parent_tensor in self.outputs:
            return self._then.outputs[self.outputs.index(parent_tensor)]
        raise ValueError(f"{parent_tensor!r} is not an input or output of this conditional.")

    def set_parent_input_modified(
        self, parent_tensor: Tensor, infer_modified_regions: bool = False
    ) -> None:
        """Raises NotImplementedError: branches take copies.

        Args:
            parent_tensor: A tensor of the caller.
            infer_modified_regions: Accepted for compatibility with PopXL, without effect.
        """
        raise NotImplementedError("A branch's writes to its inputs do not reach the caller.")


def _branch_graph(caller: Graph, branch: Graph, types: list, first: int, name: str) -> Any:
    """Makes a graph that takes the inputs of both branches and calls one of them."""
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
    """Runs `then_branch` if the bool `cond`, of one element, is true, else `else_branch`.

    The inputs are those of `call_with_info`.

    Args:
        cond: The condition: a bool tensor of one element.
        then_branch: The graph that runs if the condition is true.
        else_branch: The graph that runs otherwise.
        then_inputs: The inputs of `then_branch`, in order.
        else_inputs: The inputs of `else_branch`, in order.
        then_inputs_dict: Inputs of `then_branch` by its tensors.
        else_inputs_dict: Inputs of `else_branch` by its tensors.
        check_inputs: Whether missing inputs are an error.

    Raises:
        ValueError: The condition has more elements; the graphs' outputs differ; see also
            `call_with_info`.
        NotImplementedError: A branch takes inputs by reference.
    """
    caller = check_tensors("If", [cond], together=False)
    if any(of(t).value.by_reference for g in (then_branch, else_branch) for t in g.inputs):
        raise NotImplementedError("The branches of a conditional do not take inputs by reference.")
    if cond.nelms != 1:
        raise ValueError(f"The condition must have one element but is {cond!r}.")
    outs = [[(t.shape, t.dtype) for t in g.outputs] for g in (then_branch, else_branch)]
    if outs[0] != outs[1]:
        raise ValueError(
            f"{then_branch.name} and {else_branch.name} must return equal shapes and dtypes but "
            f"return {outs[0]} and {outs[1]}."
        )
    then_tensors = bound(then_branch, then_inputs or (), then_inputs_dict)
    else_tensors = bound(else_branch, else_inputs or (), else_inputs_dict)
    tensors = [*then_tensors, *else_tensors]
    op = OpBuild("If", cond, *tensors, together=False)
    op.record.called = (then_branch, else_branch)
    of(op.graph).placed |= of(then_branch).placed or of(else_branch).placed
    types = [(core_name(t.dtype), list(t.shape)) for t in tensors if t is not None]  # all are given
    attrs = {
        "then": _branch_graph(caller, then_branch, types, 0, "then"),
        "else": _branch_graph(caller, else_branch, types, len(then_tensors), "else"),
    }
    scalar = op("reshape", cond, shape=[]) if cond.rank else of(cond).read()
    made = op.emit("if", scalar, *tensors, **attrs)
    op.record.core, results = made.id, made.results
    for value, a, b in zip(results, then_branch.outputs, else_branch.outputs, strict=True):
        out = op.output(value, f"{a.name}_or_{b.name}")
        place(out, b)
        place(out, a)
    op.done()
    return ConditionalSiteInfo(op.record)
