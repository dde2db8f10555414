"""The search for the best cuts is exact, costs few of them, and notices stages that differ."""

import itertools
import random

import pytest

from benchmarks.best_cuts import BestCuts, Run

PARTS = 12


class Pipeline:
    """A pipeline of random parts; a run also takes the copies and the waiting of its cuts, and a
    stream with the host.
    """

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.parts = [self.draw.randint(1, 100) for _ in range(PARTS)]
        self.costed = []
        self.host = self.draw.choice([0, 200])
        self.copies = [self.draw.randint(0, 80) for _ in range(PARTS + 1)]

    def cost(self, firsts):
        assert firsts not in self.costed
        self.costed.append(firsts)
        return self.run(firsts)

    def run(self, firsts):
        ends = (*firsts[1:], PARTS)
        pairs = enumerate(zip(firsts, ends, strict=True))
        ops = [(k + 1) * sum(self.parts[first:end]) for k, (first, end) in pairs]
        cycles = max(ops) + sum(self.copies[first] for first in firsts) + self.host
        return Run(cycles, tuple(ops), self.host)


def every(stages):
    return [(0, *cuts) for cuts in itertools.combinations(range(1, PARTS), stages - 1)]


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("seed", range(20))
def test_the_best_cuts_are_those_of_all_cuts(seed, stages):
    pipeline = Pipeline(seed)
    search = BestCuts(PARTS, stages, pipeline.cost)
    firsts, cycles = search.run(pipeline.draw.choice(every(stages)))
    assert cycles == min(pipeline.run(each).cycles for each in every(stages))
    assert pipeline.run(firsts).cycles == cycles
    assert search.costed == len(pipeline.costed) <= len(every(stages))


def test_a_good_start_rules_out_most_cuts():
    pipeline = Pipeline(1)
    pipeline.copies = [0] * (PARTS + 1)
    best = min(every(5), key=lambda each: pipeline.run(each).cycles)
    search = BestCuts(PARTS, 5, pipeline.cost)
    assert search.run(best)[0] == best
    assert search.costed < len(every(5)) / 10


def test_a_host_whose_cycles_depend_on_the_cuts_is_an_error():
    def cost(firsts):
        return Run(1000, (1, 1, 1), firsts[1])

    with pytest.raises(ValueError, match="The longest stream takes 2 cycles .* not exact"):
        BestCuts(6, 3, cost).run((0, 1, 2))


def test_a_stage_whose_cycles_depend_on_other_cuts_is_an_error():
    def cost(firsts):
        return Run(1000 + sum(firsts), (sum(firsts), 900, 1))

    with pytest.raises(ValueError, match="The ops of IPU 0 with parts 0 to 1 take .* not exact"):
        BestCuts(6, 3, cost).run((0, 1, 2))
