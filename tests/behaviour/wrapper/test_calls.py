"""Tests arguments and results of calls: signatures, nested structures, dtypes, batching, output
modes.
"""

import collections
import dataclasses
import re

import poptorch
import pytest
import torch
from poptorch._impl.inspection import progress as model_progress
from poptorch_core import progress

Pair = collections.namedtuple("Pair", "first second")


class Call(torch.nn.Module):
    """Runs a function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args, **kwargs):
        return self.function(*args, **kwargs)


def infer(function, *args, options=None, **kwargs):
    return poptorch.inferenceModel(Call(function), options)(*args, **kwargs)


A, B = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])


class Keywords(torch.nn.Module):
    def forward(self, a, b=None, scale=2.0, *, offset=0.0):
        return a * scale + offset if b is None else a + b * scale + offset


@pytest.mark.parametrize(
    "args, kwargs",
    [
        ((A,), {}),
        ((A, B), {}),
        ((A,), {"b": B}),
        ((), {"b": B, "a": A}),
        ((A,), {"scale": 3.0}),
        ((A, B), {"offset": 1.0}),
        ((A, None, 4.0), {}),
    ],
)
def test_signatures(args, kwargs):
    wrapped = poptorch.inferenceModel(Keywords())
    for _ in range(2):
        torch.testing.assert_close(wrapped(*args, **kwargs), Keywords()(*args, **kwargs))


def test_a_default_and_its_value_are_one_call():
    wrapped = poptorch.inferenceModel(Keywords())
    wrapped(A)
    torch.testing.assert_close(wrapped(a=A, b=None, scale=2.0), A * 2)


def test_hooks_see_the_arguments_that_the_call_has():
    seen = []

    def hook(_, args, kwargs):
        seen.append((len(args), sorted(kwargs)))

    def called(*args, **kwargs):
        model = Keywords()
        model.register_forward_pre_hook(hook, with_kwargs=True)
        torch.testing.assert_close(
            poptorch.inferenceModel(model)(*args, **kwargs), Keywords()(*args, **kwargs)
        )
        return seen[0]

    for args, kwargs in [((A,), {}), ((A,), {"scale": 2.0}), ((), {"b": B, "a": A}), ((A, B), {})]:
        seen.clear()
        assert called(*args, **kwargs) == (len(args), sorted(kwargs))


@pytest.mark.parametrize(
    "structure",
    [
        (A, B),
        [A, [B, A]],
        {"x": A, "y": (B,)},
        Pair(A, [B]),
        collections.OrderedDict(x=A, y=Pair(B, A)),
        (A, None, 3, "name", B),
    ],
)
def test_nested_structures_go_in_and_come_out(structure):
    def double(value):
        if isinstance(value, torch.Tensor):
            return value * 2
        if isinstance(value, dict):
            return type(value)((k, double(v)) for k, v in value.items())
        if isinstance(value, Pair):
            return Pair(*map(double, value))
        if isinstance(value, (list, tuple)):
            return type(value)(map(double, value))
        return value

    wrapped = poptorch.inferenceModel(Call(double))
    for _ in range(2):
        found = wrapped(structure)
        assert str(found) == str(double(structure))
        assert type(found) is type(structure)


def test_dataclasses_go_in_and_come_out():
    @dataclasses.dataclass(frozen=True)
    class Pair:
        a: torch.Tensor
        b: int
        c: list = dataclasses.field(default_factory=list)

    wrapped = poptorch.inferenceModel(lambda p: Pair(p.a * p.b, p.b, [p.c[0] + 1]))
    x = torch.randn(3)
    got = wrapped(Pair(x, 2, [x]))
    assert torch.equal(got.a, x * 2) and got.b == 2 and torch.equal(got.c[0], x + 1)
    with pytest.raises(poptorch.Error, match=r"Value mismatch for p\.b: expected 2 but got 3"):
        wrapped(Pair(x, 3, [x]))


def test_custom_types_with_a_parser():
    class Box:
        def __init__(self, x, y):
            self.x, self.y = x, y

    class BoxParser(poptorch.ICustomArgParser):
        def yieldTensors(self, struct):
            yield struct.x
            yield struct.y

        def reconstruct(self, original_structure, tensor_iterator):
            return Box(next(tensor_iterator), next(tensor_iterator))

    poptorch.registerCustomArgParser(Box, BoxParser())
    try:
        found = infer(lambda box: Box(box.x + box.y, box.x - box.y), Box(A, B))
        torch.testing.assert_close((found.x, found.y), (A + B, A - B))
    finally:
        poptorch.registerCustomArgParser(Box, None)
    with pytest.raises(poptorch.Error, match="arg_parser must inherit from ICustomArgParser"):
        poptorch.registerCustomArgParser(Box, object())


def test_functions_inputs_unchanged_and_no_inputs():
    wrapped = poptorch.inferenceModel(torch.nn.functional.relu)
    assert wrapped(torch.tensor([-1.0, 2.0])).tolist() == [0, 2]
    first, second = infer(lambda a, b: (b, a), A, B)
    torch.testing.assert_close((first, second), (B, A))
    assert infer(lambda: torch.ones(2)).tolist() == [1, 1]


def test_64_bit_results_come_back_in_32():
    assert infer(lambda x: x + 1, torch.tensor([1, 2])).dtype == torch.int32
    assert infer(lambda x: x.double(), A).dtype == torch.float32


def test_unusual_inputs_are_taken_and_warned_about_once(capsys):
    wrapped = poptorch.inferenceModel(Call(lambda x: x * 2))
    x = torch.arange(6.0).reshape(2, 3).t().requires_grad_()
    for _ in range(2):
        torch.testing.assert_close(wrapped(x), (x * 2).detach())
    shown = capsys.readouterr().err
    assert shown.count("non-contiguous") == 1
    assert shown.count("requires_grad") == 1


def test_results_on_the_cpu_pass_with_a_warning():
    held = torch.tensor([7.0])
    with pytest.warns(UserWarning, match="Output expected to be on the IPU but is on cpu"):
        found, doubled = infer(lambda x: (held, x * 2), A)
    assert found.tolist() == [7.0]
    torch.testing.assert_close(doubled, A * 2)


def test_is_running_on_ipu():
    seen = []

    def function(x):
        seen.append(poptorch.isRunningOnIpu())
        return x + 1

    infer(function, A)
    function(A)
    assert seen[-1] is False
    assert set(seen[:-1]) == {True}


class Mean(torch.nn.Module):
    """Returns the mean of a micro-batch, a scalar, and its rows doubled."""

    def forward(self, x):
        return x.mean(), x * 2


X = torch.arange(24.0).reshape(12, 2)


def run_batched(mode, period=None, iterations=6):
    options = poptorch.Options().deviceIterations(iterations).outputMode(mode, period)
    return poptorch.inferenceModel(Mean(), options)(X)


def test_output_modes_of_inference():
    means = X.reshape(6, 4).mean(1)
    rows = (X * 2).reshape(6, 2, 2)
    Mode = poptorch.OutputMode
    for mode, period, mean, doubled in (
        (Mode.All, None, means, rows.reshape(12, 2)),
        (Mode.Final, None, means[-1], rows[-1]),
        (Mode.EveryN, 2, means[1::2], rows[1::2].reshape(6, 2)),
        (Mode.Sum, None, means.sum(), rows.sum(0)),
    ):
        found_mean, found_rows = run_batched(mode, period)
        torch.testing.assert_close(found_mean, mean, msg=lambda text, m=mode: f"{m}: {text}")
        torch.testing.assert_close(found_rows, doubled, msg=lambda text, m=mode: f"{m}: {text}")


def test_default_output_mode_is_all_in_inference():
    options = poptorch.Options().deviceIterations(3)
    wrapped = poptorch.inferenceModel(Mean(), options)
    assert wrapped(X)[0].shape == (3,)
    assert options.defaultOutputMode()
    assert wrapped.options.output_mode == poptorch.OutputMode.All


class Weighted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor([1.0, -1.0]))

    def forward(self, x):
        return poptorch.identity_loss((x * self.w).sum(1) ** 2, reduction="mean")


@pytest.mark.parametrize("reduction", ["Mean", "Sum"])
@pytest.mark.parametrize("iterations, accumulation", [(1, 1), (3, 1), (1, 4), (2, 3)])
def test_training_equals_eager_over_the_same_micro_batches(iterations, accumulation, reduction):
    options = poptorch.Options().deviceIterations(iterations)
    options.outputMode(poptorch.OutputMode.All)
    options.Training.gradientAccumulation(accumulation)
    options.Training.accumulationAndReplicationReductionType(poptorch.ReductionType[reduction])
    model, eager = Weighted(), Weighted()
    optimiser = torch.optim.SGD(eager.parameters(), lr=1e-3)
    x = X / 10
    expected = []
    micro_batches = iter(x.reshape(iterations * accumulation, -1, 2))
    for _ in range(iterations):
        optimiser.zero_grad()
        for _ in range(accumulation):
            loss = eager(next(micro_batches))
            expected.append(loss.item())
            (loss / accumulation if reduction == "Mean" else loss).backward()
        optimiser.step()
    wrapped = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=1e-3))
    losses = wrapped(x)
    torch.testing.assert_close(losses.flatten(), torch.tensor(expected))
    torch.testing.assert_close(model.w.detach(), eager.w.detach())


def test_default_output_mode_is_final_in_training():
    options = poptorch.Options().deviceIterations(2)
    options.Training.gradientAccumulation(3)
    wrapped = poptorch.trainingModel(Weighted(), options)
    assert wrapped(X).shape == ()
    assert wrapped.options.output_mode == poptorch.OutputMode.Final


def test_hooks_surround_compilation():
    order = []
    before = poptorch.registerPreCompileHook(lambda: order.append("before"))
    after = poptorch.registerPostCompileHook(lambda: order.append("after"))
    infer(lambda x: order.append("trace") or x + 1, A)
    assert order[0] == "before" and order[-1] == "after" and "trace" in order
    before.remove()
    after.remove()
    count = len(order)
    infer(lambda x: x + 1, A)
    assert len(order) == count
    with pytest.raises(RuntimeError, match="must be callable"):
        poptorch.registerPreCompileHook(3)


def test_the_progress_bar_has_one_description_and_ends_at_100(capsys):
    wrapped = poptorch.inferenceModel(Call(lambda x: x + 1))
    wrapped.compile(A)
    shown = capsys.readouterr().err
    assert "Graph compilation (" not in shown and "Graph compilation: " in shown
    assert "Graph compilation: 100%|██████████| 100/100 [" in shown
    assert shown.count("Graph compilation") == 1  # because stdout is not a terminal
    assert wrapped.compilationTime().total_seconds() > 0
    quiet = poptorch.inferenceModel(
        Call(lambda x: x + 1), poptorch.Options().showCompilationProgressBar(False)
    )
    quiet.compile(A)
    assert "Graph compilation" not in capsys.readouterr().err


def test_a_progress_bar_of_ones_own(capsys):
    steps = []
    options = poptorch.Options()
    options._progress_bar = lambda done, total: steps.append((done, total))
    poptorch.inferenceModel(Call(lambda x: x + 1), options).compile(A)
    assert steps == sorted(steps) and steps[0] == (0, 100) and steps[-1] == (100, 100)
    steps.clear()
    with pytest.raises(ZeroDivisionError):
        poptorch.inferenceModel(Call(lambda x: 1 / 0), options).compile(A)
    assert steps and steps[-1] < (100, 100)
    steps.clear()
    options = options.clone().showCompilationProgressBar(False)
    poptorch.inferenceModel(Call(lambda x: x + 1), options).compile(A)
    assert not steps and "Graph compilation" not in capsys.readouterr().err


class Clock:
    """Moves when the test says so."""

    def __init__(self):
        self.seconds = 1000

    def advance(self, seconds):
        self.seconds += seconds

    def perf_counter(self):
        return self.seconds


def test_the_compilation_time_is_that_without_the_hooks(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(model_progress, "time", clock)
    hooks = [
        poptorch.registerPreCompileHook(lambda: clock.advance(300)),
        poptorch.registerPostCompileHook(lambda: clock.advance(300)),
    ]
    wrapped = poptorch.inferenceModel(Call(lambda x: clock.advance(10) or x + 1))
    wrapped.compile(A)
    for hook in hooks:
        hook.remove()
    assert wrapped.compilationTime().total_seconds() == 10


def test_nothing_is_logged_into_the_line_of_the_progress_bar(capfd, monkeypatch):
    monkeypatch.setattr(progress, "is_watched", lambda: True)

    class Warned(torch.nn.Module):
        def forward(self, x):
            return x + torch.ones(2)  # the native layer warns about it

    poptorch.setLogLevel("DEBUG")  # both layers log lines about it
    try:
        poptorch.inferenceModel(Warned()).compile(A)
    finally:
        poptorch.setLogLevel("INFO")
    lines = capfd.readouterr().err.splitlines()
    assert sum("Graph compilation" in line for line in lines) > 1
    assert {name for line in lines for name in re.findall(r"\[poptorch:+(\w+)\]", line)} == {
        "cpp",
        "python",
    }
    for line in lines:
        assert line.startswith("[") or "[poptorch:" not in line


def test_cycle_count():
    wrapped = poptorch.inferenceModel(Call(lambda x: x + 1), poptorch.Options().logCycleCount(True))
    with pytest.raises(poptorch.Error, match="Please run the model at least once before"):
        wrapped.cycleCount()
    wrapped(A)
    assert wrapped.cycleCount() > 0
