"""In-place updates of variables and of results agree with NumPy, as do ops that move data."""

import numpy as np
import popxl
import pytest
from popxl import ops
from popxl.ops import var_updates
from program import run_graph

rng = np.random.default_rng(9)
T, X = rng.uniform(0.1, 1, (2, 3)).astype(np.float32), rng.uniform(-1, 1, (2, 3)).astype(np.float32)
F, STEP = np.float32(0.75), np.float32(3)
ROWS, PLACES = rng.uniform(-1, 1, (3, 3)).astype(np.float32), np.int32([1, 0, 1])


def sparse(t, x, i, f=1.0):
    out = t.copy()
    np.add.at(out, i, np.float32(f) * x)
    return out


# name: (update of tensors, inputs, new value of the first input)
UPDATES = {
    "accumulate": (lambda t, x: var_updates.accumulate_(t, x), [T, X], lambda t, x: t + x),
    "accumulate f": (
        lambda t, x: var_updates.accumulate_(t, x, 0.5),
        [T, X],
        lambda t, x: t + 0.5 * x,
    ),
    "accumulate tensor": (var_updates.accumulate_, [T, X, F], lambda t, x, f: t + f * x),
    "square": (
        lambda t, x: var_updates.accumulate_square_(t, x, 0.5),
        [T, X],
        lambda t, x: t + 0.5 * x**2,
    ),
    "mean": (
        var_updates.accumulate_mean_,
        [T, X, STEP],
        lambda t, x, n: n / (n + 1) * t + x / (n + 1),
    ),
    "moving average": (
        var_updates.accumulate_moving_average_,
        [T, X, F],
        lambda t, x, f: f * t + (1 - f) * x,
    ),
    "moving average square": (
        lambda t, x: var_updates.accumulate_moving_average_square_(t, x, 0.9),
        [T, X],
        lambda t, x: 0.9 * t + 0.1 * x**2,
    ),
    "sparse": (var_updates.sparse_accumulate_, [T, ROWS, PLACES], sparse),
    "sparse f": (
        lambda t, x, i: var_updates.sparse_accumulate_(t, x, i, f=0.5),
        [T, ROWS, PLACES],
        lambda t, x, i: sparse(t, x, i, 0.5),
    ),
    "scale": (var_updates.accumulator_scale_, [T, F], lambda t, f: t * f),
    "zero": (var_updates.accumulator_zero_, [np.float32([np.nan, 1])], np.zeros_like),
    "copy": (var_updates.copy_var_update_, [T, X], lambda t, x: x),
    "lamb step": (
        lambda t, x: var_updates.adam_var_update(
            t, x, ops.lamb_square(t), ops.lamb_square(x), 0.1, 10.0
        ),
        [T, X],
        lambda t, x: t - 0.1 * np.linalg.norm(t) / np.linalg.norm(x) * x,
    ),
    "lamb step of a bounded norm": (
        lambda t, x: var_updates.adam_var_update(
            t, x, ops.lamb_square(t), ops.lamb_square(x), 0.1, 0.5
        ),
        [T, X],
        lambda t, x: t - 0.1 * 0.5 / np.linalg.norm(x) * x,
    ),
    "lamb step without gradient": (
        lambda t, x: var_updates.adam_var_update(t, x, ops.lamb_square(t), ops.lamb_square(x), 0.1),
        [T, 0 * X],
        lambda t, x: t,
    ),
}


@pytest.mark.parametrize("name", UPDATES)
@pytest.mark.parametrize("memory", ["variable", "result"])
def test_updates(name, memory):
    update, inputs, numpy = UPDATES[name]

    def program(t, *rest):
        if memory == "variable":
            t = popxl.variable(inputs[0])
        update(t, *rest)
        return t + 0.0

    (got,) = run_graph(program, *inputs)
    np.testing.assert_allclose(got, numpy(*inputs), rtol=1e-5, atol=1e-6)


def adam(m, v, step=None, w=None, decay=0.0, b1=0.9, b2=0.99, eps=1e-3):
    if step is not None:
        m, v = m / (1 - b1 ** (step + 1)), v / (1 - b2 ** (step + 1))
    x = m / (np.sqrt(v) + eps)
    return x + decay * w if decay else x


@pytest.mark.parametrize("updater", ["adam_updater", "lamb_updater"])
@pytest.mark.parametrize("step", [None, STEP])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_updaters(updater, step, decay):
    w = X + 1

    def program(m, v, w):
        time = None if step is None else popxl.variable(step)
        betas = {"beta1": 0.9, "beta2": 0.99}
        x = getattr(var_updates, updater)(m, v, w, time, decay, **betas, epsilon=1e-3)
        return x, popxl.constant(0.0) + (time if time is not None else popxl.constant(0.0))

    x, after = run_graph(program, X, T, w)
    np.testing.assert_allclose(x, adam(X, T, step, w, decay), rtol=1e-5, atol=1e-6)
    assert after == (0 if step is None else step + 1)  # incremented in place


def test_adamax_and_dtypes_of_updaters():
    def program(m, v):
        half = ops.cast(m, popxl.float16)
        time = popxl.variable(STEP)
        return (
            var_updates.adamax_updater(m, v, time_step=time, beta1=0.9, epsilon=1e-3),
            var_updates.adam_updater(half, v),
            var_updates.adam_updater(half, v, weight=m, weight_decay=0.1),
        )

    x, half, full = run_graph(program, X, T)
    np.testing.assert_allclose(x, X / (1 - 0.9**4) / (T + 1e-3), rtol=1e-5)
    assert (half.dtype, full.dtype) == (np.float16, np.float32)


def test_moving_averages_round_their_sample_to_their_own_dtype():
    def program(x):
        t = popxl.variable(np.zeros((2, 3)), popxl.float16)
        var_updates.accumulate_moving_average_(t, x, 0.9)
        return t + popxl.constant(0.0, popxl.float16)

    (got,) = run_graph(program, X)
    rest = np.float32(1) - np.float32(0.9)
    expected = rest * X.astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(got, expected.astype(np.float16))


def test_init_and_remote_load_in_place():
    def program(x):
        buffer = popxl.remote_buffer((2, 3), popxl.float32)
        ops.remote_store(buffer, 0, x)
        t = ops.init((2, 3), popxl.float32, "memory")
        before = t + 0.0
        ops.remote_load_(buffer, 0, t)
        return before, t

    before, after = run_graph(program, X)
    np.testing.assert_array_equal(before, 0 * X)
    np.testing.assert_array_equal(after, X)


def test_tensors_print_themselves(capfd):
    (y,) = run_graph(lambda x: ops.print_tensor(x, "here") + 1.0, np.float32([1.5, 2.5]))
    assert y.tolist() == [2.5, 3.5]
    printed = capfd.readouterr().err
    assert "here" in printed and "1.5" in printed and "2.5" in printed
