"""Compiles the same models into one cache folder in many programs, some of which are killed.

`python cached_models.py work FOLDER MODELS` compiles the models and prints for each whether it was
compiled, and the digest of its result. `... rounds N SEED` runs the whole N times, with and without
kills at random times. `... kills N SEED` kills a program N times that exports and caches. `...
steps N` kills it once at each of its first N steps of writing files.
"""

import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROCESSES, MODELS, KILLED = 16, 25, 5


def model(number):
    """Equal numbers give equal models; other numbers have other weights."""
    import poptorch
    import torch

    options = poptorch.Options().showCompilationProgressBar(False)
    layers = torch.nn.Sequential(torch.nn.Linear(3, 3 + number), torch.nn.Tanh())
    with torch.no_grad():
        for weight in layers.parameters():
            weight.fill_(0.1)
    return poptorch.inferenceModel(layers, options)


def work(folder, models):
    import torch

    os.environ["POPTORCH_CACHE_DIR"] = folder
    for number in range(models):
        wrapped = model(number)
        result = wrapped(torch.ones(2, 3))
        digest = hashlib.sha1(result.numpy().tobytes()).hexdigest()
        print(number, int(wrapped._debugGetPopartIR().startswith("{")), digest, flush=True)


def hammer(folder):
    """Prints a line when it has begun; from then on one of the files is always half written."""
    import torch

    cache = os.environ["POPTORCH_CACHE_DIR"] = f"{folder}/cache"
    wrapped = model(0)
    wrapped.compileAndExport(f"{folder}/f", torch.ones(2, 3))
    print("ready", flush=True)
    for number in range(10**9):
        wrapped.save(f"{folder}/f")
        for entry in Path(cache).glob("*.poptorch"):
            entry.unlink(missing_ok=True)
        model(number % 3).compile(torch.ones(2, 3))


def started(folder, models, **environment):
    names = {"POPTORCH_LOG_LEVEL": "ERR", "POPTORCH_CACHE_DIR": folder, **environment}
    return subprocess.Popen(
        [sys.executable, __file__, "work", folder, str(models)], stdout=subprocess.PIPE, text=True,
        env={**os.environ, **names},
    )  # fmt: skip


def round_of(folder, processes, models, faults=(), killed_at=()):
    """Returns the number of compilations in programs that were not killed. Raises if a promise is
    broken.

    faults: POPTORCH_FAULT of the first programs, which it kills. killed_at: instead of faults, the
    seconds between kills.
    """
    killed = len(faults or killed_at)
    running = [started(folder, models, POPTORCH_FAULT=fault) for fault in faults]
    running += [started(folder, models) for _ in range(processes - len(running))]
    for victim, seconds in zip(running, killed_at, strict=False):
        time.sleep(seconds)
        victim.kill()
    compiled, digests = [0] * models, [set() for _ in range(models)]
    for number, process in enumerate(running):
        out, _ = process.communicate()
        if number >= killed:
            assert process.returncode == 0, process.returncode
            assert len(out.splitlines()) == models
        for line in out.splitlines() if number >= killed else ():
            which, fresh, digest = line.split()
            compiled[int(which)] += int(fresh)
            digests[int(which)].add(digest)
    assert all(len(found) == 1 for found in digests), digests
    assert all(count <= 1 for count in compiled), compiled
    names = [path.name for path in Path(folder).iterdir()]
    whole = [name for name in names if name.endswith(".poptorch") and not name.startswith(".")]
    assert len(whole) == models, names
    if not killed:
        assert sorted(names) == sorted(whole), names
        assert compiled == [1] * models, compiled
    return sum(compiled)


def kills(folder, count, draw=None):
    """Kills a program that writes `count` times. After each kill, all files are whole.

    The program dies at its first step of writing a file, then at the second, and so on; with
    `draw`, at random times.
    """
    from poptorch_core import _core, _torch

    environment = {"POPTORCH_CACHE_DIR": f"{folder}/cache", "POPTORCH_LOG_LEVEL": "ERR"}
    for number in range(count):
        child = os.fork()
        if child == 0:
            os.environ.update(environment)
            if draw is None:
                _core.arm_fault(f"save:{number + 1}:SIGKILL")
            hammer(folder)
        if draw is not None:
            time.sleep(draw.uniform(0.01, 0.12))
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
        for path in [*Path(folder).glob("f"), *Path(folder, "cache").glob("*.poptorch")]:
            if not path.name.startswith("."):
                file = _torch.ExecutableFile(str(path))
                assert [file.read(section) for section in file.sections()]


def rounds(count, seed):
    draw = random.Random(seed)
    for _ in range(count):
        for killed in (0, KILLED):
            times = [draw.uniform(0, 0.4) + (1.5 if i == 0 else 0) for i in range(killed)]
            with tempfile.TemporaryDirectory() as folder:
                round_of(folder, PROCESSES, MODELS, killed_at=times)
    print(f"cache: {count} rounds of {PROCESSES} processes and {MODELS} models, also killed")


def killed_often(count, draw=None):
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/cache", 0o700)
        kills(folder, count, draw)
    print(f"kills: {count}, and every file was whole")


if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    if name == "work":
        work(arguments[0], int(arguments[1]))
    elif name == "steps":
        killed_often(int(arguments[0]))
    else:
        count, seed = map(int, arguments)
        print(f"seed {seed}")
        if name == "rounds":
            rounds(count, seed)
        else:
            killed_often(count, random.Random(seed))
