"""Tests the native core from Python: text, runs on NumPy arrays, errors, reproducible output."""

import os
import subprocess
import sys

import numpy as np
import pytest
from poptorch_core import _core

TRAINING = """
state "w" : f32[3,2]
graph @main(%x: f32[4,2], %t: f32[4,3]) -> (f32[]) {
  %w = variable() {name="w"} : f32[3,2]
  %y = linear(%x, %w) : f32[4,3] scope("head") loc("model.py":7)
  %d = sub(%y, %t) : f32[4,3]
  %q = mul(%d, %d) : f32[4,3]
  %s = mean(%q) {axes=[0,1]} : f32[]
  %loss = identity_loss(%s) {reduction="none"} : f32[]
  return %loss
}
"""
FORMS = ["traced", "normal", "differentiated", "placed", "program"]


def training_lines(device_iterations=1, gradient_accumulation=1):
    said = {
        "training": True,
        "device_iterations": device_iterations,
        "gradient_accumulation": gradient_accumulation,
        "output_mode": "All",
    }
    group = {"lr": 0.125, "variable": ["lr"], "parameters": ["w"]}
    return [("execution", "", said), ("optimiser", "sgd", {}), ("optimiser_group", "0", group)]


def steps_by_hand(w, x, t, device_iterations, gradient_accumulation):
    """Returns the losses of the micro-batches and the weight after them, in float64."""
    losses = []
    batches = iter(zip(x.reshape(-1, 4, 2), t.reshape(-1, 4, 3), strict=True))
    for _ in range(device_iterations):
        gradient = np.zeros_like(w)
        for _ in range(gradient_accumulation):
            rows, target = next(batches)
            difference = rows @ w.T - target
            losses.append((difference**2).mean())
            gradient += 2 * difference.T @ rows / difference.size
        w = w - 0.125 * gradient / gradient_accumulation
    return np.array(losses), w


@pytest.mark.parametrize("iterations,accumulation", [(1, 1), (3, 1), (1, 4), (2, 3)])
def test_trains_as_by_hand(iterations, accumulation):
    rng = np.random.default_rng(0)
    rows = 4 * iterations * accumulation
    x = rng.normal(size=(rows, 2)).astype(np.float32)
    t = rng.normal(size=(rows, 3)).astype(np.float32)
    w = rng.normal(size=(3, 2)).astype(np.float32)
    executable = _core.compile(_core.parse(TRAINING), training_lines(iterations, accumulation))
    executable.write_state("w", w)
    for _ in range(2):
        (losses,) = executable.run([x, t])
        expected, w = steps_by_hand(w.astype(np.float64), x, t, iterations, accumulation)
        np.testing.assert_allclose(losses.reshape(-1), expected, rtol=1e-5)
        np.testing.assert_allclose(executable.read_state("w"), w, rtol=1e-4, atol=1e-6)


def test_text_reads_back():
    module = _core.parse(TRAINING)
    again = _core.parse(module.text(locations=True))
    assert again.equals(module)
    assert 'loc("model.py":7)' in module.text(locations=True)
    assert "model.py" not in str(module)


