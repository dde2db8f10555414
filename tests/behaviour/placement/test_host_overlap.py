"""Tests host transfers that overlap with computation: set_overlap_for_input and _output, IO tiles,
the schedule.
"""

import json
import textwrap

import poptorch
import pytest
import torch
from poptorch import OverlapMode

ACCUMULATION = OverlapMode.OverlapAccumulationLoop
ITERATIONS = OverlapMode.OverlapDeviceIterationLoop


class Network(torch.nn.Module):
    """Two layers; the transfers of the input and the outputs overlap as requested."""

    def __init__(self, input_mode, output_mode):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.modes = input_mode, output_mode

    def forward(self, x):
        x = poptorch.set_overlap_for_input(x, self.modes[0])
        y = self.second(torch.tanh(self.first(x)))
        loss = poptorch.identity_loss(y.square(), reduction="mean")
        return poptorch.set_overlap_for_output((y, loss), self.modes[1])


def options(io_tiles=32, rounds=3, accumulation=1):
    made = poptorch.Options().showCompilationProgressBar(False).deviceIterations(rounds)
    made.setExecutionStrategy(poptorch.ShardedExecution())
    made.outputMode(poptorch.OutputMode.All)
    made.Training.gradientAccumulation(accumulation)
    if io_tiles:
        made.TensorLocations.numIOTiles(io_tiles)
    return made


def compiled(*modes, **keywords):
    torch.manual_seed(1)
    made = poptorch.inferenceModel(Network(*modes), options(**keywords))
    made.compile(torch.randn(6, 4))
    return made


def test_values_and_gradients_are_those_of_the_host():
    torch.manual_seed(1)
    network = Network(ACCUMULATION, ITERATIONS)
    twin = Network(OverlapMode.NoOverlap, OverlapMode.NoOverlap)
    twin.load_state_dict(network.state_dict())
    model = poptorch.trainingModel(
        network, options(rounds=2, accumulation=2), poptorch.optim.SGD(network.parameters(), lr=0.1)
    )
    x = torch.randn(8, 4)
    y, losses = model(x)
    optimiser = torch.optim.SGD(twin.parameters(), lr=0.1)
    expected = []
    for update in x.chunk(2):
        optimiser.zero_grad()
        for batch in update.chunk(2):
            out, loss = twin(batch)
            (loss / 2).backward()
            expected.append((out.detach(), loss.detach()))
        optimiser.step()
    torch.testing.assert_close(y, torch.cat([out for out, _ in expected]))
    torch.testing.assert_close(losses, torch.stack([loss for _, loss in expected]))
    torch.testing.assert_close(network.state_dict(), twin.state_dict())


