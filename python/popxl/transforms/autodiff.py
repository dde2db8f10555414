"""autodiff: the gradient graph of a graph, made by the compiler's autodiff."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from poptorch_core import _core
from popxl._impl.connections import (
    ExpectedConnection as ExpectedConnection,
    ExpectedConnectionType as ExpectedConnectionType,
    connect,
)
from popxl._impl.records import of
from popxl.dtypes import core_name
from popxl.errors import compiling, popart_exception
from popxl.graph import Graph, wrap_graph
from popxl.ops.call import CallSiteInfo
from popxl.tensor import Tensor
from popxl.tensor_base import make_tensor

if TYPE_CHECKING:
    from popxl.ir import Ir


class GradGraphInfo:
    """A gradient graph, with the mapping of its inputs and outputs to the forward graph.

    Made by autodiff.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError("Cannot create a GradGraphInfo directly: autodiff does.")

    graph: Graph
    forward_graph: Graph
    expected_inputs: "tuple[ExpectedConnection, ...]"
    expected_outputs: "tuple[ExpectedConnection, ...]"

    @property
    def inputs(self) -> "tuple[Tensor, ...]":
        """The forward tensors of the gradient graph's inputs."""
        return tuple(connection.fwd_tensor for connection in self.expected_inputs)

    @property
    def outputs(self) -> "tuple[Tensor, ...]":
        """The forward tensors whose gradients the gradient graph returns."""
        return tuple(connection.fwd_tensor for connection in self.expected_outputs)

    @property
    def _expected_inputs(self) -> "list[ExpectedConnection]":
        return list(self.expected_inputs)

    @property
    def _expected_outputs(self) -> "list[ExpectedConnection]":
        return list(self.expected_outputs)

    def __repr__(self) -> str:
        parts = {
            "graph": self.graph,
            "expected_inputs": self._expected_inputs,
            "expected_outputs": self._expected_outputs,
        }
        lines = "".join(f"\n  {name}={value!r}" for name, value in parts.items())
        return f"GradGraphInfo[{lines}\n]"

    def _check(self, info: CallSiteInfo, graph: Graph) -> None:
        if not isinstance(info, CallSiteInfo) or info.called_graph is not graph:
            raise TypeError(f"Pass the CallSiteInfo of a call of graph {graph.name}.")

    def inputs_dict(self, fwd_call_info: CallSiteInfo) -> dict[Tensor, Tensor]:
        """Returns {input of the gradient graph: the caller's tensor} for all forward tensors.

        Args:
            fwd_call_info: The call of the forward graph.

        Raises:
            TypeError: The call is of another graph.
        """
        self._check(fwd_call_info, self.forward_graph)
        return {
            self.graph.inputs[i]: fwd_call_info.graph_to_parent(connection.fwd_tensor)
            for i, connection in enumerate(self.expected_inputs)
            if connection.connection_type is ExpectedConnectionType.Fwd
        }

    def fwd_graph_ins_to_grad_parent_outs(
        self, grad_call_info: CallSiteInfo
    ) -> dict[Tensor, Tensor]:
        """Returns {input of the forward graph: its gradient, a tensor of the caller}.

        Args:
            grad_call_info: The call of the gradient graph.
        """
        self._check(grad_call_info, self.graph)
        return {
            connection.fwd_tensor: grad_call_info.parent_output(i)
            for i, connection in enumerate(self.expected_outputs)
        }

    def fwd_parent_ins_to_grad_parent_outs(
        self, fwd_call_info: CallSiteInfo, grad_call_info: CallSiteInfo
    ) -> dict[Tensor, Tensor]:
        """Returns {the caller's tensor that was passed to the forward graph: its gradient}.

        Args:
            fwd_call_info: The call of the forward graph.
            grad_call_info: The call of the gradient graph.
        """
        self._check(fwd_call_info, self.forward_graph)
        grads = self.fwd_graph_ins_to_grad_parent_outs(grad_call_info)
        return {fwd_call_info.graph_to_parent(t): grad for t, grad in grads.items()}


def grad_graph_info(
    graph: Graph,
    forward_graph: Graph,
    inputs: Iterable[ExpectedConnection],
    outputs: Iterable[ExpectedConnection],
) -> GradGraphInfo:
    """Makes the info of a gradient graph, `graph`, with these connections."""
    made = object.__new__(GradGraphInfo)
    made.graph, made.forward_graph = graph, forward_graph
    made.expected_inputs, made.expected_outputs = tuple(inputs), tuple(outputs)
    return made


