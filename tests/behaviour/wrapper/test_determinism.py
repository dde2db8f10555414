"""Every run and thread count gives the same bits, and every process the same text.

Both hold on one IPU and in a placement configuration of tests/configs.
"""

import functools
import os
import pathlib
import subprocess
import sys

import pytest

PROGRAM = """
import hashlib, sys
import poptorch, torch
from benchmarks.workloads import make

world, *names = sys.argv[1:]
if world:
    import worlds
    inside = worlds.entered(worlds.CONFIGS[world])
    inside.__enter__()
for name in names:
    instance = make(name)
    options = poptorch.Options().showCompilationProgressBar(False)
    if instance.row.training:
        wrapped = poptorch.trainingModel(instance.model, options, instance.optimiser())
    else:
        wrapped = poptorch.inferenceModel(instance.model, options)
    bits = hashlib.sha256()
    for batch in instance.batches(2):
        bits.update(wrapped(*batch).numpy().tobytes())
    for tensor in instance.model.state_dict().values():
        bits.update(tensor.numpy().tobytes())
    texts = hashlib.sha256()
    for form in ("traced", "normal", "differentiated", "placed", "program"):
        texts.update(wrapped.graph(form).encode())
    print(name, bits.hexdigest(), texts.hexdigest())
"""
WORKLOADS = ["W1", "W2", "W3", "W4", "W5", "W7", "W8"]


def run(threads, hash_seed, world="", workloads=WORKLOADS):
    paths = [str(pathlib.Path(__file__).parents[2]), *filter(None, sys.path)]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, world, *workloads],
        env={
            **os.environ,
            "POPTORCH_NUM_THREADS": threads,
            "PYTHONHASHSEED": hash_seed,
            "PYTHONPATH": os.pathsep.join(paths),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@functools.cache
def once_with(_variables):
    return run("1", "1")


@pytest.fixture
def on_one_thread(world):
    """Runs with the configuration's variables, like the runs that are compared."""
    return once_with(tuple((world or {}).get("environment", {}).items()))


@pytest.mark.shared
@pytest.mark.parametrize("threads, hash_seed", [("1", "2"), ("2", "3"), ("4", "4")])
def test_bits_and_texts_are_the_same(on_one_thread, threads, hash_seed):
    assert len(on_one_thread) == len(WORKLOADS)
    assert run(threads, hash_seed) == on_one_thread


@pytest.mark.shared
def test_bits_and_texts_are_the_same_on_many_ipus():
    world, workloads = "pipelined_2_replicated_2", ["W1", "W3", "W4", "W7", "W8"]
    alone = run("1", "1", world, workloads)
    assert len(alone) == len(workloads)
    assert run("4", "2", world, workloads) == alone
