"""Programs that write values in place agree with NumPy.

A value is separate memory, and its readers see the last write before them. The programs are written
as text, so that every op can be next to every write.
"""

import random

import numpy as np
import pytest
from poptorch_core import _core

SHAPE = (2, 3)
STRATEGIES = ["pipelined", "sharded", "serial_phased", "parallel_phased"]
# Text of an op on %a and %b → its function; all have one shape.
OPS = {
    "neg(%a)": lambda a, b: -a,
    "abs(%a)": lambda a, b: np.abs(a),
    "relu(%a)": lambda a, b: np.maximum(a, 0),
    "add(%a, %b)": lambda a, b: a + b,
    "sub(%a, %b)": lambda a, b: a - b,
    "maximum(%a, %b)": lambda a, b: np.maximum(a, b),
    "add(%a, %zero)": lambda a, b: a,
    "mul(%a, %one)": lambda a, b: a,
    "identity(%a)": lambda a, b: a,
    "cast(%a) {dtype=f32}": lambda a, b: a,
    "reshape(%a) {shape=[2, 3]}": lambda a, b: a,
    "transpose(%a) {permutation=[0, 1]}": lambda a, b: a,
    "broadcast_to(%a) {shape=[2, 3]}": lambda a, b: a,
    "broadcast_to(%one) {shape=[2, 3]}": lambda a, b: np.ones(SHAPE, np.float32),
    "slice(%a) {starts=[0, 0], stops=[2, 3], steps=[1, 1]}": lambda a, b: a,
    "reverse(%a) {axes=[1]}": lambda a, b: a[:, ::-1],
}
WRITES = {
    "assign(%a, %b)": lambda a, b: b,
    "accumulate(%a, %b)": lambda a, b: a + b,
    "accumulate(%a, %b) {scale=-2.0}": lambda a, b: a - 2 * b,
    "increment(%a) {by=3.0}": lambda a, b: a + 3,
    "call(%a, %b) {graph=@write}": lambda a, b: b,
}
HEAD = """state "w" : f32[2,3]
graph @write(%y: &f32[2,3], %z: f32[2,3]) -> () {
  assign(%y, %z)
  return
}
graph @main(%x: f32[2,3], %z: f32[2,3]) -> (RESULTS) {
  %zero = constant() {value=dense<f32[]: -0.0>} : f32[]
  %one = constant() {value=dense<f32[]: 1.0>} : f32[]
  %w = variable() {name="w"} : f32[2,3]
  assign(%w, %x)
"""


def program(seed, x, z):
    """Returns the text of a random program, and its expected results."""
    rng = random.Random(seed)
    values = {"x": x, "z": z, "w": x}
    lines = []

    def pick():
        return rng.choice(list(values)[-5:] if rng.random() < 0.7 else list(values))

    def put(text, a, b):
        return text.replace("%a", f"%{a}").replace("%b", f"%{b}")

    for i in range(rng.randint(4, 14)):
        a, b = pick(), pick()
        if rng.random() < 0.35 and a not in ("x", "z") and a != b:
            text, compute = rng.choice(list(WRITES.items()))
            lines.append(f"  {put(text, a, b)}")
            values[a] = compute(values[a], values[b])
        elif rng.random() < 0.2:  # slices that are put together again
            lines += [
                f"  %p{i} = slice(%{a}) {{starts=[0, 0], stops=[1, 3], steps=[1, 1]}} : f32[1,3]",
                f"  %q{i} = slice(%{b}) {{starts=[1, 0], stops=[2, 3], steps=[1, 1]}} : f32[1,3]",
                f"  %v{i} = concat(%p{i}, %q{i}) {{axis=0}} : f32[2,3]",
            ]
            values[f"v{i}"] = np.concatenate([values[a][:1], values[b][1:]])
        else:
            text, compute = rng.choice(list(OPS.items()))
            lines.append(f"  %v{i} = {put(text, a, b)} : f32[2,3]")
            values[f"v{i}"] = compute(values[a], values[b])
    made = [name for name in values if name[0] == "v"] or ["x"]
    outputs = rng.sample(made, min(len(made), rng.randint(1, 4)))
    head = HEAD.replace("RESULTS", ", ".join(["f32[2,3]"] * len(outputs)))
    text = f"{head}{chr(10).join(lines)}\n  return {', '.join('%' + o for o in outputs)}\n}}\n"
    strategy = f'execution {{strategy="{STRATEGIES[seed % 4]}"}}\n'
    return strategy + text, [values[name] for name in outputs]


# A hundred each, and some that a copy in a fused chain once got wrong.
SEEDS = [*(range(first, first + 100) for first in range(0, 1000, 100)), [2531, 4304, 23589, 24398]]


@pytest.mark.parametrize("seeds", SEEDS, ids=lambda seeds: str(seeds[0]))
def test_programs_that_write_in_place(seeds):
    x = np.float32([[1, -2, 3], [-4, 5, -6]])
    z = np.float32([[7, 0, -1], [2, -3, 0.5]])
    for seed in seeds:
        text, expected = program(seed, x, z)
        results = _core.compile(_core.parse(text)).run([x, z])
        for result, right in zip(results, expected, strict=True):
            np.testing.assert_array_equal(result, right, err_msg=f"seed {seed}\n{text}")
