"""Random programs of loops, branches and writes, three deep, agree with the same on the host."""

import copy
import random

import poptorch
import pytest
import torch

X = torch.linspace(-1.0, 1.0, 12).reshape(4, 3)
FACTORS = torch.tensor([0.9, 0.8, 0.7])

MAKE = [
    lambda m, a, b: torch.tanh(a + b),
    lambda m, a, b: a * 0.5 - b,
    lambda m, a, b: torch.tanh(a @ m.weight),
    lambda m, a, b: a.t().reshape(4, 3) * 0.9,
    lambda m, a, b: b.clone(),
    lambda m, a, b: torch.where(a > b, a, b) * FACTORS.to(a.device),
]
WRITE = [
    lambda m, a, b: a.mul_(0.5),
    lambda m, a, b: a[1:3].add_(torch.tanh(b[0])),
    lambda m, a, b: a.copy_(torch.tanh(b)),
    lambda m, a, b: m.seen.add_(b.mean(0) * 0.1),
    lambda m, a, b: a[:, 1].copy_(b[:, 0].clamp(-1, 1)),
    lambda m, a, b: a.t()[0].mul_(0.25),
]


class Writer:
    """Makes a program: a list of functions (model, values) that append to the values."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def places(self, count, among=40):
        return [self.random.randrange(among) for _ in range(count)]

    def program(self, depth, length):
        return [self.statement(depth) for _ in range(length)]

    def statement(self, depth):
        kinds = [self.value, self.value, self.write] + [self.loop, self.branch] * (depth > 0)
        return self.random.choice(kinds)(depth)

    def value(self, _):
        make, places = self.random.choice(MAKE), self.places(2)
        return lambda m, values: values.append(make(m, *_at(values, places)))

    def write(self, _):
        write, places = self.random.choice(WRITE), self.places(2)

        def run(m, values):
            write(m, *_at(values[1:], places))  # all but the input

        return run

    def body(self, depth, results):
        statements = self.program(depth - 1, self.random.randrange(1, 4))
        places = self.places(results)

        def body_of(m, around):
            def body(*arguments):
                values = [*around, *arguments]
                _run(statements, m, values)
                return _at(values, places)

            return body

        return body_of

    def loop(self, depth):
        count, places = self.random.randrange(1, 4), self.places(self.random.randrange(4))
        body = self.body(depth, len(places))
        return lambda m, values: values.extend(
            poptorch.for_loop(count, body(m, values), _at(values, places))
        )

    def branch(self, depth):
        results, (condition,) = self.random.randrange(3), self.places(1)
        bodies = [self.body(depth, results) for _ in range(2)]
        places = [self.places(self.random.randrange(3)) for _ in range(2)]

        def run(m, values):
            holds = _at(values, [condition])[0].sum() > 0.1
            sides = [(b(m, values), _at(values, p)) for b, p in zip(bodies, places, strict=True)]
            values.extend(poptorch.cond(holds, *sides[0], *sides[1]))

        return run


def _at(values, places):
    return [values[place % len(values)] for place in places]


def _run(statements, m, values):
    for statement in statements:
        statement(m, values)


class Model(torch.nn.Module):
    def __init__(self, statements):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3, 3) * 0.3)
        self.register_buffer("held", torch.randn(4, 3) * 0.5)
        self.register_buffer("seen", torch.zeros(3))
        self.statements = statements

    def forward(self, x):
        values = [x, self.held, x * 0.5 + 0.1, torch.zeros(4, 3)]
        _run(self.statements, self, values)
        return [value * 1.0 for value in values]


@pytest.mark.parametrize("seed", range(40))
def test_programs(seed):
    torch.manual_seed(seed)
    eager = Model(Writer(seed).program(depth=3, length=6))
    wrapped = poptorch.inferenceModel(copy.deepcopy(eager))
    with torch.no_grad():
        expected = eager(X.clone())
    for ours, theirs in zip(wrapped(X), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    wrapped.copyWeightsToHost()
    torch.testing.assert_close(wrapped.model.state_dict(), eager.state_dict(), rtol=1e-4, atol=1e-5)
