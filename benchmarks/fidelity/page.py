"""Writes the table of training throughputs into the page on the machine."""

from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "machine.md"
BEGIN, END = "<!-- fidelity -->\n", "<!-- end of fidelity -->\n"
WITHIN = 0.25


def table(predictions) -> str:
    """Returns the table in Markdown, and the rows that are outside."""
    lines = [
        "| row | model and machine | published | ours | ours ÷ published | limiting factor |",
        "|---|---|---|---|---|---|",
    ]
    for found in predictions:
        row, mark = found.row, "**" if found.row.marked else ""
        lines.append(
            f"| {mark}{row.number}{mark} | {mark}{row.title}{mark} | {row.published:,.0f} | "
            f"{found.samples:,.0f} | {found.ratio:.2f} | {found.limit} |"
        )
    outside = [found for found in predictions if abs(found.ratio - 1) > WITHIN]
    for title, marked in (("bold", True), ("other", False)):
        numbers = [str(found.row.number) for found in outside if found.row.marked == marked]
        listed = ", ".join(numbers) or "none"
        lines += ["", f"Outside {WITHIN:.0%}, of the {title} rows: {listed}."]
    return "\n".join(lines) + "\n"


def write(predictions, summary) -> None:
    """Replaces the table of the page."""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table(predictions)}\n{summary}\n\n{END}{after}")
