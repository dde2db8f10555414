"""poptorch.for_loop and poptorch.cond compute the same as the Python code does on the host.

The program holds a loop's body once, and runs one branch.
"""

import copy

import numpy as np
import poptorch
import pytest
import torch

HERE = r"test_control_flow\.py:\d+"
X = torch.linspace(-1.0, 1.0, 12).reshape(4, 3)
Y = torch.linspace(2.0, 0.5, 12).reshape(4, 3)


class Model(torch.nn.Module):
    """Its function uses weights, buffers and constants by closure."""

    def __init__(self, function):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)
        self.register_buffer("total", torch.ones(3))
        self.scale = torch.tensor([1.0, 0.5, 0.25])  # a constant
        self.register_buffer("count", torch.zeros((), dtype=torch.int32))
        self.function = function

    def forward(self, *inputs):
        return self.function(self, *inputs)


def compare(function, *inputs, runs=2):
    """Compares results and state of a wrapped model with the host's. Returns the wrapper."""
    torch.manual_seed(5)
    eager = Model(function)
    wrapped = poptorch.inferenceModel(copy.deepcopy(eager))
    for _ in range(runs):
        with torch.no_grad():
            expected = eager(*(x.clone() for x in inputs))
        ours = wrapped(*inputs)
        assert len(ours) == len(expected)
        for a, b in zip(ours, expected, strict=True):
            assert a.dtype == (torch.int32 if b.dtype == torch.int64 else b.dtype)
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6, check_dtype=False)
    wrapped.copyWeightsToHost()
    for name, value in wrapped.model.state_dict().items():
        torch.testing.assert_close(value, eager.state_dict()[name], rtol=1e-5, atol=1e-6, msg=name)
    return wrapped


def nested(m, x):
    def inner(a, b):
        return b, a + m.fc(b) * 0.1

    def outer(a, b, total):
        a, b = poptorch.for_loop(3, inner, [a, b])
        (c,) = poptorch.cond(a.sum() > b.sum(), lambda: a * m.scale, [], lambda: b - a, [])
        return c, a, total + c.mean()

    return poptorch.for_loop(4, outer, [x, x * 2, x.sum()])


def loop_in_branch(m, x):
    def grow(a):
        return poptorch.for_loop(5, lambda b: b * 1.5 + x, [a])

    return [
        *poptorch.cond(x.sum() < 100, grow, [x], lambda a: -a, [x]),
        *poptorch.cond(x.sum() > 100, grow, [x], lambda a: -a, [x]),
    ]


def writes_around(m, x):
    made, given = torch.zeros(4, 3), x * 1.0

    def body(a):
        before = made * 2  # reads what the previous round wrote
        made.add_(a)
        m.total[1:] += given[0, 1:]
        given[0] = a[1]
        m.count += 1
        a.mul_(0.5)  # a copy
        return before + a * m.scale

    return [*poptorch.for_loop(6, body, [x]), made, given, x]


def writes_in_nested_bodies(m, x):
    made = torch.ones(3)

    def inner(a):
        made.mul_(1.25)
        m.total.add_(made)
        return a + made

    def outer(a):
        (b,) = poptorch.for_loop(2, inner, [a])
        made.add_(b[0])
        return poptorch.cond(b.sum() > 4, lambda: (m.total.mul_(0.5), b)[1], [], lambda: b, [])

    return [*poptorch.for_loop(3, outer, [x]), made]


def branches_write(m, x):
    seen = x + 0

    def yes(a):
        m.total.mul_(2)
        seen[0].fill_(3)
        return a

    def no(a):
        m.count.add_(1)
        m.total.copy_(a[0])
        return a * 2

    first = poptorch.cond(m.count == 0, yes, [x], no, [x])
    second = poptorch.cond(m.count > 0, yes, [x], no, [x])
    third = poptorch.cond(m.count > 0, yes, [x], no, [x])
    return [*first, *second, *third, seen, m.total * 1]


def writes_a_weight(m, x):
    def body(a):
        m.fc.weight.mul_(0.5)
        return m.fc(a)

    return [*poptorch.for_loop(2, body, [x]), m.fc(x)]


