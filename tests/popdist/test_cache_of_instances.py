"""Instances that share a cache folder compile once, also when one of them is killed."""

import contextlib
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import poptorch
import pytest
import torch
from launching import clean_environment, ended, until
from popdist.presence import is_stopped

COMPILES = textwrap.dedent("""
    import os, pathlib, signal, sys
    import poptorch, torch
    process, folder, stops = int(sys.argv[1]), sys.argv[2], bool(sys.argv[3])

    def stop_while_locked(*_):
        if any(pathlib.Path(folder).glob("*.lock")):
            os.kill(os.getpid(), signal.SIGSTOP)

    options = poptorch.Options().useOfflineIpuTarget().showCompilationProgressBar(stops)
    if stops:
        options._progress_bar = stop_while_locked
    options.Distributed.configureProcessId(process, 3)
    options.enableExecutableCaching(folder)
    model = poptorch.inferenceModel(torch.nn.Linear(8, 8), options)
    model.compile(torch.zeros(1, 8))
    print("cached" if "Cached" in model._debugGetPopartIR() else "compiled")
""")


def started(process, folder, stops=""):
    return subprocess.Popen(
        [sys.executable, "-c", COMPILES, str(process), str(folder), stops], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=clean_environment(POPTORCH_LOG_LEVEL="DEBUG"),
    )  # fmt: skip


def said_of(process):
    out, err = ended(process)
    return out.strip(), re.findall(r"(?:Executable cache file|Process \d released).*", err)


@pytest.mark.shared
def test_the_first_compiles_and_the_others_load(tmp_path):
    found = [said_of(process) for process in [started(i, tmp_path) for i in range(3)]]
    assert sorted(said for said, _ in found) == ["cached", "cached", "compiled"]
    for number, (said, told) in enumerate(found):
        assert told == [] if said == "cached" else [
            f"Executable cache file locked by process {number} (pos 1/3)",
            f"Process {number} released the cache lock",
        ]  # fmt: skip
    assert [path.suffix for path in tmp_path.iterdir()] == [".poptorch"]


def has_open(pid, path):
    """Returns whether a process has a file open."""
    with contextlib.suppress(OSError):
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if file.readlink() == path:
                    return True
    return False


@pytest.mark.nightly
@pytest.mark.signals
def test_another_takes_over_from_one_that_is_killed(tmp_path):
    killed = started(0, tmp_path, "stops")
    until(lambda: is_stopped(killed.pid) or killed.poll() is not None)
    assert killed.poll() is None, killed.communicate()
    (lock,) = tmp_path.glob("*.lock")
    heir = started(1, tmp_path)
    until(lambda: has_open(heir.pid, lock) or heir.poll() is not None)
    assert heir.poll() is None, heir.communicate()
    assert not list(tmp_path.glob("[!.]*.poptorch"))
    killed.kill()
    killed.communicate()
    assert said_of(heir)[0] == "compiled"
    assert said_of(started(2, tmp_path))[0] == "cached"


@pytest.mark.parametrize("processes", [1, 2])
def test_several_without_a_folder_are_told_of_it(monkeypatch, capfd, processes):
    monkeypatch.delenv("POPTORCH_CACHE_DIR", raising=False)
    options = poptorch.Options().useOfflineIpuTarget()
    options.Distributed.configureProcessId(0, processes)
    poptorch.inferenceModel(torch.nn.Linear(2, 2), options).compile(torch.zeros(1, 2))
    advice = "Use poptorch.Options.enableExecutableCaching() to avoid compiling the model once per"
    assert (advice in capfd.readouterr().err) == (processes > 1)
