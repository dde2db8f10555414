"""Updates of mixed dtypes agree with their formulas in float64, but for one rounding at the end."""

import numpy as np
import popxl
import pytest
from popxl import ops
from popxl.ops import var_updates
from popxl_addons.optimizers.adam import AdamOptimizerStep
from program import run_graph

rng = np.random.default_rng(35)
F16, F32 = np.float16, np.float32
SHAPE = (40, 50)
T, X = rng.uniform(0.1, 1, SHAPE), rng.uniform(-1, 1, SHAPE)
ROWS, PLACES = rng.uniform(-1, 1, (60, 50)), np.int32(rng.integers(0, 40, 60))


def sparse(t, x, f=1.0):
    out = t.copy()
    np.add.at(out, PLACES, f * x)
    return out


def norm(x):
    return np.sqrt((x.astype(np.float64) ** 2).sum())


def lamb(t, x, rate):
    return var_updates.adam_var_update(t, x, ops.lamb_square(t), ops.lamb_square(x), rate, 12.0)


def lamb_formula(t, x, rate):
    return t - rate * min(norm(t), 12.0) / norm(x) * x


# name: (update, its factor, formula). `x` is rounded to t's dtype for moving averages.
UPDATES = {
    "accumulate": (lambda t, x, f: var_updates.accumulate_(t, x), None, lambda t, x, f: t + x),
    "accumulate_": (var_updates.accumulate_, 0.3, lambda t, x, f: t + f * x),
    "accumulate_square_": (var_updates.accumulate_square_, 0.3, lambda t, x, f: t + f * x * x),
    "accumulate_mean_": (
        var_updates.accumulate_mean_,
        6.0,
        lambda t, x, n: n / (n + 1) * t + x / (n + 1),
    ),
    "accumulate_moving_average_": (
        var_updates.accumulate_moving_average_,
        0.9,
        lambda t, x, f: f * t + (1 - f) * x,
    ),
    "accumulate_moving_average_square_": (
        var_updates.accumulate_moving_average_square_,
        0.9,
        lambda t, x, f: f * t + (1 - f) * x * x,
    ),
    "accumulator_scale_": (
        lambda t, x, f: var_updates.accumulator_scale_(t, f),
        0.3,
        lambda t, x, f: t * f,
    ),
    "adam_var_update": (lamb, 0.3, lamb_formula),
    "scaled_add_": (lambda t, x, f: ops.scaled_add_(t, x, b=f), -0.3, lambda t, x, f: t + f * x),
    "scaled_add_ of both": (
        lambda t, x, f: ops.scaled_add_(t, x, f, popxl.constant(0.7)),
        popxl.float32,
        lambda t, x, f: f * t + np.float64(F32(0.7)) * x,
    ),
    "sparse_accumulate_": (
        lambda t, x, f: var_updates.sparse_accumulate_(t, x, popxl.constant(PLACES), f=f),
        0.3,
        lambda t, x, f: sparse(t, x, f),
    ),
    "sparse_accumulate_ plain": (
        lambda t, x, f: var_updates.sparse_accumulate_(t, x, popxl.constant(PLACES)),
        None,
        lambda t, x, f: sparse(t, x),
    ),
}


def assert_rounded_once(got, exact):
    """Asserts that values differ from the exact ones by half a unit in the last place at most."""
    digits, smallest = (11, 2.0**-24) if got.dtype == F16 else (20, 2.0**-22)
    np.testing.assert_allclose(
        got.astype(np.float64), exact, rtol=1.01 * 2.0**-digits, atol=smallest
    )


@pytest.mark.parametrize("name", UPDATES)
@pytest.mark.parametrize(
    "types", [(F16, F32), (F16, F16), (F32, F16)], ids=lambda p: "-".join(t.__name__ for t in p)
)
@pytest.mark.parametrize("scale", ["number", "float32", "float16"])
@pytest.mark.parametrize("memory", ["variable", "result"])
def test_updates_of_mixed_types(name, types, scale, memory):
    update, factor, formula = UPDATES[name]
    if factor is popxl.float32:
        factor, scale = 0.3, "float32" if scale == "number" else scale
    t, x = T.astype(types[0]), (ROWS if "sparse" in name else X).astype(types[1])
    exact = None if factor is None else np.float64({"float16": F16}.get(scale, F32)(factor))

    def program(t_in, x_in):
        updated = popxl.variable(t, popxl.dtype.as_dtype(t)) if memory == "variable" else t_in
        if factor is None or scale == "number":
            given = factor
        else:
            given = popxl.constant(factor, popxl.dtype.from_name(scale))
        update(updated, x_in, given)
        return ops.identity(updated)

    (got,) = run_graph(program, t, x)
    assert got.dtype == types[0]
    sample = x.astype(types[0]) if "moving" in name else x
    assert_rounded_once(got, formula(t.astype(np.float64), sample.astype(np.float64), exact))


