"""Shows elementwise ops of gradient graphs as in-place ops, which they may be on hardware."""

from collections import Counter
from collections.abc import Iterable

from popxl._impl.records import of
from popxl.graph import Graph, OpRecord
from popxl.tensor import Tensor

# The in-place types of each type, with the index of the input that they write.
_FORMS = {kind: [(f"{kind}LhsInplace", 0), (f"{kind}RhsInplace", 1)] for kind in ("Add", "Mul")}
_FORMS |= {kind: [(f"{kind}Inplace", 0)] for kind in ("Exp", "Relu", "Gelu", "GeluErf", "Swish")}


def show_in_place(graphs: Iterable[Graph]) -> None:
    """Gives elementwise ops the in-place type, e.g. MulLhsInplace, if no other op uses their input.

    An op of the graph must make the input. The computation is unchanged.
    """
    for graph in graphs:
        uses = Counter(t for op in of(graph).ops for t in op.inputs if t is not None)
        uses.update(graph.outputs)
        for op in of(graph).ops:
            _show(op, uses)


def _show(op: OpRecord, uses: "Counter[Tensor]") -> None:
    for kind, place in _FORMS.get(op.op_type, ()):
        t, out = op.inputs[place], op.outputs[0]
        if t is None or of(t).producer is None or of(t).is_memory() or uses[t] > 1:
            continue
        if (t.shape, t.dtype) == (out.shape, out.dtype):
            op.op_type = kind
            op.modified.append(t)
            return