DRAWINGS = {
    "inputs come while the iteration before computes": (
        (ITERATIONS, OverlapMode.NoOverlap),
        """
        step   0     1   2
        IPU 0  0     1   2
        I/O 0  ~<0~<1 ~<2 .
        input x overlaps with the device iteration loop
        """,
    ),
    "outputs go while the next iteration computes": (
        (OverlapMode.NoOverlap, ITERATIONS),
        """
        IPU 0  0 1 2
        I/O 0  . ~>0 ~>1~>2
        output output0 overlaps with the device iteration loop
        """,
    ),
    "a loop of one round": (
        (ACCUMULATION, OverlapMode.NoOverlap),
        """
        IPU 0  0 1 2
        input x overlaps with the accumulation loop, which has a single round
        """,
    ),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_the_schedule_shows_the_overlap(name, capsys):
    modes, drawing = DRAWINGS[name]
    compiled(*modes).printSchedule()
    shown = capsys.readouterr().out.splitlines()
    for line in textwrap.dedent(drawing).strip().splitlines():
        assert line.split() in [other.split() for other in shown], "\n".join(shown)


def test_the_schedule_as_data_names_streams_transfers_and_io_tiles():
    schedule = json.loads(json.dumps(compiled(ITERATIONS, ITERATIONS, io_tiles=64).schedule()))
    assert schedule["io_tiles"] == 64
    overlaps = {stream["name"]: stream["overlap"] for stream in schedule["streams"]}
    assert overlaps == dict.fromkeys(("x", "output0", "output1"), "device_iteration_loop")
    moves = {(t["kind"], t["micro_batch"], t["step"]) for t in schedule["transfers"]}
    assert moves >= {("in", 0, 0), ("in", 1, 0), ("in", 2, 1), ("out", 0, 1), ("out", 2, 2)}
    assert all(t["io_tiles"] and t["bytes"] > 0 for t in schedule["transfers"])


def test_the_accumulation_loop_ends_at_the_weight_update():
    def steps(mode):
        made = poptorch.trainingModel(
            Network(mode, OverlapMode.NoOverlap), options(rounds=2, accumulation=2)
        )
        made.compile(torch.randn(8, 4))
        return {t["micro_batch"]: t["step"] for t in made.schedule()["transfers"]}

    assert steps(ACCUMULATION) == {0: 0, 1: 0, 2: 2, 3: 2}
    assert steps(ITERATIONS) == {0: 0, 1: 0, 2: 1, 3: 2}


def test_overlap_saves_modelled_time():
    def cycles(mode, rounds=8):
        made = poptorch.inferenceModel(Network(mode, mode), options(rounds=rounds))
        made.compile(torch.randn(rounds * 512, 4))
        return made.report()

    plain, hidden = cycles(OverlapMode.NoOverlap), cycles(ITERATIONS)
    assert hidden["cycles_per_run"] < plain["cycles_per_run"]
    work = hidden["ipus"][0]
    assert work["overlapped_cycles"] == work["host_cycles"] > 0
    assert hidden["cycles_per_run"] >= max(work["host_cycles"], work["compute_cycles"])
    assert plain["ipus"][0]["overlapped_cycles"] == 0


class Misplaced(torch.nn.Module):
    """`place` is one of the refused uses."""

    def __init__(self, place):
        super().__init__()
        self.place = place

    def forward(self, x):
        if self.place == "not an input":
            return poptorch.set_overlap_for_input(x + 1, ITERATIONS) * 2
        if self.place == "used twice":
            return x + poptorch.set_overlap_for_input(x, ITERATIONS)
        if self.place == "returned twice":
            y = poptorch.set_overlap_for_output(x * 2, ITERATIONS)
            return y, [y]
        if self.place == "returned before the mark":
            y = x * 2
            return y, poptorch.set_overlap_for_output(y, ITERATIONS)
        if self.place == "marked twice":
            y = x * 2
            return poptorch.set_overlap_for_output([y, (y,)], ITERATIONS)
        return poptorch.set_overlap_for_output(x * 2, ITERATIONS) + 1


RETURNED_TWICE = (
    "poptorch.set_overlap_for_output cannot be used with a tensor that is returned twice. Please "
    "check all returned tensors including those nested in tuples/lists."
)
REFUSED = {
    "not an input": r"poptorch.set_overlap_for_input applied on a node which is not a tensor input "
    r"to the model\..*\(\S*test_host_overlap.py:\d+\)",
    "used twice": r"poptorch.set_overlap_for_input must be the only op applied to an input\. This "
    r"is not the case for input 0 to the model\.",
    "returned twice": RETURNED_TWICE,
    "returned before the mark": RETURNED_TWICE,
    "marked twice": RETURNED_TWICE,
    "not an output": "poptorch.set_overlap_for_output applied on a node which is not a tensor "
    "output to the model.",
}


@pytest.mark.parametrize("place", REFUSED)
def test_marks_on_other_values_are_refused(place):
    # The error is about the mark, although the execution lacks IO tiles as well.
    lacking = options(io_tiles=0).setExecutionStrategy(poptorch.PipelinedExecution())
    lacking.outputMode(poptorch.OutputMode.Final)
    model = poptorch.inferenceModel(Misplaced(place), lacking)
    with pytest.raises(poptorch.Error, match=REFUSED[place]):
        model.compile(torch.randn(3, 4))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (
            lambda o: o.setExecutionStrategy(poptorch.PipelinedExecution()),
            "Overlapped IO is not supported with poptorch.PipelinedExecution. If you are using "
            "only one IPU, please switch to poptorch.ShardedExecution.",
        ),
        (
            lambda o: o.outputMode(poptorch.OutputMode.Final),
            "Unsupported output mode for overlapped IO. Please switch output mode to "
            "poptorch.OutputMode.All or poptorch.OutputMode.Sum.",
        ),
    ],
)
def test_options_that_overlap_nothing_are_refused(change, match):
    model = poptorch.inferenceModel(Network(ITERATIONS, ITERATIONS), change(options()))
    with pytest.raises(poptorch.Error, match=match):
        model.compile(torch.randn(6, 4))


def marks_used(image, *others, **held):
    other = others[0] if others else held["b"]["a"][0]
    return image * other + poptorch.set_overlap_for_input(other, ITERATIONS)


@pytest.mark.parametrize(
    ("others", "held", "name"),
    [
        ([torch.ones(3)], {}, r"others\[0\]"),
        ([], {"b": {"a": [torch.ones(3)]}}, r"b\['a'\]\[0\]"),
    ],
)
def test_an_input_is_called_by_its_number_and_its_argument(others, held, name):
    made = poptorch.inferenceModel(marks_used, options())
    text = rf"not the case for input 1 to the model\. 2 ops use it \(the argument {name}\)"
    with pytest.raises(poptorch.Error, match=text):
        made.compile(torch.ones(3), *others, **held)


class UsedElsewhere(torch.nn.Module):
    """Other ops use the marked value, before the mark and after it."""

    def forward(self, x):
        y = x + 1
        before = y * 2
        marked = poptorch.set_overlap_for_output(y, ITERATIONS)
        return marked, before, y * 3, marked * 4


def test_a_marked_output_may_be_used():
    x = torch.randn(6, 4)
    found = poptorch.inferenceModel(UsedElsewhere(), options())(x)
    for ours, factor in zip(found, (1, 2, 3, 4), strict=True):
        torch.testing.assert_close(ours, (x + 1) * factor)


def test_io_tiles_are_needed():
    model = poptorch.inferenceModel(Network(ITERATIONS, ITERATIONS), options(io_tiles=0))
    with pytest.raises(poptorch.Error, match="must allocate at least 32 IO tiles"):
        model.compile(torch.randn(6, 4))


def test_outside_of_a_trace_and_without_overlap_nothing_happens():
    nested = {"a": [torch.ones(2)], "b": torch.zeros(1)}
    assert poptorch.set_overlap_for_input(nested, ITERATIONS) is nested
    assert poptorch.set_overlap_for_output(nested, OverlapMode.NoOverlap) is nested
    with pytest.raises(AssertionError, match="OverlapMode"):
        poptorch.set_overlap_for_input(nested, "all")
