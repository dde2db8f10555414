"""Graphs as a drawing in Graphviz's language."""

from typing import TYPE_CHECKING

from popxl.records import of

if TYPE_CHECKING:
    from popxl.ir import Ir


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def dot_text(ir: "Ir") -> str:
    """A cluster a graph, a node an op, an edge for each tensor that one op hands to another."""
    lines = ["digraph popxl {"]
    for number, graph in enumerate(of(ir).graphs):
        lines += [f"  subgraph cluster_{number} {{", f"    label={_quoted(graph.name)};"]
        lines += [
            f"    op{op.id} [label={_quoted(f'{op.op_type}.{op.id}')}];" for op in of(graph).ops
        ]
        for op in of(graph).ops:
            for tensor, maker in op.makers():
                lines.append(f"    op{maker.id} -> op{op.id} [label={_quoted(tensor.name)}];")
        lines.append("  }")
    return "\n".join([*lines, "}", ""])
