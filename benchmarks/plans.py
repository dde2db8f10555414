"""Compares the cuts of poptorch.plan with the best ones, each costed by its compiled program.

All cuts of a model are costed, or those that branch and bound does not rule out.

`python -m benchmarks.plans` prints the cycles of a run with the planned cuts beside the best ones.
`--models BERT-small,ViT` and `--ipus 2` choose; `--page` writes the table into docs/machine.md.
"""

import argparse
import contextlib
import io
import itertools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import poptorch
from poptorch._impl.placement import planned_cuts, profiled_parts

from benchmarks.best_cuts import BestCuts, Firsts, Run
from benchmarks.planned_models import PlannedModel, planned_models

PAGE = Path(__file__).parents[1] / "docs" / "machine.md"
BEGIN, END = "<!-- plans -->", "<!-- end of plans -->"
WITHIN = 1.05
MOST_COSTED = 300  # of a model whose cuts are all costed, without bounds


@dataclass(frozen=True)
class Comparison:
    """The plan of a model beside the best of all cuts."""

    name: str
    ipus: int
    candidates: int
    costed: int
    seconds: float  # CPU time of poptorch.plan
    planned: int  # cycles of a run
    best: int
    even: int  # with the same number of parts in each stage
    cuts: tuple[str, ...]
    best_cuts: tuple[str, ...]

    @property
    def ratio(self) -> float:
        """The cycles with the planned cuts, divided by those with the best ones."""
        return self.planned / self.best


def options_of(ipus: int) -> poptorch.Options:
    """Returns options with the micro-batches of a run that poptorch.plan assumes."""
    options = poptorch.Options().useOfflineIpuTarget(2)
    options.Training.gradientAccumulation(64)
    return options


def compare(planned: PlannedModel, ipus: int) -> Comparison:
    """Plans a model, and finds the best of all cuts that its modules allow."""
    model, inputs, optimizer = planned.made()
    options = options_of(ipus)
    begin = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        plan = poptorch.plan(model, inputs, ipus, optimizer=optimizer, options=options)
    seconds = time.process_time() - begin

    def run_of(cuts: Sequence[str]) -> Run:
        made = planned_cuts.estimate(
            model, inputs, options, cuts, training=True, optimizer=optimizer
        )
        if not made.fits:
            raise ValueError(f"{planned.name} does not fit with the cuts {cuts}.")
        host = max(stream["cycles"] for stream in made.report["streams"])
        return Run(made.cycles_per_run, cycles_of_ops(made.report, ipus), host)

    parts, _ = profiled_parts.profile(model, inputs, options, optimizer, training=True)
    paths = [part.module for part in parts]

    def cost(firsts: Firsts) -> Run:
        return run_of([paths[first] for first in firsts[1:]])

    candidates = math.comb(len(paths) - 1, ipus - 1)
    if candidates <= MOST_COSTED:
        costed = candidates
        everyone = [(0, *cuts) for cuts in itertools.combinations(range(1, len(paths)), ipus - 1)]
        least, best = min((cost(firsts).cycles, firsts) for firsts in everyone)
    else:
        search = BestCuts(len(paths), ipus, cost)
        best, least = search.run((0, *(paths.index(cut) for cut in plan.cuts)))
        costed = search.costed
    even = [paths[len(paths) * k // ipus] for k in range(1, ipus)]
    return Comparison(
        planned.name, ipus, candidates, costed, seconds, run_of(plan.cuts).cycles,
        least, run_of(even).cycles, tuple(plan.cuts), tuple(paths[i] for i in best[1:]),
    )  # fmt: skip


def cycles_of_ops(report: dict, ipus: int) -> tuple[int, ...]:
    """Returns the cycles of the ops of each IPU in a run."""
    totals = [0] * ipus
    for op in report["ops"]:
        totals[op["ipu"]] += op["cycles"]
    return tuple(totals)


def comparisons(names: set[str], ipus: set[int]) -> Iterator[Comparison]:
    """Yields the comparisons of the chosen models; empty sets choose all."""
    for planned in planned_models():
        for count in planned.ipus:
            if (not names or planned.name in names) and (not ipus or count in ipus):
                yield compare(planned, count)


def table(found: Sequence[Comparison]) -> str:
    """Returns the table of the page."""
    lines = [
        "| model | IPUs | possible cuts | costed | planned ÷ best | even ÷ best "
        "| CPU time of plan |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in found:
        lines.append(
            f"| {each.name} | {each.ipus} | {each.candidates:,} | {each.costed:,} | "
            f"{each.ratio:.3f} | {each.even / each.best:.2f} | {each.seconds:.1f} s |"
        )
    return "\n".join(lines)


def _write(text: str) -> None:
    page = PAGE.read_text()
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{tail}")


def main(arguments=None) -> int:
    """Runs the command line; returns 1 if a plan is more than 5 % from the best."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="", help="names of models, with commas; default: all")
    parser.add_argument("--ipus", default="", help="numbers of IPUs, with commas; default: all")
    parser.add_argument("--page", action="store_true", help="write the table into the page")
    given = parser.parse_args(arguments)
    poptorch.setLogLevel("ERR")
    names = {name for name in given.models.split(",") if name}
    if unknown := names - {planned.name for planned in planned_models()}:
        parser.error(f"no model is named {sorted(unknown)[0]!r}.")
    found = []
    for each in comparisons(names, {int(count) for count in given.ipus.split(",") if count}):
        found.append(each)
        print(f"{each.name:20}{each.ipus} IPUs {each.candidates:6,} cuts  {each.costed:5,} costed  "
              f"planned {each.planned:,}  best {each.best:,}  ratio {each.ratio:.3f}  "
              f"plan {each.seconds:.1f} s  {', '.join(each.cuts)}", flush=True)  # fmt: skip
    if given.page:
        _write(table(found))
    return 0 if all(each.ratio <= WITHIN for each in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