def _indices(graph: Graph, tensors: "Iterable[Tensor] | None") -> list[int]:
    if tensors is None:
        own = of(graph).own_outputs()
        return [graph.outputs.index(t) for t in own if t.dtype.is_floating_point]
    out = []
    for tensor in tensors:
        if tensor not in graph.outputs:
            raise ValueError(f"{tensor!r} is not an output of {graph.name}.")
        _check_floating(tensor)
        out.append(graph.outputs.index(tensor))
    return out


def _required(graph: Graph, tensors: "Iterable[Tensor] | None") -> list[Tensor]:
    if tensors is None:
        return [t for t in graph.inputs if t.dtype.is_floating_point]
    out = list(tensors)
    for tensor in out:
        if tensor not in graph:
            raise ValueError(f"{tensor!r} is not a tensor of {graph.name}.")
        _check_floating(tensor)
    return out


def _check_floating(tensor: Tensor) -> None:
    if not tensor.dtype.is_floating_point:
        raise TypeError(
            f"{tensor!r} has no gradient: only floating point tensors have one. Leave it out, or "
            "cast it with ops.cast."
        )


def _refuse_writes(graph: Graph) -> None:
    for op in of(graph).ops:
        if any(of(of(t).root()).version for t in op.modified):
            raise popart_exception(
                f"The graph {of(graph).label} contains a modifying op, {op.op_type}.{op.id}: it "
                "has no gradient. Use the op that makes a new tensor."
            )


def refuse_called(graph: Graph, needed: "list[Tensor]") -> None:
    """Raises popart_exception if an op calls the graph: it would lack the new outputs."""
    for caller in of(graph.ir).graphs:
        for op in of(caller).ops:
            if graph in op.called:
                raise popart_exception(
                    f"[autodiff] {op.op_type}.{op.id} of graph {of(caller).label} calls "
                    f"{graph.name} already, but for its gradient {graph.name} must also return "
                    f"{needed}. Call autodiff before calling the graph."
                )


def _refuse_own_gradients(graph: Graph, given: set) -> None:
    """Raises popart_exception if a called graph needs a gradient graph that is not given."""
    for called in graph.called_graphs:
        if called in given:
            continue
        if of(called).has_own_gradient:
            raise popart_exception(
                f"[autodiff] {called.name} is marked as unsafe to autodiff where another graph "
                f"calls it, as {graph.name} does: pass its gradient graph in "
                "called_graphs_grad_info."
            )
        _refuse_own_gradients(called, {*given, called})


