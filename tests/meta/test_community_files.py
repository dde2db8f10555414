"""Workflows run targets of make, the version is stated once, and metadata is complete."""

import importlib
import re
import tomllib

import poptorch
import pytest
import yaml
from load_tool import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
TARGETS = set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
WORKFLOWS = {
    path.name: yaml.safe_load(path.read_text())
    for path in sorted((ROOT / ".github/workflows").glob("*.yml"))
}


def commands():
    for workflow in WORKFLOWS.values():
        for name, job in workflow["jobs"].items():
            yield name, job, [step["run"] for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("name, job, runs", commands(), ids=lambda v: v if type(v) is str else "")
def test_a_job_is_one_target_of_make(name, job, runs):
    (run,) = runs
    asked = [run]
    for key, values in job.get("strategy", {}).get("matrix", {}).items():
        asked = [one.replace(f"${{{{ matrix.{key} }}}}", str(v)) for one in asked for v in values]
    for one in asked:
        tool, target, *settings = one.split()
        assert tool == "make" and target in TARGETS
        assert all("=" in setting for setting in settings)
    assert job["timeout-minutes"] > 0


def test_there_is_a_job_for_each_kind_of_check():
    names = {name for name, _, _ in commands()}
    checks = {"lint", "workflows", "sanitizers", "tests", "docs", "nightly"}
    assert names == checks | {"wheel", "sdist"}


@pytest.mark.parametrize("package", ["poptorch_core", "popxl", "popxl_addons", "popart", "popdist"])
def test_every_package_has_the_version(package):
    assert importlib.import_module(package).__version__ == poptorch.__version__


def test_the_version_is_stated_once():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == poptorch.__version__
    assert citation["authors"] == [{"name": PROJECT["project"]["authors"][0]["name"]}]
    assert citation["license"] == PROJECT["project"]["license"]


def test_classifiers_have_the_pythons_of_the_workflows():
    pythons = WORKFLOWS["ci.yml"]["jobs"]["tests"]["strategy"]["matrix"]["python"]
    stated = [c.rpartition(" ")[2] for c in PROJECT["project"]["classifiers"] if "3." in c]
    wheel = WORKFLOWS["wheels.yml"]["jobs"]["wheel"]
    assert stated == pythons == wheel["strategy"]["matrix"]["python"]
    assert PROJECT["project"]["requires-python"] == f">={pythons[0]}"
    assert len(PROJECT["project"]["keywords"]) >= 4


def test_extras_are_named_in_all():
    extras = PROJECT["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    assert set(re.search(r"\[(.*)\]", everything)[1].split(",")) == set(extras) - {"all", "bench"}


def test_templates_ask_for_the_environment():
    form = yaml.safe_load((ROOT / ".github/ISSUE_TEMPLATE/bug_report.yml").read_text())
    labels = [part["attributes"]["label"] for part in form["body"]]
    assert any("poptorch env" in label for label in labels)
