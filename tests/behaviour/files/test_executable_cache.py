"""Tests the cache of executables, within a process and shared by many processes."""

import os
import re
import sys

import cached_models
import poptorch
import pytest
import torch
import zygote
from poptorch.__main__ import main as command_line

X = torch.ones(2, 3)


def make(folder, layers=None):
    options = poptorch.Options().showCompilationProgressBar(False)
    options.enableExecutableCaching(str(folder))
    return poptorch.inferenceModel(layers or torch.nn.Linear(3, 2), options)


def entries(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_model_is_compiled_once(tmp_path):
    traced = []

    class Noted(torch.nn.Linear):
        def forward(self, x):
            traced.append(1)
            return super().forward(x)

    first, again = make(tmp_path, Noted(3, 2)), make(tmp_path, Noted(3, 2))
    results = first(X), again(X)
    assert len(entries(tmp_path)) == 1
    assert len(traced) == 2
    assert first._debugGetPopartIR().startswith("{")
    assert again._debugGetPopartIR() == "unavailable (Cached executable)"
    for result, wrapped in zip(results, (first, again), strict=True):
        torch.testing.assert_close(
            result, torch.nn.functional.linear(X, wrapped.model.weight, wrapped.model.bias)
        )
    make(tmp_path, torch.nn.Linear(3, 5))(X)
    assert len(entries(tmp_path)) == 2


def test_training_from_the_cache_gives_the_same(tmp_path):
    def losses():
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout(0.5))
        options = poptorch.Options().randomSeed(1).enableExecutableCaching(str(tmp_path))

        class WithLoss(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = model

            def forward(self, x):
                return poptorch.identity_loss(self.inner(x).square(), "mean")

        optimiser = poptorch.optim.Adam(model.parameters(), lr=0.1)
        wrapped = poptorch.trainingModel(WithLoss(), options, optimiser)
        return [wrapped(X) for _ in range(3)], wrapped._debugGetPopartIR()

    (first, _), (again, told) = losses(), losses()
    assert told == "unavailable (Cached executable)"
    assert all(map(torch.equal, first, again))


def test_a_model_that_has_moved_has_its_new_lines(tmp_path):
    layers = torch.nn.Linear(3, 2)
    first, again, moved = make(tmp_path, layers), make(tmp_path, layers), make(tmp_path, layers)
    results = [first(X), again(X)]
    results.append(moved(X))
    assert len(entries(tmp_path)) == 1
    assert all(torch.equal(result, results[0]) for result in results)
    line = int(re.search(r'py":(\d+)', first.graph("program", True))[1])
    assert f'py":{line}' in again.graph("program", True)
    program = moved.graph("program", True)
    assert f'py":{line + 1}' in program and f'py":{line}' not in program


def test_what_is_damaged_is_compiled_again(tmp_path, capfd):
    layers = torch.nn.Linear(3, 2)
    results = []
    for damage in (False, True):
        if damage:
            (name,) = entries(tmp_path)
            good = (tmp_path / name).read_bytes()
            (tmp_path / name).write_bytes(good[:-10])
        results.append(make(tmp_path, layers)(X))
    assert torch.equal(*results)
    assert "cannot be used" in capfd.readouterr().err
    assert (tmp_path / name).read_bytes() == good


def test_folders_that_do_not_serve_are_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(poptorch.Error, match=f"Cache folder {tmp_path}/file is not writable"):
        make(tmp_path / "file")(X)
    (tmp_path / "open").mkdir(mode=0o777)
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(poptorch.Error, match=f"other users can write to {tmp_path}/open"):
        make(tmp_path / "open")(X)


def test_nothing_is_kept_of_the_ipu_model(tmp_path, capfd):
    options = poptorch.Options().useIpuModel(True).enableExecutableCaching(str(tmp_path))
    poptorch.inferenceModel(torch.nn.Linear(3, 2), options)(X)
    assert entries(tmp_path) == []
    text = "enableExecutableCaching doesn't work with the IPU model"
    assert capfd.readouterr().err.count(text) == 1


def in_process(*arguments, **environment):
    return zygote.run(
        [sys.executable, *arguments], capture_output=True, text=True,
        env={**os.environ, **environment},
    )  # fmt: skip


def test_the_variable_names_a_folder(tmp_path):
    folder, code = str(tmp_path / "cache"), "import poptorch; poptorch.Options()"
    done = in_process("-c", code, POPTORCH_CACHE_DIR=folder, POPTORCH_LOG_LEVEL="INFO")
    assert f"POPTORCH_CACHE_DIR is set: setting cache path to {folder}" in done.stderr


def test_the_command_line_looks_after_a_folder(tmp_path, monkeypatch, capsys):
    folder = str(tmp_path / "cache")
    monkeypatch.setenv("POPTORCH_CACHE_DIR", folder)
    for rows in (2, 3):
        make(folder, torch.nn.Linear(3, rows))(X)
    first, second = entries(tmp_path / "cache")

    def cache(*arguments):
        capsys.readouterr()
        return command_line(["cache", *arguments]), capsys.readouterr().out

    code, text = cache("list")
    assert code == 0 and first.removesuffix(".poptorch") in text and "2 entries" in text
    assert cache("verify") == (0, "2 entries, 0 damaged\n")
    (tmp_path / "cache" / first).write_bytes(b"damaged")
    code, text = cache("verify", folder)
    assert code == 1 and first in text and "2 entries, 1 damaged" in text
    assert cache("prune", "--unused-days", "1") == (0, "0 of 2 entries removed\n")
    assert cache("prune") == (0, "2 of 2 entries removed\n")
    assert cache("list", str(tmp_path / "none")) == (2, "")


def test_the_command_line_looks_into_files(tmp_path, capsys):
    import safetensors.torch

    wrapped = make(tmp_path / "cache")
    wrapped.compileAndExport(tmp_path / "f", X)

    def file(*arguments):
        capsys.readouterr()
        assert command_line(["file", *arguments]) == 0
        return capsys.readouterr().out

    shown = file("show", str(tmp_path / "f"))
    assert f"version {poptorch.__version__}" in shown and "state weight: float32[2, 3]" in shown
    assert file("program", str(tmp_path / "f")).startswith("program {")
    assert file("weights", str(tmp_path / "f"), str(tmp_path / "w")) == "2 tensors\n"
    held = safetensors.torch.load_file(tmp_path / "w")
    assert torch.equal(held["weight"], wrapped.model.weight)


# Before it compiles; while it compiles and others wait for it; while it writes the result.
KILLS = ["compile:2:SIGKILL", "compile:1:lower:SIGKILL", "save:1:SIGKILL", "save:4:SIGKILL"]


@pytest.mark.nightly
@pytest.mark.signals
@pytest.mark.parametrize("faults", [[], *([kill] for kill in KILLS)], ids=str)
def test_processes_compile_a_model_once(tmp_path, faults):
    cached_models.round_of(str(tmp_path), 4, 6, faults)


@pytest.mark.nightly
@pytest.mark.signals
def test_a_kill_leaves_whole_files():
    done = in_process(cached_models.__file__, "steps", "50")
    assert done.returncode == 0, done.stderr
    assert "50, and every file was whole" in done.stdout
