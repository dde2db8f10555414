"""Tensors of outer graphs in inner graphs: inputs that all calls in between pass on."""

from collections.abc import Sequence
from typing import Any

from popxl._impl.records import ConstantRecord, of
from popxl.context import current
from popxl.dtypes import core_name
from popxl.errors import unsupported
from popxl.graph import Graph, OpRecord
from popxl.tensor import Tensor, graph_input


def _callers(graph: Graph) -> list[OpRecord]:
    """Returns the ops that call a graph, in any graph."""
    return [op for other in of(graph.ir).graphs for op in of(other).ops if graph in op.called]


def _above(graph: Graph, home: Graph) -> "dict[Graph, list[OpRecord]]":
    """Returns the calls of the graph, and of each graph with such calls, up to `home`."""
    found: dict[Graph, list[OpRecord]] = {}
    new = [graph]
    while new:
        inner = new.pop()
        if inner not in found and inner is not home:
            found[inner] = _callers(inner)
            new += [op.graph for op in found[inner]]
    return found


def _core_op(op: OpRecord) -> Any:
    """Returns the compiler's op of a call. Raises UnsupportedError if the compiler replaced it."""
    core = op.core_op()
    if core is not None:
        return core
    raise unsupported(
        f"Routing through {op.op_type}.{op.id}, which runs a copy made for a gradient,",
        "Route before autodiff of the graph that calls it.",
    )


def _given(op: OpRecord, graph: Graph) -> "list[list[Tensor | None]]":
    """Returns the tensors that an op passes to a graph; both branches of an If may be the graph."""
    if op.op_type != "If":
        return [op.inputs]
    behind = 1 + len(op.called[0].inputs)
    parts = (op.inputs[1:behind], op.inputs[behind:])
    return [given for called, given in zip(op.called, parts, strict=True) if called is graph]


def _pass(op: OpRecord, graph: Graph, local: Tensor) -> None:
    """Makes an op pass a tensor for the last, new input of a graph."""
    core, value = _core_op(op), _value(local)
    core.add_operand(value)
    _write_before(local, op)
    if op.op_type != "If":
        op.inputs.append(local)
        return
    for branch, body in zip(op.called, core.bodies, strict=True):
        inner = body.add_input(value.type, local.name, False)
        if branch is graph:
            body.ops[-1].add_operand(inner)
    if op.called[0] is graph:
        op.inputs.insert(len(graph.inputs), local)
    if op.called[1] is graph:
        op.inputs.append(local)


def _makers(t: Tensor, graph: Graph) -> "list[OpRecord]":
    """Returns the ops of the graph that must run before `t` is defined, in order."""
    by_id = {op.id: op for op in of(graph).ops}
    maker = of(t).producer
    new, found = [] if maker is None else [maker], set()
    while new:
        op = new.pop()
        if op.id not in found:
            found.add(op.id)
            new += [inner for _, inner in op.makers()]
            new += [by_id[i] for i in op.after if i in by_id]
    return [op for op in of(graph).ops if op.id in found]


def _write_before(t: Tensor, op: OpRecord) -> None:
    """Moves the ops that make `t` before an op that now takes it."""
    if of(t).graph is not op.graph:
        return
    ops, makers = of(op.graph).ops, _makers(t, op.graph)
    late = [maker for maker in makers if ops.index(maker) > ops.index(op)]
    for maker in late:
        ops.remove(maker)
    place = ops.index(op)
    ops[place:place] = late


def _value(t: Tensor) -> Any:
    """Returns the known compiler's value of a tensor: reading a view could make an op."""
    return of(t).value if of(t).to_view is not None else of(of(t).root()).value


def _check(t: Tensor, op: OpRecord, by_ref: bool) -> None:
    """Raises UnsupportedError if an existing op cannot pass `t` or its input.

    by_ref: Whether the called graph's writes must return to `t`.
    """
    name = f"{op.op_type}.{op.id} of graph {op.graph.name!r}"
    if op.runs_copy:
        why = f"Routing {t!r} through {name}, after its set_parent_input_modified,"
        raise unsupported(why, "Route it before calling.")
    if by_ref and op.op_type == "If":
        raise unsupported(f"Routing {t!r}, to be written, through a branch, {name},")
    if op.graph is not of(t).graph or t in (op.modified if by_ref else op.inputs):
        return
    root = of(t).root()
    if by_ref and (of(t).to_view is not None or isinstance(of(root), ConstantRecord)):
        why = "is a constant or a view: a call's writes cannot return to it"
    elif by_ref and not of(root).is_memory() and not _is_before(_value(t), op):
        why = "has its value only later"
    elif not by_ref and root in {of(other).root() for other in op.modified}:
        why = "is written by the call"
    elif _value(t) is None or op in _makers(t, op.graph) or not _core_op(op).can_take(_value(t)):
        why = "has its value only later"
    else:
        return
    raise unsupported(f"Routing {t!r}, which {why}, through {name}", "Route it before calling.")


