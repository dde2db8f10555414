"""Instances that share a folder of executables compile once, also when one of them is killed."""

import re
import signal
import subprocess
import sys
import textwrap

import poptorch
import pytest
import torch
from launching import clean_environment, until

COMPILES = textwrap.dedent("""
    import sys
    import poptorch, torch
    process, folder, layers = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    options = poptorch.Options().useOfflineIpuTarget().showCompilationProgressBar(False)
    options.Distributed.configureProcessId(process, 3)
    if folder:
        options.enableExecutableCaching(folder)
    layers = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(layers)))
    model = poptorch.inferenceModel(layers, options)
    model.compile(torch.zeros(1, 8))
    print("cached" if "Cached" in model._debugGetPopartIR() else "compiled")
""")

LAYERS = 3000  # which take much longer to compile than a look at the folder


def started(process, folder, layers=10):
    return subprocess.Popen(
        [sys.executable, "-c", COMPILES, str(process), folder, str(layers)], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=clean_environment(POPTORCH_LOG_LEVEL="DEBUG"),
    )  # fmt: skip


def ended(process):
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    return out.strip(), re.findall(r"(?:Executable cache file|Process \d released).*", err)


def test_the_first_compiles_and_the_others_load(tmp_path):
    found = [ended(process) for process in [started(i, str(tmp_path)) for i in range(3)]]
    assert sorted(said for said, _ in found) == ["cached", "cached", "compiled"]
    for number, (said, told) in enumerate(found):
        assert told == [] if said == "cached" else [
            f"Executable cache file locked by process {number} (pos 1/3)",
            f"Process {number} released the cache lock",
        ]  # fmt: skip
    assert [path.suffix for path in tmp_path.iterdir()] == [".poptorch"]


def test_another_takes_over_from_one_that_is_killed(tmp_path):
    killed = started(0, str(tmp_path), LAYERS)
    until(lambda: list(tmp_path.glob("*.lock")), seconds=60)
    killed.send_signal(signal.SIGSTOP)
    heir = started(1, str(tmp_path), LAYERS)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            heir.wait(timeout=4)
        assert not list(tmp_path.glob("[!.]*.poptorch"))  # stopped while it was compiling
    finally:
        killed.kill()
        killed.communicate()
    assert ended(heir)[0] == "compiled"
    assert ended(started(2, str(tmp_path), LAYERS))[0] == "cached"


@pytest.mark.parametrize("processes", [1, 2])
def test_several_without_a_folder_are_told_of_it(monkeypatch, capfd, processes):
    monkeypatch.delenv("POPTORCH_CACHE_DIR", raising=False)
    options = poptorch.Options().useOfflineIpuTarget()
    options.Distributed.configureProcessId(0, processes)
    poptorch.inferenceModel(torch.nn.Linear(2, 2), options).compile(torch.zeros(1, 2))
    advice = "Use poptorch.Options.enableExecutableCaching() to avoid compiling the model once per"
    assert (advice in capfd.readouterr().err) == (processes > 1)