def two_names_for_one_value(m, x):
    first, second = x.clone(), x.clone()

    def body(a):
        first.add_(1)
        return a + first * second

    return [*poptorch.for_loop(3, body, [x]), first, second]


def keeps_a_constant_value(m, x):
    total = torch.zeros(3)

    def body(a, _):
        before = total.clone()
        total.add_(a[0])
        return a, before

    return [*poptorch.for_loop(3, body, [x, x[0]]), total]


CASES = {
    "swap": lambda m, x: poptorch.for_loop(3, lambda a, b: (b, a), [x, x + 1]),
    "ring": lambda m, x: poptorch.for_loop(4, lambda a, b, c: (b, c, a), [x, x + 1, x * 2]),
    "unchanged": lambda m, x: poptorch.for_loop(3, lambda a: a, [x]),
    "one value twice": lambda m, x: poptorch.for_loop(3, lambda a, b: (a + b,) * 2, [x, x]),
    "closure only": lambda m, x: poptorch.for_loop(3, lambda a: x, [x + 1]),
    "constant result": lambda m, x: poptorch.for_loop(2, lambda a: m.scale, [x[0]]),
    "constant input": lambda m, x: poptorch.for_loop(3, lambda a: a * x[0], [m.scale]),
    "no rounds": lambda m, x: poptorch.for_loop(0, lambda a: a + 1, [x]),
    "one round": lambda m, x: poptorch.for_loop(1, lambda a: a + 1, [x]),
    "input as closure": lambda m, x: poptorch.for_loop(3, lambda a: a * 0.5 + x, [x]),
    "view": lambda m, x: poptorch.for_loop(3, lambda a: a + x.t()[:, 1:].t().mean(), [x.t()]),
    "weight": lambda m, x: poptorch.for_loop(3, lambda a: torch.tanh(m.fc(a)), [x]),
    "integers": lambda m, x: poptorch.for_loop(3, lambda a: a * 2 + 1, [x.round().long()]),
    "halves": lambda m, x: poptorch.for_loop(3, lambda a: a * 0.5 + 1, [x.half()]),
    "made inside": lambda m, x: poptorch.for_loop(2, lambda a: a + torch.arange(3), [x]),
    "generic": lambda m, x: poptorch.for_loop(2, lambda a: a + torch.special.i0(a), [x]),
    "nested": nested,
    "loop in branch": loop_in_branch,
    "writes around": writes_around,
    "writes in nested bodies": writes_in_nested_bodies,
    "branches write": branches_write,
    "writes a weight": writes_a_weight,
    "two names for one value": two_names_for_one_value,
    "keeps a constant value": keeps_a_constant_value,
}


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    compare(CASES[name], X)


CONDITIONS = {
    "bool": lambda x: x.sum() > 0,
    "of one element": lambda x: (x.sum() > 0).reshape(1, 1),
    "int": lambda x: (x.sum() > 0).int() * 3,
    "float": lambda x: torch.relu(x.sum()),
    "half": lambda x: torch.relu(x.sum()).half(),
}
BRANCHES = {
    "numbers": lambda m, x, c: poptorch.cond(
        c, lambda a, n: a * n, [x, 2.5], lambda n, a, k: a * n + k, [3, x, True]
    ),
    "only numbers": lambda m, x, c: poptorch.cond(
        c, lambda n: x * n, [2], lambda n: x - n, [np.float32(0.5)]
    ),
    "number as size": lambda m, x, c: poptorch.cond(
        c, lambda a, n: a[:n], [x, 2], lambda a, n: a[-n:], [x, 2]
    ),
    "unchanged": lambda m, x, c: poptorch.cond(c, lambda a: a, [x], lambda a: a, [x + 1]),
    "twice": lambda m, x, c: poptorch.cond(c, lambda a: (a, a), [x], lambda a: (a, x), [x + 1]),
    "weights": lambda m, x, c: poptorch.cond(c, m.fc, [x], lambda a: a * m.total, [x]),
    "constants": lambda m, x, c: poptorch.cond(c, lambda: m.scale, [], lambda a: a, [m.scale * 2]),
    "inputs": lambda m, x, c: poptorch.cond(c, lambda a, b: a - b, [x, x[0]], lambda: x, []),
    "half": lambda m, x, c: poptorch.cond(c, lambda a: a * 2, [x.half()], lambda: x.half(), []),
}


