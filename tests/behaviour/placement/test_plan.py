"""The cut of poptorch.plan is compared with all other cuts, by its own costs and by those of
compiled programs.
"""

import copy
import itertools
import re

import numpy
import poptorch
import pytest
import torch
from poptorch._impl.placement import part_costs


def random_parts(seed, count):
    generator = numpy.random.default_rng(seed)

    def draw(high):
        return int(generator.integers(1, high))

    return [
        part_costs.Part(
            module=f"m{i}",
            forward_cycles=draw(10_000),
            backward_cycles=draw(20_000),
            weight_bytes=draw(1000),
            state_bytes=draw(4000),
            activation_bytes=draw(2000),
            boundary_bytes=draw(300),
            boundary_cycles=draw(3000),
        )
        for i in range(count)
    ]


def slowest(costs, firsts):
    lasts = [*firsts[1:], costs.count]
    return max(int(costs.cycles(a, b)) for a, b in zip(firsts, lasts, strict=True))


def largest(costs, firsts):
    lasts = [*firsts[1:], costs.count]
    behind = range(len(firsts) - 1, -1, -1)
    return max(int(costs.memory(a, b, k)) for a, b, k in zip(firsts, lasts, behind, strict=True))


def all_cuts(count, stages):
    return ([0, *cuts] for cuts in itertools.combinations(range(1, count), stages - 1))


@pytest.mark.shared
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(("count", "stages"), [(2, 2), (6, 3), (12, 5), (17, 8)])
def test_no_cut_is_better(count, stages, training):
    for seed in range(3):
        costs = part_costs.Costs(random_parts(seed, count), training)
        cuts = list(all_cuts(count, stages))
        tightest = min(largest(costs, firsts) for firsts in cuts)
        for capacity in (10**9, int(1.2 * tightest)):
            firsts, fits = part_costs.best_cuts(costs, stages, capacity)
            assert fits and largest(costs, firsts) <= capacity
            fitting = [slowest(costs, c) for c in cuts if largest(costs, c) <= capacity]
            assert slowest(costs, firsts) == min(fitting)
        firsts, fits = part_costs.best_cuts(costs, stages, tightest - 1)
        assert not fits and largest(costs, firsts) == tightest


def test_24_cuts_over_8_ipus_are_within_5_percent_of_the_exhaustive_optimum():
    count, stages = 25, 8
    costs = part_costs.Costs(random_parts(7, count), True)
    table = numpy.zeros((count, count + 1))
    for first in range(count):
        lasts = numpy.arange(first + 1, count + 1)
        table[first, lasts] = costs.cycles(first, lasts)
    cuts = numpy.array(list(itertools.combinations(range(1, count), stages - 1)))
    edges = numpy.hstack(
        [numpy.zeros((len(cuts), 1), int), cuts, numpy.full((len(cuts), 1), count)]
    )
    exhaustive = table[edges[:, :-1], edges[:, 1:]].max(axis=1).min()
    firsts, _ = part_costs.best_cuts(costs, stages, 10**9)
    assert slowest(costs, firsts) <= 1.05 * exhaustive


class Chain(torch.nn.Module):
    """Layers of very different costs, and a loss."""

    def __init__(self, widths=(64, 512, 512, 64, 2048, 256, 32)):
        super().__init__()
        self.layers = torch.nn.Sequential(
            *(
                torch.nn.Sequential(torch.nn.Linear(a, b), torch.nn.GELU())
                for a, b in itertools.pairwise(widths)
            )
        )

    def forward(self, x, target):
        return torch.nn.functional.mse_loss(self.layers(x), target)


def bottleneck(model, cuts, x, target):
    """Cycles of the slowest IPU of the compiled pipeline."""
    model = copy.deepcopy(model)
    for i, path in enumerate(cuts, 1):
        poptorch.BeginBlock(model.get_submodule(path), str(i), ipu_id=i)
    options = poptorch.Options().autoRoundNumIPUs(True).useOfflineIpuTarget(2)
    options.Training.gradientAccumulation(2 * len(cuts) + 1)
    wrapped = poptorch.trainingModel(model, options)
    wrapped.compile(*(torch.cat([t] * (2 * len(cuts) + 1)) for t in (x, target)))
    return max(stage["cycles"] for stage in per_ipu(wrapped.report()))


