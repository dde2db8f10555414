"""Writes the table of training throughputs into the page on the machine."""

from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "machine.md"
BEGIN, END = "<!-- fidelity -->\n", "<!-- end of fidelity -->\n"
# Published figures that explain rows outside 25 %, by their numbers.
REASONS = {
    4: "In PopART the same configuration reached 22,759 sequences, 23 % more than in PyTorch; "
    "from Pod16 to Pod64 PyTorch lost 18 %, PopART 6 % (row 5 and its Pod64 figure).",
    10: "As row 4: PopART reached 7,789 sequences on a Pod64, 19 % more than PyTorch.",
    12: "In PopART the same configuration reached 17 % more (row 13).",
    13: "Per layer and sample, the published run is 18 % slower than row 7 with the same length; "
    "the model finds equal speed.",
    25: "Not explained. Operations on elements take half of the time; their factor was fitted to "
    "BERT.",
    26: "As row 25.",
    30: "Not explained. Its 6.4 TFLOP/s are a tenth of what products in float32 reach.",
    33: "Not explained by the program: 34 TFLOP/s are half of row 21's. The run augmented real "
    "images on the host.",
    35: "Row 36 is within 25 %. From POD16 to POD64 the published runs lose 8 %; ours loses none.",
    29: "Our program computes 77 % of the time and waits 22 % for images from the host; the "
    "published one generated its data.",
}


def table(predictions) -> str:
    """Return the table in Markdown, with reasons after it."""
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
    reasons = [
        f"- Row {number}: {reason}"
        for number, reason in REASONS.items()
        if any(f.row.number == number and abs(f.ratio - 1) > 0.25 for f in predictions)
    ]
    return "\n".join([*lines, "", "Rows that differ by more than 25 %:", "", *reasons]) + "\n"


def write(predictions, summary) -> None:
    """Replace the table of the page."""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table(predictions)}\n{summary}\n\n{END}{after}")