@pytest.mark.parametrize("inputs", [X - 1, X + 1])
@pytest.mark.parametrize("name", BRANCHES)
def test_branches(name, inputs):
    compare(lambda m, x: BRANCHES[name](m, x, x.sum() > 0), inputs, runs=1)


@pytest.mark.parametrize("inputs", [X - 1, X + 1])
@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions(name, inputs):
    compare(
        lambda m, x: poptorch.cond(CONDITIONS[name](x), m.fc, [x], torch.relu, [x]), inputs, runs=1
    )


def test_a_condition_that_is_no_tensor_chooses_while_tracing():
    for holds in (True, False):
        wrapped = compare(lambda m, x, c=holds: poptorch.cond(c, m.fc, [x], torch.relu, [x]), X)
        assert "if(" not in wrapped.graph("traced")


def test_micro_batches_choose_for_themselves():
    model = poptorch.inferenceModel(
        lambda x: poptorch.cond(x.sum() > 0, lambda a: a + 1, [x], lambda a: a * 2, [x]),
        poptorch.Options().deviceIterations(4),
    )
    (ours,) = model(torch.cat([X, -X + 1, X - 1, X + 1]).reshape(16, 3))
    expected = [b + 1 if b.sum() > 0 else b * 2 for b in (X, -X + 1, X - 1, X + 1)]
    torch.testing.assert_close(ours, torch.cat(expected))


def test_a_branch_that_does_not_run_computes_nothing():
    options = poptorch.Options()
    options.Precision.enableFloatingPointExceptions(True)  # NaN of the other branch would fail
    wrapped = poptorch.inferenceModel(
        lambda x: poptorch.cond(x.min() > 0, torch.log, [x], lambda: x - 1, []), options
    )
    for inputs, expected in ((X, X - 1), (Y, torch.log(Y))):
        torch.testing.assert_close(wrapped(inputs)[0], expected)


def test_the_account_has_the_longer_branch():
    def cycles(first, second):
        wrapped = poptorch.inferenceModel(
            lambda x: poptorch.cond(x.sum() > 0, first, [x], second, [x])
        )
        wrapped.compile(X)
        return wrapped.report()["cycles_per_run"]

    def long(a):
        for _ in range(20):
            a = torch.tanh(a)
        return a

    assert cycles(long, torch.tanh) == cycles(torch.tanh, long) == cycles(long, long)
    assert cycles(long, long) > cycles(torch.tanh, torch.tanh)


def test_the_program_does_not_grow_with_the_rounds():
    def model(rounds):
        return poptorch.inferenceModel(
            lambda x: poptorch.for_loop(rounds, lambda a: torch.tanh(a) * 1.01 + 0.1, [x])
        )

    models = {rounds: model(rounds) for rounds in (2, 3, 10_000)}
    for rounds, wrapped in models.items():
        expected = X
        for _ in range(rounds):
            expected = torch.tanh(expected) * 1.01 + 0.1
        torch.testing.assert_close(wrapped(X)[0], expected, rtol=1e-4, atol=1e-5)
    lines = {len(wrapped.graph("program").splitlines()) for wrapped in models.values()}
    assert len(lines) == 1
    two, three, many = (wrapped.report()["cycles_per_run"] for wrapped in models.values())
    assert many - two == (three - two) * 9_998


def test_random_numbers_differ_between_rounds_and_branches():
    def model(x):
        def body(a, b, c):
            return b, c, torch.rand(4, 3)

        (drawn,) = poptorch.cond(x.sum() > 0, lambda: torch.rand(4, 3), [], torch.rand_like, [x])
        return *poptorch.for_loop(3, body, [x, x, x]), drawn

    draws = poptorch.inferenceModel(model)(X + 1)
    for i, a in enumerate(draws):
        assert 0 <= a.min() and a.max() < 1
        assert not any(torch.equal(a, b) for b in draws[:i])