@pytest.mark.shared
def test_two_processes_print_the_same_bytes():
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import test_core as t\n"
        "e = t._core.compile(t._core.parse(t.TRAINING), t.training_lines(2, 3))\n"
        "print(*[e.text(form, True) for form in t.FORMS])"
    )
    texts = [
        subprocess.run(
            [sys.executable, "-c", script, os.path.dirname(__file__)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert texts[0] == texts[1]
    assert "model.py" in texts[0]


def test_errors_carry_type_and_frames():
    module = _core.parse(
        TRAINING.replace("identity_loss(%s)", "identity(%s)").replace(' {reduction="none"}', "")
    )
    with pytest.raises(_core.Error, match="loss") as raised:
        _core.compile(module, training_lines())
    assert raised.value.type == "poptorch_cpp_error"
    assert "pass differentiate" in raised.value.location


@pytest.mark.parametrize(
    "arrays,message",
    [
        ([], "0 inputs were given but the program takes 2"),
        (
            [np.zeros((4, 2), np.float32), np.zeros((4, 4), np.float32)],
            r"input 1 is float32 \[4, 4\]",
        ),
        ([np.zeros((4, 2)), np.zeros((4, 3), np.float32)], "input 0 is float64"),
    ],
)
def test_wrong_inputs_are_refused(arrays, message):
    executable = _core.compile(_core.parse(TRAINING), training_lines())
    with pytest.raises(_core.Error, match=message):
        executable.run(arrays)


def test_unknown_names_are_refused_with_the_nearest():
    executable = _core.compile(_core.parse(TRAINING), training_lines())
    with pytest.raises(_core.Error, match="no state 'v'"):
        executable.read_state("v")
    with pytest.raises(_core.Error, match="Did you mean 'place_ops'"):
        _core.run_pass(_core.parse(TRAINING), "place_op")
    with pytest.raises(_core.Error, match="IR stages are traced"):
        executable.text("lowered")


def test_an_exception_of_the_progress_callback_arrives():
    def stop(done, steps, name):
        raise KeyboardInterrupt(name)

    with pytest.raises(KeyboardInterrupt):
        _core.compile(_core.parse(TRAINING), training_lines(), {}, stop)


REPEATS = """
graph @inner(%a: f32[8], %b: f32[8]) -> (f32[8], f32[8]) {
  %r = random_uniform() {shape=[8]} : f32[8]
  return %r, %a
}
graph @outer(%a: f32[8], %b: f32[8], %c: f32[8], %d: f32[8]) -> (f32[8], f32[8], f32[8], f32[8]) {
  %p, %q = repeat(%a, %b) {count=2, graph=@inner} : f32[8], f32[8]
  return %p, %q, %a, %b
}
graph @main(%x: f32[8]) -> (f32[8], f32[8], f32[8], f32[8]) {
  %p, %q, %r, %s = repeat(%x, %x, %x, %x) {count=3, graph=@outer} : f32[8], f32[8], f32[8], f32[8]
  return %p, %q, %r, %s
}
"""


def test_rounds_of_repeats_draw_new_numbers():
    executable = _core.compile(_core.parse(REPEATS))
    x = np.zeros(8, np.float32)
    draws = [*executable.run([x]), *executable.run([x])]
    # The last two draws have two rounds each, in each of two runs.
    assert len({tuple(draw) for draw in draws}) == 8
    again = _core.compile(_core.parse(REPEATS))
    np.testing.assert_array_equal(again.run([x])[0], draws[0])


VIEWS = {
    "add": "add(%a, %zero)",
    "broadcast_to": "broadcast_to(%a) {shape=[2, 3]}",
    "cast": "cast(%a) {dtype=f32}",
    "identity": "identity(%a)",
    "mul": "mul(%a, %one)",
    "reshape": "reshape(%a) {shape=[2, 3]}",
    "slice": "slice(%a) {starts=[0, 0], stops=[2, 3], steps=[1, 1]}",
}


@pytest.mark.parametrize("strategy", ["pipelined", "serial_phased"])
@pytest.mark.parametrize("op", VIEWS.values(), ids=VIEWS.keys())
def test_what_is_written_in_place_is_memory_of_its_own_and_returned_as_it_ends(op, strategy):
    module = _core.parse(f"""
    execution {{strategy="{strategy}"}}
    graph @main(%x: f32[2,3], %z: f32[2,3]) -> (f32[2,3], f32[2,3], f32[2,3]) {{
      %zero = constant() {{value=dense<f32[]: -0.0>}} : f32[]
      %one = constant() {{value=dense<f32[]: 1.0>}} : f32[]
      %a = exp(%x) : f32[2,3]
      %b = {op} : f32[2,3]
      assign(%b, %z)
      %c = neg(%a) : f32[2,3]
      return %a, %b, %c
    }}""")
    x, z = np.arange(6, dtype=np.float32).reshape(2, 3), np.full((2, 3), 7, np.float32)
    a, b, c = _core.compile(module).run([x, z])
    np.testing.assert_allclose(a, np.exp(x), rtol=1e-6)
    np.testing.assert_array_equal(b, z)
    np.testing.assert_array_equal(c, -a)
