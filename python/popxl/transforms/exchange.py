"""merge_exchange and io_tile_exchange: merge transfers written inside into one op.

The merged op, "MultiExchange", replaces the last of its parts. The program's results are unchanged.
A transfer that needs another's result cannot be merged with it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from popxl._impl.records import of
from popxl.context import get_op_graph, in_sequence, io_tiles
from popxl.graph import Graph, OpRecord

_MERGED = "MultiExchange"
_TRANSFERS = ("HostLoad", "HostStore", "RemoteLoad", "RemoteLoadInplace", "RemoteStore")


def _merge(graph: Graph, first: int) -> list[OpRecord]:
    """Merges transfers among the graph's ops from index `first`; returns the resulting ops."""
    new = of(graph).ops[first:]
    groups: list[list[OpRecord]] = [[]]
    needs: set[int] = set()  # ops that depend, directly or not, on a transfer of the open group
    for op in new:
        before = {maker.id for _, maker in op.makers()}
        depends = bool((before | set(op.after)) & needs)
        if op.op_type in _TRANSFERS:
            if depends:
                groups.append([])
                needs = set()
            groups[-1].append(op)
            needs.add(op.id)
        elif depends:
            needs.add(op.id)
    for group in groups:
        if len(group) > 1:
            _replace(graph, group)
    return of(graph).ops[first:]


def _replace(graph: Graph, group: list[OpRecord]) -> None:
    last = group[-1]
    merged = OpRecord(last.id, _MERGED, graph, [])
    inside = {op.id for op in group}
    for op in group:
        merged.inputs += op.inputs
        merged.outputs += op.outputs
        merged.modified += op.modified
        merged.after += [i for i in op.after if i not in inside]
    for tensor in merged.outputs:
        of(tensor).producer = merged
    of(graph).ops = [
        merged if op is last else op for op in of(graph).ops if op.id not in inside or op is last
    ]
    for op in of(graph).ops:
        op.after = [last.id if i in inside and op is not merged else i for i in op.after]


@contextmanager
def merge_exchange() -> Iterator[None]:
    """Merges host and remote loads and stores written inside into one op where possible.

    It applies to the graph that is current at the start.
    """
    graph = get_op_graph()
    first = len(of(graph).ops)
    yield
    _merge(graph, first)


@contextmanager
def io_tile_exchange(verify_overlap: bool = True) -> Iterator[None]:
    """`merge_exchange` on the io tiles, so that the transfers overlap with computation.

    Args:
        verify_overlap: Whether to check that at most one op (apart from Init) is left.

    Raises:
        RuntimeError: More ops are left, and verify_overlap is set.
    """
    graph = get_op_graph()
    first = len(of(graph).ops)
    with in_sequence(False), io_tiles():
        yield
    left = [op for op in _merge(graph, first) if op.op_type != "Init"]
    if verify_overlap and len(left) > 1:
        found = ", ".join(f"{op.op_type}.{op.id}" for op in left)
        raise RuntimeError(
            f"The transfers of io_tile_exchange could not be merged into one op: {found} are left. "
            "Write only independent loads and stores inside."
        )
