"""HTML for notebooks. All texts are escaped."""

from collections.abc import Iterable, Sequence
from html import escape

from poptorch._impl.wrapper.compiled_model import Compiled


def table(head: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """Returns a table whose first column has texts and whose others have numbers."""

    def line(tag: str, cells: Sequence[object]) -> str:
        texts = [
            f'<{tag} style="text-align:{"left" if i == 0 else "right"}">{escape(str(cell))}</{tag}>'
            for i, cell in enumerate(cells)
        ]
        return f"<tr>{''.join(texts)}</tr>"

    body = "".join(line("td", row) for row in rows)
    above = f'<caption style="text-align:left">{escape(caption)}</caption>' if caption else ""
    return f"<table>{above}<thead>{line('th', head)}</thead><tbody>{body}</tbody></table>"


def paragraph(text: str) -> str:
    """Returns a paragraph."""
    return f"<p>{escape(text)}</p>"


def code(lines: Iterable[str]) -> str:
    """Returns lines to paste as a block."""
    return f"<pre>{escape(chr(10).join(lines))}</pre>"


def size(count: float) -> str:
    """Formats a number of bytes."""
    for unit, bytes_of_unit in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= bytes_of_unit:
            return f"{count / bytes_of_unit:,.1f} {unit}"
    return f"{count} B"


_TIMES = {"compute": "compute", "link": "exchange", "host": "host", "streaming": "streaming",
          "idle": "waiting"}  # fmt: skip


def of_compiled(compiled: Compiled) -> str:
    """Returns a table of each IPU's memory and the shares of its time."""
    report = compiled.executable.report()
    run = max(report["cycles_per_run"], 1)
    rows = [
        (
            f"IPU {number}",
            f"{size(ipu['needed_bytes'])} of {size(ipu['capacity_bytes'])}",
            *(f"{ipu[f'{key}_cycles'] / run:.0%}" for key in _TIMES),
        )
        for number, ipu in enumerate(report["ipus"])
    ]
    caption = f"{compiled.name}, compiled for {report['device']}"
    if report["replicas"] > 1:
        caption += f", {report['replicas']} replicas"
    caption += f": {report['seconds_per_run'] * 1e3:.3g} ms a run by the device's cost model"
    return table(("IPU", "memory", *_TIMES.values()), rows, caption)
