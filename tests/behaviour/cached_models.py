"""Many programs that compile the same models into one folder, some of which are killed.

`python cached_models.py work FOLDER MODELS` compiles them and prints, of each, whether it was
compiled and the digest of its result; `... hammer FOLDER` exports and caches until it is killed;
`... rounds N` runs the whole N times, with and without kills.
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
    """Equal numbers make equal models; the weights differ."""
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
    """Prints a line when it has begun, and then has always one file or the other half written."""
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


def started(folder, models):
    return subprocess.Popen(
        [sys.executable, __file__, "work", folder, str(models)], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "POPTORCH_LOG_LEVEL": "ERR", "POPTORCH_CACHE_DIR": folder},
    )  # fmt: skip


def round_of(folder, processes, models, killed):
    """Compilations a model, of programs that were not killed. Raises where a promise is broken."""
    running = [started(folder, models) for _ in range(processes)]
    for victim in running[:killed]:
        time.sleep(random.uniform(0, 0.4) + (1.5 if victim is running[0] else 0))
        victim.kill()
    compiled, digests = [0] * models, [set() for _ in range(models)]
    for number, process in enumerate(running):
        out, _ = process.communicate(timeout=600)
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


def kills(folder, count):
    """Kills a program that writes, so often; after each, what is there is whole."""
    from poptorch_core import _torch

    environment = {"POPTORCH_CACHE_DIR": f"{folder}/cache", "POPTORCH_LOG_LEVEL": "ERR"}
    for _ in range(count):
        child = os.fork()
        if child == 0:
            os.environ.update(environment)
            hammer(folder)
        time.sleep(random.uniform(0.01, 0.12))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for path in [*Path(folder).glob("f"), *Path(folder, "cache").glob("*.poptorch")]:
            if not path.name.startswith("."):
                file = _torch.ExecutableFile(str(path))
                assert [file.read(section) for section in file.sections()]


def rounds(count):
    for _ in range(count):
        for killed in (0, KILLED):
            with tempfile.TemporaryDirectory() as folder:
                round_of(folder, PROCESSES, MODELS, killed)
    print(f"cache: {count} rounds of {PROCESSES} processes and {MODELS} models, also killed")


def killed_often(count):
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/cache", 0o700)
        kills(folder, count)
    print(f"kills: {count}, and every file was whole")


if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    if name == "work":
        work(arguments[0], int(arguments[1]))
    elif name == "rounds":
        rounds(int(arguments[0]))
    else:
        killed_often(int(arguments[0]))
