"""The source distribution is complete, third_party suffices, and builds choose or refuse torch."""

import os
import re
import subprocess
import sys
import tarfile

import pytest
import yaml
from load_tool import ROOT, load_tool
from poptorch_core import versions

THIRD_PARTY = ROOT / "third_party"
SUPPORTED = (versions.TORCH, *versions.NEWER_TORCH.split())


def output(*command, **settings):
    """Returns what a command prints, from this project's folder."""
    settings = {"cwd": ROOT, "check": True, **settings}
    return subprocess.run(command, capture_output=True, text=True, **settings).stdout


def test_the_source_distribution_has_every_file(tmp_path):
    command = ["-q", "egg_info", "--egg-base", tmp_path, "sdist", "-d", tmp_path]
    output(sys.executable, "setup.py", *command)
    (archive,) = tmp_path.glob(f"poptorch-{versions.VERSION}.tar.gz")
    with tarfile.open(archive) as opened:
        files = {one.name.partition("/")[2] for one in opened.getmembers() if one.isfile()}
    listed = output("git", "ls-files", "-co", "--exclude-standard").splitlines()
    tracked = {name for name in listed if (ROOT / name).is_file()}
    assert files - tracked == {"PKG-INFO", "setup.cfg"}
    assert tracked - files == set()


INCLUDED = ("fmt/core.h", "nlohmann/json.hpp", "spdlog/sinks/basic_file_sink.h",
            "spdlog/sinks/stdout_color_sinks.h", "spdlog/spdlog.h", "xxhash.h")  # fmt: skip
VERSIONS = {  # the macros with a library's version
    "spdlog": "SPDLOG_VER_MAJOR.SPDLOG_VER_MINOR.SPDLOG_VER_PATCH",
    "fmt": "FMT_VERSION",
    "nlohmann-json": "NLOHMANN_JSON_VERSION_MAJOR.NLOHMANN_JSON_VERSION_MINOR."
    "NLOHMANN_JSON_VERSION_PATCH",
    "xxHash": "XXH_VERSION_MAJOR.XXH_VERSION_MINOR.XXH_VERSION_RELEASE",
}


def test_third_party_suffices_and_has_the_stated_versions():
    includes = "".join(f"#include <{name}>\n" for name in INCLUDED)
    asked = "".join(f"VERSION {name} = {text}\n" for name, text in VERSIONS.items())
    flags = ["-std=c++20", "-DSPDLOG_FMT_EXTERNAL", f"-isystem{THIRD_PARTY / 'include'}"]
    found = output("g++", "-E", *flags, "-x", "c++", "-", input=includes + asked)
    read = set(re.findall(r'^# \d+ "(.*?)"', found, re.M))
    assert {name for name in INCLUDED if str(THIRD_PARTY / "include" / name) not in read} == set()
    elsewhere = r"/usr/(local/)?include/(spdlog|fmt|nlohmann|xxh)"
    assert [name for name in read if re.match(elsewhere, name)] == []
    text = re.sub(r"^# .*\n", "", found, flags=re.M)  # without the lines that name files
    made = {
        name: "".join(value.split())
        for name, value in re.findall(r"^VERSION (\S+) =([\s\d.]+)", text, re.M)
    }
    major, minor = divmod(int(made["fmt"]), 10_000)
    made["fmt"] = f"{major}.{minor // 100}.{minor % 100}"
    rows = re.findall(r"^\| (\S+) \| ([\d.]+) \| \[.*?\]\((.*?)\)", about(), re.M)
    assert {name: version for name, version, _ in rows} == made
    assert all("License: " in (THIRD_PARTY / licence).read_text() for *_, licence in rows)


def about():
    return (THIRD_PARTY / "README.md").read_text()


@pytest.fixture
def backend():
    pytest.importorskip("scikit_build_core")
    return load_tool("build_backend")


def test_the_build_takes_the_torch_that_is_asked_for(backend, monkeypatch):
    for asked in SUPPORTED:
        monkeypatch.setenv("POPTORCH_TORCH_VERSION", asked)
        assert backend.requirements()[0] == f"torch=={asked}"
        assert backend.version() == versions.VERSION
        monkeypatch.setenv("POPTORCH_LOCAL_VERSION", "1")
        assert backend.version() == f"{versions.VERSION}+torch{asked.rpartition('.')[0]}"
        monkeypatch.delenv("POPTORCH_LOCAL_VERSION")
    monkeypatch.setenv("POPTORCH_TORCH_VERSION", "2.12.1")
    with pytest.raises(SystemExit) as refused:
        backend.requirements()
    assert f"POPTORCH_TORCH_VERSION=2.12.1, but PopTorch {versions.VERSION}" in str(refused.value)
    assert " or ".join(SUPPORTED) in str(refused.value)


@pytest.mark.parametrize(
    ("system", "processor", "named"),
    [
        ("win32", "AMD64", "Windows on AMD64"),
        ("darwin", "arm64", "macOS on arm64"),
        ("linux", "riscv64", "linux on riscv64"),
    ],
)
def test_the_build_refuses_other_systems(backend, monkeypatch, system, processor, named):
    backend.refuse_other_platforms()
    monkeypatch.setattr(backend.sys, "platform", system)
    monkeypatch.setattr(backend.platform, "machine", lambda: processor)
    for hook in (backend.get_requires_for_build_wheel, backend.get_requires_for_build_editable):
        with pytest.raises(SystemExit) as refused:
            hook()
        assert f"This is {named}, but PopTorch {versions.VERSION} needs Linux" in str(refused.value)
        assert "WSL 2" in str(refused.value)


def with_torch(folder, version):
    """Makes a folder of packages that has a torch of a version, as far as builds look at it."""
    about = folder / f"torch-{version}.dist-info" / "METADATA"
    about.parent.mkdir(parents=True)
    about.write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
    return str(folder)


def test_the_build_takes_the_torch_of_the_environment_if_it_is_supported(
    backend, monkeypatch, tmp_path
):
    monkeypatch.delenv("POPTORCH_TORCH_VERSION", raising=False)
    newest = with_torch(tmp_path / "newest", f"{SUPPORTED[-1]}+cpu")
    other = with_torch(tmp_path / "other", "2.12.1")
    monkeypatch.setattr(backend.sysconfig, "get_path", lambda name: newest)
    for visible in ([], [other]):
        monkeypatch.setattr(sys, "path", visible)
        assert backend.torch_version() == SUPPORTED[-1]
    monkeypatch.setattr(backend.sysconfig, "get_path", lambda name: other)
    assert backend.torch_version() == versions.TORCH


def test_a_build_with_another_torch_is_refused(tmp_path):
    given = {**os.environ, "PYTHONPATH": with_torch(tmp_path / "packages", "2.12.1+cpu")}
    interpreter = f"-DPython_EXECUTABLE={sys.executable}"
    command = ["cmake", "-S", ROOT, "-B", tmp_path / "build", interpreter]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
    said = " ".join(done.stderr.split())
    assert done.returncode != 0
    assert f"torch 2.12.1 was found, but PopTorch {versions.VERSION} needs torch" in said
    assert f"needs torch {' or '.join(SUPPORTED)}:" in said


def test_the_workflow_makes_a_wheel_for_each_torch_and_processor():
    workflow = yaml.safe_load((ROOT / ".github/workflows/wheels.yml").read_text())
    matrix = workflow["jobs"]["wheel"]["strategy"]["matrix"]
    assert tuple(matrix["torch"]) == SUPPORTED
    assert matrix["processor"] == ["x86_64", "aarch64"]
    assert "manylinux_" in workflow["jobs"]["wheel"]["container"]