@pytest.mark.parametrize("updater", ["adam_updater", "lamb_updater", "adamax_updater"])
def test_updaters_have_the_type_of_a_given_weight(updater):
    more = {"beta1": 0.9} if updater == "adamax_updater" else {"beta1": 0.9, "beta2": 0.99}

    def program(m, v, w):
        def update(**given):
            step = popxl.variable(F32(2))
            return getattr(var_updates, updater)(m, v, time_step=step, **more, **given)

        return (
            update(),
            update(weight=w),
            update(weight=w, weight_decay=0.1),
            update(weight=w, weight_decay=popxl.constant(0.0)),
            update(weight=w, weight_decay=0.0),  # float16 in the tutorial's schedule
        )

    results = run_graph(program, X.astype(F16), T.astype(F32), (X + 2).astype(F32))
    assert [r.dtype for r in results] == [F16, F32, F32, F32, F16]
    np.testing.assert_array_equal(results[1], results[3])
    np.testing.assert_array_equal(results[0], results[1].astype(F16))


def step_of(m, v, w, t, decay, adamax, b1=0.9, b2=0.99, eps=1e-3):
    b1, b2, eps, decay = (np.float64(F32(x)) for x in (b1, b2, eps, decay))
    if t is not None:
        m = m / (1 - b1**t)
        v = v if adamax else v / (1 - b2**t)
    return m / ((v if adamax else np.sqrt(v)) + eps) + decay * w


@pytest.mark.parametrize("updater", ["adam_updater", "lamb_updater", "adamax_updater"])
@pytest.mark.parametrize("first", [F16, F32])
@pytest.mark.parametrize("second", [F16, F32])
@pytest.mark.parametrize("weight", [F16, F32, None])
@pytest.mark.parametrize("timed", [False, True])
def test_updaters_of_mixed_types(updater, first, second, weight, timed):
    timed |= updater == "adamax_updater"
    m, v, w = X.astype(first), T.astype(second), (X + 2).astype(weight or F32)
    decay = 0.1 if weight else 0.0

    def program(m, v, w):
        more = {"beta2": 0.99} if updater != "adamax_updater" else {}
        return getattr(var_updates, updater)(
            *(m, v, w if weight else None),
            time_step=popxl.variable(F32(2)) if timed else None,
            weight_decay=decay,
            **{"beta1": 0.9, "epsilon": 1e-3, **more},
        )

    (got,) = run_graph(program, m, v, w)
    assert got.dtype == (weight or first)
    exact = step_of(
        *(a.astype(np.float64) for a in (m, v, w)),
        3 if timed else None,
        decay,
        updater == "adamax_updater",
    )
    assert_rounded_once(got, exact)


@pytest.mark.parametrize("weight", [F16, F32])
@pytest.mark.parametrize("decay", [0.0, 0.01])
@pytest.mark.parametrize("correct", [True, False])
def test_steps_of_the_addon_with_its_default_moment(weight, decay, correct):
    grads = rng.uniform(0.1, 1, (3, *SHAPE)).astype(F32)
    w = T.astype(weight)
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        variable = popxl.variable(w, popxl.dtype.as_dtype(w))
        stream = popxl.h2d_stream(SHAPE, popxl.float32)
        grad = ops.host_load(stream)
        facts, graph = AdamOptimizerStep().create_graph(
            variable, grad, lr=0.01, weight_decay=decay, bias_correction=correct
        )
        state = facts.init()
        graph.bind(state).call(variable, grad)
    m, v, right = np.zeros(SHAPE, F16), np.zeros(SHAPE), w
    b1, b2, eps = (np.float64(F32(x)) for x in (0.9, 0.999, 1e-5))
    with popxl.Session(ir) as session:
        for i, g in enumerate(grads):
            session.run({stream: g})
            exact = b1 * m.astype(np.float64) + (1 - b1) * g.astype(F16)
            m = session.get_tensor_data(state.first_order).copy()
            assert_rounded_once(m, exact)
            v = b2 * v + (1 - b2) * g.astype(np.float64) ** 2
            first, second = m.astype(np.float64), v
            if correct:
                first, second = first / (1 - b1 ** (i + 1)), v / (1 - b2 ** (i + 1))
            before = right.astype(np.float64)
            step = first / (np.sqrt(second) + eps) + decay * before
            right = session.get_tensor_data(variable).copy()
            if weight == F32:
                np.testing.assert_allclose(right - before, -0.01 * step, rtol=2e-5, atol=1e-7)
            else:
                error = 2.0**-11 * (abs(right) + abs(0.01 * step))  # the step is float16 too
                assert (abs(right - (before - 0.01 * step)) <= 1.01 * error).all()
