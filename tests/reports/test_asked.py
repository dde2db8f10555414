"""Engine options of the program and of the environment request reports."""

import json
from pathlib import Path

import poptorch
import pytest
from poptorch_core.reports import archive, asked

VARIABLE = "POPLAR_ENGINE_OPTIONS"


@pytest.fixture
def folder(monkeypatch):
    """Returns asked.folder under an environment, and its warnings."""

    def call(engine_options, environment=None):
        warnings = []
        monkeypatch.delenv(VARIABLE, raising=False)
        if environment is not None:
            text = environment if isinstance(environment, str) else json.dumps(environment)
            monkeypatch.setenv(VARIABLE, text)
        return asked.folder(engine_options, warnings.append), warnings

    return call


ALL = {"autoReport.all": "true"}


@pytest.mark.parametrize(
    ("engine_options", "environment", "place"),
    [
        ({}, None, None),
        ({}, "", None),
        ({}, {"debug.allowOutOfMemory": "true"}, None),
        ({}, {"autoReport.directory": "d"}, None),
        ({}, {"autoReport.all": "false"}, None),
        ({}, ALL, "."),
        ({}, {"autoReport.all": True, "autoReport.directory": "d"}, "d"),
        ({}, {"autoReport.outputExecutionProfile": "true"}, "."),
        (ALL, None, "."),
        ({**ALL, "autoReport.directory": "d"}, {}, "d"),
        ({"autoReport.directory": "d"}, ALL, "d"),
        (ALL, {"autoReport.directory": "e"}, "e"),
    ],
)
def test_the_folder_that_is_asked_for(folder, engine_options, environment, place):
    found, warnings = folder(engine_options, environment)
    assert found == (None if place is None else Path(place))
    assert warnings == []


def test_the_environment_is_stronger_and_says_so(folder):
    found, warnings = folder(
        {**ALL, "autoReport.directory": "d"}, {**ALL, "autoReport.directory": "e"}
    )
    assert found == Path("e")
    assert warnings == [
        f"{VARIABLE} overrides the program's engine options: autoReport.directory='d' by 'e'."
    ]


def test_misspelt_reports_are_told(folder):
    _, warnings = folder({}, {**ALL, "autoReport.directry": "e", "opt.enable": "x"})
    assert warnings == [
        f"{VARIABLE} names 'autoReport.directry', which has no effect. Did you mean "
        "autoReport.directory?"
    ]


@pytest.mark.parametrize("text", ["{", "[1]", "true", '"autoReport.all"'])
def test_what_is_no_object_is_refused(folder, text):
    with pytest.raises(poptorch.Error, match=rf"\[environment\] {VARIABLE}=.* is not understood"):
        folder({}, text)


def test_what_is_no_truth_value_is_refused(folder):
    with pytest.raises(poptorch.Error, match="autoReport.all is 'yes'. Set it to \"true\""):
        folder({}, {"autoReport.all": "yes"})


def test_archives_are_those_of_ar(tmp_path):
    import subprocess

    file = tmp_path / "archive.a"
    file.write_bytes(archive.packed({"traced.ir": b"odd", "placed.ir": b"even"}))
    listed = subprocess.run(["ar", "t", file], capture_output=True, text=True, check=True).stdout
    assert listed.split() == ["traced.ir", "placed.ir"]
    held = subprocess.run(["ar", "p", file, "traced.ir"], capture_output=True, check=True).stdout
    assert held == b"odd"
