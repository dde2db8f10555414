"""Drawings of graphs in Graphviz's language."""

from pathlib import Path
from typing import TYPE_CHECKING

from popxl._impl.records import of

if TYPE_CHECKING:
    from popxl.ir import Ir


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def dot_text(ir: "Ir") -> str:
    """Returns a drawing: one cluster per graph, one node per op, one edge per passed tensor."""
    lines = ["digraph popxl {"]
    for number, graph in enumerate(of(ir).graphs):
        lines += [f"  subgraph cluster_{number} {{", f"    label={_quoted(of(graph).label)};"]
        lines += [
            f"    op{op.id} [label={_quoted(f'{op.op_type}.{op.id}')}];" for op in of(graph).ops
        ]
        for op in of(graph).ops:
            for tensor, maker in op.makers():
                lines.append(f"    op{maker.id} -> op{op.id} [label={_quoted(tensor.name)}];")
        lines.append("  }")
    return "\n".join([*lines, "}", ""])


def checkpoint(ir: "Ir", check: str) -> None:
    """Draws all graphs if session option dotChecks contains `check` or "ALL".

    The file is `<check>.dot` in option logDir, by default the working directory. Further files of
    that name get a number.
    """
    options = ir._pb_ir.getSessionOptions()
    if not check or not {check.upper(), "ALL"} & {name.upper() for name in options.dotChecks}:
        return
    folder = Path(options.logDir)
    folder.mkdir(parents=True, exist_ok=True)
    number = of(ir).next(f"drawing {check}")
    name = f"{check}_{number}" if number else check
    (folder / f"{name}.dot").write_text(dot_text(ir))
