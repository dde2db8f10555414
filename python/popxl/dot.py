"""Graphs as a drawing in Graphviz's language."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from popxl.ir import Ir


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def dot_text(ir: "Ir") -> str:
    """A cluster a graph, a node an op, an edge for each tensor that one op hands to another."""
    lines = ["digraph popxl {"]
    for number, graph in enumerate(ir._graphs):
        lines += [f"  subgraph cluster_{number} {{", f"    label={_quoted(graph.name)};"]
        lines += [f"    op{op.id} [label={_quoted(f'{op.op_type}.{op.id}')}];" for op in graph._ops]
        for op in graph._ops:
            for tensor in op.inputs:
                if tensor is not None and tensor._producer is not None:
                    edge = f"op{tensor._producer.id} -> op{op.id}"
                    lines.append(f"    {edge} [label={_quoted(tensor.name)}];")
        lines.append("  }")
    return "\n".join([*lines, "}", ""])
