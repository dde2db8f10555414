"""Turns the main graph into a loop over its former ops."""

import copy
import json
from typing import Any

from popxl._impl.records import ConstantRecord, of
from popxl._impl.records.link import made
from popxl.dtypes import as_bits, core_name
from popxl.graph import Graph, make_graph
from popxl.ops.build import OpBuild
from popxl.tensor import Tensor


def _is_outside(tensor: Tensor) -> bool:
    """Returns whether a tensor stays in the main graph.

    Variables, constants, shards and views of them do.
    """
    kept = of(tensor)
    return kept.producer is None


def _twin(tensor: Tensor, inner: Any, copies: dict) -> Tensor:
    """Returns the inner graph's input for a tensor of the main graph."""
    record: Any = copy.copy(of(tensor))
    record.tensor = twin = made(Tensor, record)
    if record.value is not None:
        record.value = copies.get(record.value)
    inner.keep(twin, inner.id_of(tensor.name))
    return twin


def _slot(tensor: Tensor) -> str:
    """Returns the name of a tensor's state; empty if it has none."""
    kept: Any = of(tensor)
    if isinstance(kept, ConstantRecord) or kept.base is not None or kept.value is None:
        return ""
    return json.loads(kept.value.producer.attrs["name"])


def _restore(tensor: Tensor, slot: str, outer: Any) -> None:
    """Makes a new value in the emptied main graph for a tensor that stays there."""
    kept: Any = of(tensor)
    if slot:
        kept.value = outer.core.variable(slot)
    elif isinstance(kept, ConstantRecord):
        kept.value = outer.core.constant(as_bits(kept.data), core_name(kept.dtype))
    kept.seen = -1


def repeat_main(graph: Graph, name: str, count: int) -> Graph:
    """Moves the ops of the main graph into a new graph, which a loop runs `count` times.

    Variables and constants stay; the used ones become by-reference inputs of the new graph.

    Returns:
        The new graph.
    """
    program, outer = of(graph.ir), of(graph)
    inner_graph = make_graph(graph.ir, name, program.core_name(name))
    inner = of(inner_graph)
    copies = dict(outer.core.copy_ops_to(inner.core))
    cores = zip(outer.core.ops, inner.core.ops, strict=True)
    ids = {old.id: new.id for old, new in cores}
    staying = [t for t in outer.tensors.values() if _is_outside(t)]
    twins = {t: _twin(t, inner, copies) for t in staying}
    for twin in twins.values():
        if (base := of(twin).base) is not None:
            of(twin).base = twins[base]
    for tensor in [t for t in outer.tensors.values() if t not in twins]:
        kept = of(tensor)
        inner.keep(tensor, inner.id_of(tensor.name))
        if kept.base is not None:
            kept.base, kept.seen = twins.get(kept.base, kept.base), -1
        elif kept.value is not None:
            kept.value = copies[kept.value]
            inner.by_value[kept.value] = tensor
    for op in outer.ops:
        op.graph, op.core = inner_graph, ids.get(op.core)
        op.inputs = [t if t is None else twins.get(t, t) for t in op.inputs]
        op.modified = [twins.get(t, t) for t in op.modified]
    inner.ops, outer.ops, inner.placed = outer.ops, [], outer.placed
    used = dict.fromkeys(t for op in inner.ops for t in op.inputs if t is not None)
    passed = {t: twin for t, twin in twins.items() if twin in used}
    inner.inputs = list(passed.values())
    slots = {t: _slot(t) for t in staying}
    outer.core.erase_ops()
    for tensor, slot in slots.items():
        _restore(tensor, slot, outer)
    outer.tensors = {t.id: t for t in staying}
    outer.by_value = {of(t).value: t for t in staying if of(t).base is None}
    written = {t for op in inner.ops for t in op.modified}
    with graph:
        loop = OpBuild("Loop", *passed, together=False)
        loop.record.called, loop.record.repeats = (inner_graph,), count
        loop.emit("repeat", graph=inner.core, count=count)
        for tensor, twin in passed.items():
            if twin in written:
                loop.record.modified.append(tensor)
                of(tensor).version += 1
        loop.done()
    return inner_graph
