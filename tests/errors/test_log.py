"""What is logged on request, by options and by environment variables."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import poptorch
import pytest
import torch
from poptorch._impl import environment

ROOT = Path(__file__).resolve().parents[2]
X = torch.randn(4, 3)


@pytest.fixture
def log(caplog):
    poptorch._logging.logger.propagate = True
    yield caplog
    poptorch._logging.logger.propagate = False
    poptorch.setLogLevel("INFO")


def test_choosing_the_ipu_model_is_logged(log):
    poptorch.Options().useIpuModel(True).useIpuModel(False)
    assert "From the user configuration: Ipu model: Enabled" in log.text
    assert "From the user configuration: Ipu model: Disabled" in log.text


def test_a_period_without_use_is_logged(log):
    poptorch.Options().outputMode(poptorch.OutputMode.All, 3)
    assert "The period 3 is ignored: All has none" in log.text
    assert [record.levelname for record in log.records] == ["INFO"]


def test_cycles_are_logged_at_debug(log):
    poptorch.setLogLevel("DEBUG")
    wrapped = poptorch.inferenceModel(torch.relu, poptorch.Options().logCycleCount(True))
    wrapped(X)
    assert f"Total number of IPU cycles: {wrapped.cycleCount()}" in log.text


def test_a_loader_of_an_iterable_with_workers_is_warned_about(log):
    class Numbers(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(torch.arange(4.0))

    poptorch.DataLoader(poptorch.Options(), Numbers(), num_workers=2)
    assert "several workers and no worker_init_fn" in log.text


def test_hidden_levels_are_taken():
    for level in ("TRACE_ALL", "DEBUG_IR", "ERR", 0, 4, 6):
        poptorch.setLogLevel(level)
    poptorch.setLogLevel("INFO")


def test_the_compiler_has_a_level_of_its_own(capfd):
    def compiled():
        options = poptorch.Options().showCompilationProgressBar(False)
        poptorch.inferenceModel(torch.relu, options).compile(torch.ones(3))
        return capfd.readouterr().err

    assert "compile: lower took" not in compiled()
    poptorch._logging.setPopartLogLevel("DEBUG")
    try:
        assert "[poptorch:cpp] [debug] compile: lower took" in compiled()
    finally:
        poptorch._logging.setPopartLogLevel("INFO")
    assert "compile: lower took" not in compiled()
    with pytest.raises(ValueError, match="Unknown log level: wibble"):
        poptorch._logging.setPopartLogLevel("wibble")


# --- the environment -----------------------------------------------------------------------------
def run(program, **variables):
    """stdout and stderr of a program in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, done.stderr


COMPILES = """
    import poptorch, torch
    options = poptorch.Options().showCompilationProgressBar(False)
    poptorch.inferenceModel(lambda x: x + torch.ones(3), options)(torch.ones(3))
"""
TIME = r"\[\d\d:\d\d:\d\d\.\d{3}\]"


def test_a_log_file_has_the_lines_of_both_layers(tmp_path):
    file = tmp_path / "log"
    assert run(COMPILES, POPTORCH_LOG_DEST=str(file)) == ("", "")
    lines = file.read_text().splitlines()
    assert any(re.match(rf"{TIME} \[poptorch::python\] \[info\] Compiled", line) for line in lines)
    warning = rf"{TIME} \[poptorch:cpp\] \[warning\] No device set in torch\.ones\(\)"
    assert any(re.match(warning, line) for line in lines)


def test_a_log_on_stdout():
    written, errors = run(COMPILES, POPTORCH_LOG_DEST="stdout")
    assert "[poptorch::python] [info]" in written and not errors


def test_levels_in_the_environment():
    _, errors = run(COMPILES, POPTORCH_LOG_LEVEL="ERR", POPART_LOG_LEVEL="DEBUG")
    assert "compile: lower took" in errors and "Compiled" not in errors
    _, errors = run(COMPILES, POPTORCH_LOG_LEVEL="DEBUG", POPART_LOG_LEVEL="OFF")
    assert "compile: lower took" not in errors and "Compiled" in errors
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run("import poptorch", POPART_LOG_LEVEL="wibble")
    assert "POPART_LOG_LEVEL=wibble: Unknown log level: wibble. Valid" in failed.value.stderr


def test_a_traced_form_in_the_log():
    _, errors = run(COMPILES, POPTORCH_LOG_LEVEL="TRACE")
    assert re.search(r"\[trace\] traced:\ngraph @main\(.* = add\(.*return", errors, re.DOTALL)
    _, cut = run(COMPILES, POPTORCH_LOG_LEVEL="TRACE", POPTORCH_MAX_GRAPH_LEN="10")
    assert "traced:\ngraph @mai... (cut)\n" in cut


def test_the_ordinary_path_logs_one_line():
    _, errors = run(COMPILES.replace("torch.ones(3), options", "1, options"))
    assert len(errors.splitlines()) == 1


@pytest.mark.parametrize(
    "name", [name for name, (_, works) in environment.VARIABLES.items() if not works]
)
def test_variables_without_effect_say_so(name):
    _, errors = run("import poptorch", **{name: "x"})
    assert f"The environment variable {name} has no effect in this version" in errors


@pytest.mark.parametrize("version", ["ipu1", "ipu2", "ipu21"])
def test_the_version_of_the_ipu_model(version):
    program = COMPILES + "    print(poptorch.ipuHardwareVersion())\n"
    variables = {"POPTORCH_IPU_MODEL": "1", "POPTORCH_IPU_MODEL_VERSION": version}
    assert run(program, **variables)[0] == "0\n"


def test_every_variable_is_in_the_table():
    sources = [*(ROOT / "python/poptorch").rglob("*.py"), *(ROOT / "poptorch_cpp").rglob("*.cpp")]
    read = set()
    for source in sources:
        text = source.read_text()
        read |= set(re.findall(r'(?:getenv\(|environ\.get\(\s*|environ\[)"(\w+)"', text))
    assert read - {"HOME", "TMPDIR"} <= set(environment.VARIABLES)
