"""Compares the cost model with published figures.

`python -m benchmarks.fidelity --micro` prints microbenchmarks: products, convolutions, exchange.
`python -m benchmarks.fidelity --plot` plots these in docs/images/microbenchmarks.svg.
`python -m benchmarks.fidelity --inference` prints the inference throughputs of one IPU.
`python -m benchmarks.fidelity --memory` prints which configurations fit into memory.
`python -m benchmarks.fidelity [--rows 1,14]` prints training throughputs.
"""

import argparse
import json
from pathlib import Path

from .micro import print_micro
from .statistics import mean_error, rank_correlation

WITHIN = 0.25


def main(arguments=None) -> int:
    """Prints the tables that the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--micro", action="store_true", help="the microbenchmarks alone")
    parser.add_argument("--plot", action="store_true", help="plot the microbenchmarks")
    parser.add_argument("--inference", action="store_true", help="inference of one IPU alone")
    parser.add_argument("--memory", action="store_true", help="what fits into memory alone")
    parser.add_argument("--rows", default="", help="numbers of rows, with commas; default: all")
    parser.add_argument("--json", type=Path, help="a file for the figures of the rows")
    parser.add_argument("--page", action="store_true", help="write the table into the page")
    given = parser.parse_args(arguments)
    if given.micro:
        return 0 if print_micro() >= 0.9 else 1
    if given.plot:
        from .plot import write_plot

        write_plot()
        return 0
    if given.inference:
        from .inference import print_inference

        print_inference()
        return 0
    if given.memory:
        from .memory import print_memory

        print_memory()
        return 0
    return _print_rows(
        {int(number) for number in given.rows.split(",") if number}, given.json, given.page
    )


def _print_rows(numbers, file, page) -> int:
    from .page import write
    from .predict import predict
    from .rows import rows

    wanted = [row for row in rows() if not numbers or row.number in numbers]
    if missing := numbers - {row.number for row in wanted}:
        raise SystemExit(f"[benchmarks] row {min(missing)} has no model here.")
    made = []
    print(f"{'row':>4} {'':52}{'published':>10}{'ours':>10}{'ratio':>7}")
    for row in wanted:
        found = predict(row)
        made.append(found)
        mark = "predict" if row.marked else ""
        outside = "" if abs(found.ratio - 1) <= WITHIN else "  outside"
        print(f"{row.number:>4} {row.title:52}{row.published:10,.0f}{found.samples:10,.0f}"
              f"{found.ratio:7.2f} {mark:8}{found.limit}{outside}", flush=True)  # fmt: skip
    text = summary(made)
    print(f"\n{text}")
    if file:
        file.write_text(json.dumps(
            [{"row": f.row.number, "title": f.row.title, "published": f.row.published,
              "ours": f.samples, "marked": f.row.marked, "limit": f.limit} for f in made], indent=1
        ))  # fmt: skip
    if page:
        write(made, text)
    return 0


def summary(predictions) -> str:
    """Returns a sentence on the marked rows."""
    marked = [found for found in predictions if found.row.marked]
    if not marked:
        return "No row is marked."
    ratios = [found.ratio for found in marked]
    inside = sum(abs(ratio - 1) <= WITHIN for ratio in ratios)
    ranks = rank_correlation([(found.samples, found.row.published) for found in marked])
    return (
        f"Predicted rows: {inside} of {len(marked)} within {WITHIN:.0%}, mean absolute error "
        f"{mean_error(ratios):.1%}, rank correlation {ranks:.2f}."
    )


if __name__ == "__main__":
    raise SystemExit(main())