class _Values:
    """The tensors of a graph by value, updated after the compiler replaces calls in it."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._outputs = len(graph.outputs)
        called = [
            t
            for t in of(graph).tensors.values()
            if of(t).base is None and of(t).value is not None and of(t).value.producer is not None
            if of(t).value.producer.name in ("call", "repeat")
        ]
        self._called = called
        of(graph).core.set_outputs([*of(graph).core.outputs, *(of(t).value for t in called)])

    def settle(self, needed: list[Any]) -> None:
        """Updates tensors after autodiff. needed: forward values that must become outputs."""
        graph, first = self._graph, self._outputs
        values = of(graph).core.outputs
        for tensor, value in zip(self._called, values[first:], strict=False):
            of(tensor).value = value
        for index, tensor in enumerate(graph.outputs):
            of(tensor).value = values[index] if of(tensor).base is None else of(tensor).value
        of(graph).by_value = {
            of(t).value: t
            for t in of(graph).tensors.values()
            if of(t).base is None and of(t).value is not None
        }
        kept = list(values[:first])
        of(graph).core.set_outputs(kept)
        new = [v for v in needed if v.producer is not None and v not in kept]
        if new:
            refuse_called(graph, [self.tensor(v) for v in new])
        for value in dict.fromkeys(new):
            kept.append(value)
            of(graph).outputs.append(self.tensor(value))
            of(graph).for_gradient.append(self.tensor(value))
        of(graph).core.set_outputs(kept)

    def tensor(self, value: Any) -> Tensor:
        """Returns the tensor of a value; makes one if only the compiler knows it."""
        found = of(self._graph).by_value.get(value)
        return (
            found
            if found is not None
            else make_tensor(Tensor, self._graph, value.name or "t", value)
        )


def autodiff(
    graph: Graph,
    grads_provided: "Iterable[Tensor] | None" = None,
    grads_required: "Iterable[Tensor] | None" = None,
    called_graphs_grad_info: "Mapping[Graph, GradGraphInfo] | None" = None,
    return_all_grad_graphs: bool = False,
) -> Any:
    """Makes the gradient graph of `graph`, and adds to `graph` the outputs that it needs.

    Call it once, before calling `graph`.

    Args:
        graph: The forward graph.
        grads_provided: Outputs whose gradients will be given; by default all floating ones.
        grads_required: Tensors whose gradients are wanted; by default all floating inputs.
        called_graphs_grad_info: Gradient graphs of graphs that `graph` calls, directly or not;
            autodiff makes new ones for other called graphs.
        return_all_grad_graphs: Whether to return a dict.

    Returns:
        A GradGraphInfo; with return_all_grad_graphs, {graph: info}.

    Raises:
        ValueError: A tensor is of another graph, or the graph is the main graph.
        TypeError: A tensor is not of floating point numbers.
        popart_exception: An op of the graph writes in place or has no gradient, or the graph needs
            more outputs and is called already.
    """
    if graph is graph.main_graph:
        raise ValueError(
            "The main graph takes no inputs and has no gradient graph. Put the ops to "
            "differentiate into a separate graph: ir.create_graph."
        )
    provided = _indices(graph, grads_provided)
    required = _required(graph, grads_required)
    _refuse_writes(graph)
    _refuse_own_gradients(graph, set(called_graphs_grad_info or ()))
    values, given = _Values(graph), []
    for called, called_info in (called_graphs_grad_info or {}).items():
        given.append(_gradient_of_call(called, called_info))
        _set_gradient(of(graph).core, of(called).core.name, given[-1], set())
    try:
        with compiling():
            made = _core.autodiff(of(graph).core, provided, [of(t).read() for t in required])
        ins, outs = made.inputs, made.outputs
        values.settle([value for is_grad, value in ins if not is_grad])
        grad = wrap_graph(graph.ir, f"{graph.name}_grad", made.graph)
    finally:  # the given gradient graphs are for this call only
        _forget_gradients(graph.ir, {glue.name for glue in given})
        for glue in given:
            glue.erase_ops()
    info = grad_graph_info(
        grad,
        graph,
        [_connection(values, *pair) for pair in ins],
        [_connection(values, *pair) for pair in outs],
    )
    return {graph: info} if return_all_grad_graphs else info


def _set_gradient(core: Any, called: str, gradient: Any, seen: set) -> None:
    """Sets the gradient graph of a graph's calls, in a compiler's graph and graphs it calls."""
    seen.add(core.name)
    for op in core.ops:
        names = [body.name for body in op.bodies]
        if op.name == "call" and names == [called]:
            op.set_gradient(gradient)
        for body in op.bodies:
            if body.name not in seen:
                _set_gradient(body, called, gradient, seen)


def _forget_gradients(ir: "Ir", names: "set[str]") -> None:
    """Removes gradient graphs from calls, also in the compiler's copies."""
    left, seen = [of(graph).core for graph in of(ir).graphs], set()
    while names and left:
        core = left.pop()
        if core.name in seen:
            continue
        seen.add(core.name)
        for op in core.ops:
            left += op.bodies
            if op.name == "call" and op.gradient in names:
                op.set_gradient(None)


def _gradient_of_call(called: Graph, info: GradGraphInfo) -> Any:
    """Returns a gradient graph in the form for a call: of inputs, outputs and gradients."""
    core = of(called.ir).module.add_graph(of(called.ir).core_name(f"{info.graph.name}_of_call"))
    of(called.ir).inlined.add(core.name)
    take = lambda t, name: core.add_input((core_name(t.dtype), list(t.shape)), name)  # noqa: E731
    forward = {t: take(t, t.name) for t in called.inputs}
    forward |= {t: take(t, t.name) for t in called.outputs}
    grads = {t: take(t, f"{t.name}_gradient") for t in called.outputs if t.dtype.is_floating_point}
    passed = []
    for connection in info.expected_inputs:
        is_grad = connection.connection_type is ExpectedConnectionType.FwdGrad
        passed.append((grads if is_grad else forward)[connection.fwd_tensor])
    results = core.emit("call", passed, {"graph": of(info.graph).core}).results
    found = {c.fwd_tensor: r for c, r in zip(info.expected_outputs, results, strict=True)}
    outputs = []
    for t in called.inputs:
        if not t.dtype.is_floating_point:
            continue
        value = found.get(t)
        if value is None:
            value = core.scalar(core_name(t.dtype), 0.0)
            if t.shape:
                value = core.emit("broadcast_to", [value], {"shape": list(t.shape)}).results[0]
        if value.type[0] != core_name(t.dtype):
            value = core.emit("cast", [value], {"dtype": core_name(t.dtype)}).results[0]
        outputs.append(value)
    core.set_outputs(outputs)
    return core


def _connection(values: _Values, is_grad: bool, value: Any) -> ExpectedConnection:
    kind = ExpectedConnectionType.FwdGrad if is_grad else ExpectedConnectionType.Fwd
    return connect(values.tensor(value), kind)
