"""Tests the log that options and environment variables request."""

import logging
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import poptorch
import pytest
import torch
import zygote
from poptorch._impl.options import environment

ROOT = Path(__file__).resolve().parents[2]
X = torch.randn(4, 3)


@pytest.fixture
def log(caplog):
    yield caplog
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


def run(program, **variables):
    """Returns stdout and stderr of a program in a separate process."""
    done = zygote.run(
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


@pytest.mark.shared
def test_a_log_file_has_the_lines_of_both_layers(tmp_path):
    file = tmp_path / "log"
    assert run(COMPILES, POPTORCH_LOG_DEST=str(file)) == ("", "")
    lines = file.read_text().splitlines()
    assert any(re.match(rf"{TIME} \[poptorch::python\] \[info\] Compiled", line) for line in lines)
    warning = rf"{TIME} \[poptorch:cpp\] \[warning\] No device set in torch\.ones\(\)"
    assert any(re.match(warning, line) for line in lines)


@pytest.mark.shared
def test_a_log_on_stdout():
    written, errors = run(COMPILES, POPTORCH_LOG_DEST="stdout")
    assert "[poptorch::python] [info]" in written and not errors


@pytest.mark.shared
def test_levels_in_the_environment():
    _, errors = run(COMPILES, POPTORCH_LOG_LEVEL="ERR", POPART_LOG_LEVEL="DEBUG")
    assert "compile: lower took" in errors and "Compiled" not in errors
    _, errors = run(COMPILES, POPTORCH_LOG_LEVEL="DEBUG", POPART_LOG_LEVEL="OFF")
    assert "compile: lower took" not in errors and "Compiled" in errors
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run("import poptorch", POPART_LOG_LEVEL="wibble")
    assert "[environment] POPART_LOG_LEVEL is 'wibble'. Set it to TRACE, DEB" in failed.value.stderr


@pytest.mark.shared
def test_a_traced_form_in_the_log():
    _, errors = run(COMPILES, POPTORCH_LOG_LEVEL="TRACE")
    assert re.search(r"\[trace\] traced:\ngraph @main\(.* = add\(.*return", errors, re.DOTALL)
    _, cut = run(COMPILES, POPTORCH_LOG_LEVEL="TRACE", POPTORCH_MAX_GRAPH_LEN="10")
    assert "traced:\ngraph @mai... (cut)\n" in cut


def test_the_ordinary_path_logs_one_line():
    _, errors = run(COMPILES.replace("torch.ones(3), options", "1, options"))
    assert len(errors.splitlines()) == 1


@pytest.mark.parametrize("name", [name for name, *_, works in environment.VARIABLES if not works])
def test_variables_without_effect_say_so(name):
    _, errors = run("import poptorch", **{name: "x"})
    assert f"The environment variable {name} has no effect in this version" in errors


@pytest.mark.shared
@pytest.mark.parametrize("version", ["ipu1", "ipu2", "ipu21"])
def test_the_version_of_the_ipu_model(version):
    program = COMPILES + "    print(poptorch.ipuHardwareVersion())\n"
    variables = {"POPTORCH_IPU_MODEL": "1", "POPTORCH_IPU_MODEL_VERSION": version}
    assert run(program, **variables)[0] == "0\n"


# Variables of the system, of Python, and of launchers.
STANDARD = {"XDG_RUNTIME_DIR", "PYTHONPATH", "MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_ID",
            "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_USE_AGENT_STORE"}  # fmt: skip
# Variables between processes of one program: popdist/instance.py has their names.
OF_INSTANCES = {"POPDIST_COMPAT"}


def test_every_variable_is_in_the_table():
    known = {name for name, *_ in environment.VARIABLES}
    readers = r"environment(?:_text|_flag|_number|_names|\.text|\.flag|\.number)\(\s*"
    sources = [*(ROOT / "python").rglob("*.py"), *(ROOT / "poptorch_cpp").rglob("*.cpp")]
    read = set()
    for source in sources:
        text = source.read_text()
        read |= set(re.findall(rf'{readers}"(\w+)"', text))
        # Each language has one reader of the environment.
        if source.name == "environment.cpp":
            continue
        assert "getenv(" not in text, source
        by_name = set(re.findall(r'environ(?:\.get\(|\[)\s*"(\w+)"', text))
        assert by_name <= STANDARD | OF_INSTANCES, source
    assert len(read) > 12 and read <= known


BAD = {
    "choice": ("wibble", "Set it to .* or "),
    "flag": ("maybe", "Set it to 0 or 1, or unset it"),
    "number": ("abc", r"Set it to a whole number (from \d+ to \d+|of \d or more), or unset it"),
}


@pytest.mark.parametrize("name, kind", [row[:2] for row in environment.VARIABLES if row[1] in BAD])
def test_values_of_variables_are_checked(name, kind, monkeypatch):
    bad, cure = BAD[kind]
    monkeypatch.setenv(name, bad)
    text = rf"\[environment\] {name} is '{bad}'\. {cure}"
    with pytest.raises(poptorch.Error, match=text):
        environment.check()
    with pytest.raises(poptorch.Error, match=text):
        poptorch.inferenceModel(torch.relu).compile(X)


@pytest.mark.parametrize("number", ["-1", "1025", "99999999999999999999", "1.5", "0x10", " 2"])
def test_numbers_are_in_their_range(number, monkeypatch):
    monkeypatch.setenv("POPTORCH_NUM_THREADS", number)
    with pytest.raises(poptorch.Error, match="a whole number from 0 to 1024"):
        poptorch.inferenceModel(torch.relu).compile(X)


@pytest.mark.parametrize(
    "variable, value, reason",
    [
        ("POPTORCH_DUMP", "nopass", "names 'nopass', which is not a pass"),
        ("POPTORCH_DUMP", "all,canonicalize", "Did you mean 'canonicalise'"),
        ("POPTORCH_DISABLE_PASSES", "nopass", "names 'nopass', which is not a pass"),
        ("POPTORCH_DISABLE_PASSES", "place_ops", "'place_ops', which is a required pass"),
        ("POPTORCH_DISABLE_PASSES", "all", "names 'all', which is not a pass"),
    ],
)
def test_names_of_passes_are_checked(variable, value, reason, monkeypatch):
    monkeypatch.setenv(variable, value)
    with pytest.raises(poptorch.Error, match=rf"\[environment\] {variable} .*{reason}"):
        poptorch.inferenceModel(torch.relu).compile(X)


def test_passes_that_nothing_needs_may_be_left_out(monkeypatch):
    optional = "eliminate_dead_ops,merge_common_subexpressions,canonicalise,fold_constants"
    monkeypatch.setenv("POPTORCH_DISABLE_PASSES", f"{optional},inline_calls,recompute_forward")
    model = poptorch.inferenceModel(lambda x: torch.relu(x * 2 + 1))
    assert torch.equal(model(X), torch.relu(X * 2 + 1))


def test_variables_that_are_not_there(log, monkeypatch):
    monkeypatch.setenv("POPTORCH_NUM_THREAD", "2")
    monkeypatch.setenv("POPTORCH_WIBBLE", "2")
    environment.check()
    assert "no environment variable POPTORCH_NUM_THREAD: it has no effect. Did you me" in log.text
    assert "no environment variable POPTORCH_WIBBLE: it has no effect" in log.text


@pytest.mark.shared
def test_a_log_that_cannot_be_written(tmp_path):
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run("import poptorch", POPTORCH_LOG_DEST=str(tmp_path / "none" / "log"))
    assert "POPTORCH_LOG_DEST is '" in failed.value.stderr
    assert "cannot be written: No such file or directory" in failed.value.stderr


@pytest.mark.shared
@pytest.mark.parametrize("level", ["err", "4", "ERR"])
def test_levels_by_number_and_in_small_letters(level):
    _, errors = run(COMPILES, POPTORCH_LOG_LEVEL=level)
    assert errors == ""


def test_loggers_have_the_names_of_topics():
    assert logging.getLogger("poptorch::python") is logging.getLogger("poptorch")
    names = {name for name in logging.root.manager.loggerDict if name.startswith("poptorch.")}
    assert names >= {
        f"poptorch.{topic}"
        for topic in ("compile", "data", "devices", "optimisers", "options", "placement", "weights")
    }


def test_records_reach_the_handlers_of_the_program(caplog):
    with caplog.at_level(logging.INFO, "poptorch.compile"):
        poptorch.inferenceModel(torch.nn.ReLU())(X)
    (compiled,) = [r for r in caplog.records if r.getMessage().startswith("Compiled ")]
    assert compiled.name == "poptorch.compile"


CONFIGURED = """
import logging, sys, poptorch, torch
logging.basicConfig(format="%(name)s|%(message)s", stream=sys.stderr, level=logging.INFO)
poptorch.inferenceModel(torch.nn.ReLU())(torch.ones(2))
logging.getLogger("poptorch").setLevel(logging.ERROR)
poptorch.inferenceModel(torch.nn.Tanh())(torch.ones(2))
"""


def test_a_program_that_configures_logging_gets_each_record_once(tmp_path):
    words = [sys.executable, "-c", CONFIGURED]
    done = zygote.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    lines = [line for line in done.stderr.splitlines() if "Compiled" in line]
    assert [line.partition("ReLU")[0] for line in lines] == ["poptorch.compile|Compiled "]