class Blocks(torch.nn.Module):
    def __init__(self, loop_on):
        super().__init__()
        self.first, self.second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
        self.register_buffer("seen", torch.zeros(3))
        self.loop_on = loop_on

    def part(self, ipu, layer, x):
        with poptorch.Block(str(ipu), ipu_id=ipu):
            if ipu != self.loop_on:
                return layer(x)

            def body(a):
                self.seen.add_(a[0])
                return torch.tanh(layer(a)) + x

            (y,) = poptorch.for_loop(3, body, [x])
            (z,) = poptorch.cond(y.sum() > 0, layer, [y], lambda: y * 2, [])
            return z

    def forward(self, x):
        return self.part(1, self.second, self.part(0, self.first, x))


@pytest.mark.parametrize("loop_on", [0, 1])
@pytest.mark.parametrize(
    "strategy", [poptorch.PipelinedExecution, poptorch.ShardedExecution], ids=["pipe", "shard"]
)
def test_loops_in_blocks(strategy, loop_on):
    torch.manual_seed(2)
    eager = Blocks(loop_on)
    options = poptorch.Options().deviceIterations(5)
    options.setExecutionStrategy(strategy("0", "1"))
    wrapped = poptorch.inferenceModel(copy.deepcopy(eager), options)
    inputs = torch.randn(20, 3)
    with torch.no_grad():
        expected = torch.cat([eager(batch) for batch in inputs.split(4)])
    torch.testing.assert_close(wrapped(inputs), expected, rtol=1e-5, atol=1e-6)
    wrapped.copyWeightsToHost()
    torch.testing.assert_close(wrapped.model.seen, eager.seen, rtol=1e-5, atol=1e-6)


def test_a_block_that_begins_in_a_body_is_refused():
    def model(x):
        def body(a):
            with poptorch.Block("inner", ipu_id=1):
                return a + 1

        with poptorch.Block("outer", ipu_id=0):
            return poptorch.for_loop(2, body, [x])

    with pytest.raises(
        poptorch.Error, match=rf"block 'inner' begins in a body of poptorch.for_loop.*{HERE}"
    ):
        poptorch.inferenceModel(model)(X)


def test_a_tensor_of_a_body_is_not_known_outside():
    def model(x):
        kept = []
        poptorch.for_loop(2, lambda a: (kept.append(a * 2), a)[1], [x])
        return kept[0] + 1

    with pytest.raises(poptorch.Error, match=rf"a loop's body.*is used outside.*{HERE}"):
        poptorch.inferenceModel(model)(X)


def test_an_error_in_a_body_leaves_no_trace():
    def model(m, x):
        made = x + 0

        def body(a):
            made.add_(1)
            raise KeyError("no")

        try:
            poptorch.for_loop(2, lambda a: poptorch.for_loop(2, body, [a]), [x])
        except KeyError:
            pass
        return [made * 2]

    torch.testing.assert_close(poptorch.inferenceModel(Model(model))(X)[0], X * 2)


@pytest.mark.parametrize("wrap", [lambda f: f, poptorch.inferenceModel], ids=["host", "device"])
def test_what_bodies_and_conditions_may_be(wrap):
    with pytest.raises(poptorch.Error, match=r"the condition must be one boolean.*\(4, 3\)"):
        wrap(lambda x: poptorch.cond(x > 0, torch.relu, [x], torch.relu, [x]))(X)
    with pytest.raises(poptorch.Error, match=r"\[for_loop\] a body returned NoneType"):
        wrap(lambda x: poptorch.for_loop(2, lambda a: None, [x]))(X)
    with pytest.raises(poptorch.Error, match=r"\[cond\] a body returned float"):
        wrap(lambda x: poptorch.cond(x.sum() < 9, lambda: 1.0, [], lambda: 1.0, []))(X)