def _is_before(value: Any, op: OpRecord) -> bool:
    """Returns whether a compiler's value is currently made before an op."""
    ids, maker = [core.id for core in of(op.graph).core.ops], value.producer
    return maker is None or ids.index(maker.id) < ids.index(_core_op(op).id)


def _give_memory(t: Tensor) -> None:
    """Makes a tensor's value writable by calls: all users of the tensor see their writes."""
    kept, ir = of(t), of(of(t).graph.ir)
    name = ir.core_name(f"memory.{t.name}")
    ir.module.add_state(name, (core_name(t.dtype), list(t.shape)), "buffer")
    graph = of(kept.graph)
    kept.value = graph.core.give_memory(kept.value, name)
    graph.by_value[kept.value] = t
    if t in graph.outputs:
        graph.set_outputs(graph.outputs)


def _lent(
    t: Tensor, graph: Graph, by_ref: bool, calls: "Sequence[tuple[OpRecord, Tensor | None]]"
) -> "Tensor | None":
    """Returns an existing input for which every call passes `t`, or None."""
    for inner, source in of(graph).routed.items():
        if source is t and (of(inner).value.by_reference or not by_ref):
            return inner
    for i, inner in enumerate(graph.inputs):
        held = inner not in of(graph).routed and (of(inner).value.by_reference or not by_ref)
        looped = any(op.op_type == "Loop" and i < len(graph.outputs) for op, _ in calls)
        passed = (local and x[i] is local for op, local in calls for x in _given(op, graph))
        if held and calls and not looped and all(passed):
            return inner
    return None


def _known(t: Tensor, graph: Graph, by_ref: bool) -> "Tensor | None":
    """Returns the existing tensor of the graph that stands for `t`, or None."""
    if of(t).graph in (graph, *of(graph).sources):
        return t
    return _lent(t, graph, by_ref, [(op, _known(t, op.graph, by_ref)) for op in _callers(graph)])


def _mark_written(calls: "list[tuple[OpRecord, Tensor]]") -> None:
    for op, local in calls:
        if local not in op.modified:
            op.modified.append(local)
            of(of(local).root()).version += 1


def _stand_in(t: Tensor, graph: Graph, by_ref: bool) -> Tensor:
    """See `route`, which has checked that calls can pass it on."""
    if of(t).graph in (graph, *of(graph).sources):
        return t
    calls = [(op, _stand_in(t, op.graph, by_ref)) for op in _callers(graph)]
    known = _lent(t, graph, by_ref, calls)
    if known is not None:
        if by_ref:
            _mark_written(calls)
        return known
    names, current.names = current.names, []
    try:
        with graph:
            made = graph_input(t.shape, t.dtype, t.name, by_ref, t.meta_shape or None)
    finally:
        current.names = names
    of(graph).routed[made] = t
    for op, local in calls:
        _pass(op, graph, local)
    if by_ref:
        _mark_written(calls)
    return made


def route(t: Tensor, graph: Graph, by_ref: bool = False) -> Tensor:
    """Returns the input of `graph` that stands for `t`, a tensor of an outer graph.

    Each graph in between gets such an input. Existing and later calls and loops pass it on.

    Args:
        t: The tensor.
        graph: The graph.
        by_ref: Whether the graph's writes change `t`. `t` then becomes memory if it is not.

    Raises:
        UnsupportedError: An existing call comes before the value, or cannot return it; a branch
            would have to return it; the gradient of a caller exists.
    """
    if of(t).graph not in (graph, *of(graph).sources):
        for inner, ops in _above(graph, of(t).graph).items():
            for op in ops:
                _check(t, op, by_ref)
                if _known(t, inner, by_ref) is None:
                    _core_op(op)
        if by_ref and not of(of(t).root()).is_memory():
            _give_memory(of(t).root())
    return _stand_in(t, graph, by_ref)


def route_into_called(t: Tensor, graph: Graph, by_ref: bool = False) -> Tensor:
    """Like `route`; raises ValueError unless the graph of `t` calls `graph`, directly or not."""
    home = of(t).graph
    above = _above(graph, home)
    callers = [op.graph for ops in above.values() for op in ops]
    if graph is not home and (home not in callers or graph.main_graph in above):
        raise ValueError(
            f"{t!r} is not in the graph {graph.name!r} and is not in a known parent graph: "
            f"{home.name!r} is not a direct or indirect caller for every call of {graph.name!r}."
        )
    return route(t, graph, by_ref)