def per_ipu(report):
    """Returns the cycles of a micro-batch by IPU."""
    totals = {}
    for stage in report["stages"]:
        totals[stage["ipu"]] = totals.get(stage["ipu"], 0) + stage["cycles"]
    return [{"cycles": cycles} for cycles in totals.values()]


def test_compiled_the_cut_is_within_5_percent_of_the_best(capsys):
    torch.manual_seed(0)
    # Plans leave out transfers with the host, which are short beside layers as wide as these.
    model = Chain((64, 2048, 2048, 256, 8192, 1024, 32))
    x, target = torch.randn(256, 64), torch.randn(256, 32)
    found = poptorch.plan(model, (x, target), 3)
    printed = capsys.readouterr().out
    assert printed.strip() == str(found)
    for line in found.lines:
        assert line in printed
    paths = [f"layers.{i}" for i in range(1, 6)]
    every = {cuts: bottleneck(model, cuts, x, target) for cuts in itertools.combinations(paths, 2)}
    assert bottleneck(model, found.cuts, x, target) <= 1.05 * min(every.values())


def test_the_lines_make_the_cuts():
    model = Chain()
    found = poptorch.plan(model, (torch.randn(4, 64), torch.randn(4, 32)), 3)
    pasted = copy.deepcopy(model)
    exec("\n".join(found.lines), {"poptorch": poptorch, "model": pasted})
    applied = found.apply(copy.deepcopy(model))
    assert poptorch.module_repr(pasted) == poptorch.module_repr(applied)
    assert poptorch.module_repr(pasted).count("BeginBlock") == 2


def test_a_model_larger_than_this_machine_is_planned_on_meta(capsys):
    with torch.device("meta"):
        layers = [torch.nn.Linear(40_000, 40_000, bias=False) for _ in range(8)]
        model = torch.nn.Sequential(*layers).eval()
        found = poptorch.plan(model, torch.empty(1, 40_000), 8)
    assert [stage.weight_bytes for stage in found.stages] == [4 * 40_000**2] * 8
    assert not found.fits and "it does not fit: 64" in capsys.readouterr().out
    assert found.lines[0] == 'poptorch.BeginBlock(model[1], "1", ipu_id=1)'


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(32, 16)
        self.first, self.second = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)
        self.head = torch.nn.Linear(16, 32, bias=False)
        self.head.weight = self.embedding.weight
        self.last = torch.nn.Linear(32, 8)

    def forward(self, x):
        return self.last(self.head(self.second(self.first(self.embedding(x)))))


def test_shared_weights_are_never_parted():
    model = Tied().eval()
    found = poptorch.plan(model, torch.zeros(1, 4, dtype=torch.int32), 2)
    assert found.cuts == ["last"]
    with pytest.raises(poptorch.Error, match="3 IPUs need 2 cuts, but this model allows only 1 "):
        poptorch.plan(model, torch.zeros(1, 4, dtype=torch.int32), 3)


@pytest.mark.parametrize("number", [0, -1, 2.0, "2", True, None])
def test_numbers_of_ipus_that_do_not_exist_are_refused(number):
    with pytest.raises(poptorch.Error, match=re.escape(f"[plan] num_ipus is {number!r}. Pass a ")):
        poptorch.plan(Chain(), (torch.randn(4, 64), torch.randn(4, 32)), number)


@pytest.mark.parametrize("function", [poptorch.plan, poptorch.estimate, poptorch.explain])
def test_arguments_of_other_types_are_refused(function):
    rest = (2,) if function is poptorch.plan else ()
    inputs = (torch.randn(4, 64), torch.randn(4, 32))
    name = function.__name__
    with pytest.raises(poptorch.Error, match=rf"^.*\[{name}\] training is 'yes'\. Pass True, "):
        function(Chain(), inputs, *rest, training="yes")
    if function is not poptorch.explain:
        with pytest.raises(poptorch.Error, match=rf"\[{name}\] options is {{'a': 1}}\. Pass "):
            function(Chain(), inputs, *rest, options={"a": 1})


def test_a_wrapper_gives_its_options_and_optimiser():
    model, inputs = Chain(), (torch.randn(4, 64), torch.randn(4, 32))
    options = poptorch.Options()
    options.Training.gradientAccumulation(6)
    optimizer = torch.optim.Adam(model.parameters())
    asked = poptorch.plan(model, inputs, 2, options=options, optimizer=optimizer)
    wrapped = poptorch.trainingModel(model, options, optimizer)
    assert str(poptorch.plan(wrapped, inputs, 2)) == str(asked)
