"""After Ctrl-C anywhere in the Python layer, a wrapper continues from a complete step.

It has made as many steps as it reports, or one more. POPTORCH_INTERRUPT_EVERY=1 tries every point,
a greater number one point in so many.
"""

import dis
import functools
import inspect
import os
import random
import sys
import traceback
from pathlib import Path

import poptorch
import pytest
import torch

PACKAGE = str(Path(poptorch.__file__).parent)
EVERY = int(os.environ.get("POPTORCH_INTERRUPT_EVERY", "60"))
PARTS = 6  # the parts run in parallel
X = torch.linspace(-1, 1, 6).reshape(2, 3)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.first, self.last = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)

    def forward(self, x):
        y = self.last(torch.tanh(self.first(x)))
        return y, poptorch.identity_loss(y.square(), reduction="mean")


def weights_after(steps):
    model = Net()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(steps):
        optimiser.zero_grad()
        model(X)[1].backward()
        optimiser.step()
    return [parameter.detach().clone() for parameter in model.parameters()]


STEPS = 6
EXPECTED = [weights_after(steps) for steps in range(2 * STEPS)]


def steps_made(model):
    """Returns the number of eager steps that give the host's weights; None if no number does."""
    held = [parameter.detach().clone() for parameter in model.parameters()]
    for steps, expected in enumerate(EXPECTED):
        if all(torch.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(held, expected)):  # noqa: B905
            return steps
    return None


class Program:
    """Trains, reads weights, runs an inference wrapper of the same weights, detaches, destroys."""

    def __init__(self):
        self.model = Net()
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        options = poptorch.Options().showCompilationProgressBar(False)
        self.training = poptorch.trainingModel(self.model, options, self.optimiser)
        self.inference = poptorch.inferenceModel(self.model, options)
        self.asked = 0

    def step(self):
        self.asked += 1
        self.training(X)

    def actions(self):
        return [
            self.step,
            lambda: self.model.first.weight.sum(),
            self.step,
            lambda: self.inference(X),
            lambda: self.training.setOptimizer(self.optimiser),
            lambda: self.optimiser.state_dict(),
            self.training.detachFromDevice,
            self.step,
            # Weights that the host has not fetched are lost.
            lambda: (self.training.copyWeightsToHost(), self.training.copyWeightsToDevice()),
            self.training.copyWeightsToHost,
            self.training.destroy,
            self.step,
        ]


@functools.cache
def calls_of(code):
    """Returns offsets of the instructions at which Python checks for signals: calls, and ends of
    rounds.

    Excludes the calls of __exit__ at the end of a `with`, before which Python never checks.
    """
    found, loaded = set(), 0
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("CALL", "CALL_FUNCTION_EX", "JUMP_BACKWARD") and loaded < 3:
            found.add(instruction.offset)
        if instruction.opname != "PRECALL":
            is_none = instruction.opname == "LOAD_CONST" and instruction.argval is None
            loaded = loaded + 1 if is_none else 0
    return found


def traced(action, stop_at):
    """Runs an action with an interrupt at one point of the package.

    Points are before each call and at each return. Returns the number of points left.
    """
    left = [stop_at]

    def on_event(frame, event, _):
        # A generator's yield is also a return event, but an interrupt there closes the generator.
        returns = event == "return" and not frame.f_code.co_flags & inspect.CO_GENERATOR
        if returns or event == "opcode" and frame.f_lasti in calls_of(frame.f_code):
            left[0] -= 1
            if left[0] == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return on_event

    def on_call(frame, *_):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return on_event

    sys.settrace(on_call)
    try:
        action()
    finally:
        sys.settrace(None)
    return left[0]


def count_points():
    program = Program()
    total = 10**9
    left = total
    for action in program.actions():
        left = traced(action, left)
    return total - left


@pytest.fixture
def log(caplog):
    return caplog


def interrupted_at(line):
    """Returns the program after an interrupt at that point; the remaining actions were run."""
    program = Program()
    left, where = line, None
    for number, action in enumerate(program.actions()):
        if where is None:
            try:
                left = traced(action, left)
            except KeyboardInterrupt as error:
                last = traceback.extract_tb(error.__traceback__)[-2]  # above on_event
                where = f"action {number}, {last.filename}:{last.lineno}"
        else:
            try:
                action()
            except poptorch.Error as error:
                # The interrupted action may or may not have taken effect.
                assert "is not attached" in str(error) or "has not been compiled" in str(error)
    return program, where


def check(program, log, where):
    patched = (torch.autograd.grad, torch.autograd.backward, torch.autograd.Function.apply)
    for function in patched:
        assert function.__module__.startswith("torch"), f"{function} is still replaced, {where}"
    assert not torch.nn.modules.module._global_forward_hooks, where
    assert not torch.nn.modules.module._global_forward_pre_hooks, where
    assert "changed on the host" not in log.text, where
    made = steps_made(program.model)
    assert made in (program.asked - 1, program.asked), f"{made} of {program.asked}, {where}"
    program.step()
    again = steps_made(program.model)
    assert again == made + 1, f"{again} after {made}, {where}"


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(PARTS))
def test_an_interrupt_at_any_line_leaves_a_wrapper_that_goes_on(part, log):
    lines = count_points()
    assert lines > 500
    points = range(1, lines + 1)
    chosen = points if EVERY == 1 else random.Random(4).sample(points, lines // EVERY)
    for line in chosen[part::PARTS]:
        log.clear()
        program, where = interrupted_at(line)
        check(program, log, where)
