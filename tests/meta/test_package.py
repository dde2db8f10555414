"""Tests the package's versions, license, types and exported symbols, and that programs import no
more than they need.
"""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import poptorch_core
import pytest
from load_tool import ROOT
from poptorch_core import versions

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.mark.parametrize("page", ["README.md", "docs/building.md"])
def test_pages_state_the_versions_that_are_built_for(page):
    text = (ROOT / page).read_text()
    stated = set(re.findall(r"\b(torch|oneDNN) (\d+\.\d+\.\d+)", text))
    assert stated
    torch = {("torch", one) for one in (versions.TORCH, *versions.NEWER_TORCH.split())}
    assert stated <= {*torch, ("oneDNN", versions.ONEDNN)}
    needed = PROJECT["project"]["requires-python"].removeprefix(">=")
    assert set(re.findall(r"\bPython (3\.\d+)", text)) <= {needed}


def test_license():
    text = (ROOT / "LICENSE").read_text()
    assert text.startswith("MIT License\n")
    assert (
        re.search(r"^Copyright \(c\) \d{4} (.*)$", text, re.M)[1]
        == (PROJECT["project"]["authors"][0]["name"])
    )
    assert PROJECT["project"]["license"] == "MIT"
    assert PROJECT["project"]["license-files"] == ["LICENSE", "third_party/licences/*"]


def test_every_package_says_that_it_has_types():
    packages = {file.parent for file in (ROOT / "python").glob("*/__init__.py")}
    assert len(packages) >= 5
    assert all((package / "py.typed").exists() for package in packages)
    shipped = PROJECT["tool"]["setuptools"]["package-data"]["*"]
    assert {"py.typed", "*.pyi"} <= set(shipped)


OURS = re.compile(
    r"(void |typeinfo for |typeinfo name for |vtable for |VTT for |guard variable for "
    r"|.*thunk to )?poptorch(::|_)"
)


@pytest.mark.parametrize("library", ["libpoptorch_core.so", "libpoptorch.so"])
def test_libraries_export_names_of_this_project_alone(library):
    path = Path(poptorch_core.__file__).parent / "lib" / library
    done = subprocess.run(
        ["nm", "-DC", "--defined-only", "--format=just-symbols", path],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    names = done.stdout.splitlines()
    assert len(names) > 100
    assert [name for name in names if not OURS.match(name)] == []


def imports_at_run_time(node):
    """Yields the full names that a module imports, without those for type checkers alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            continue
        if isinstance(child, ast.Import):
            yield from (one.name for one in child.names)
        elif isinstance(child, ast.ImportFrom) and not child.level:
            yield child.module
        yield from imports_at_run_time(child)


# A package that only pytest imports needs no message.
IMPORTS_OPTIONAL = {"poptorch/integrations/pytest_plugin.py": {"pytest"}}


def test_optional_packages_are_imported_by_the_function_that_names_what_is_missing():
    ours = {folder.name for folder in (ROOT / "python").iterdir() if folder.is_dir()}
    needed = {*ours, *sys.stdlib_module_names, "numpy", "safetensors", "torch", "tqdm"}
    found = {}
    for path in sorted((ROOT / "python").rglob("*.py")):
        names = {n.partition(".")[0] for n in imports_at_run_time(ast.parse(path.read_text()))}
        if others := names - needed:
            found[str(path.relative_to(ROOT / "python"))] = others
    assert found == IMPORTS_OPTIONAL, "use poptorch_core.optional_packages.load"


TRAINS = """
import poptorch, sys, torch
class Loss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
    def forward(self, x):
        return poptorch.identity_loss(self.layer(x), reduction="sum")
model = Loss()
optimiser = poptorch.optim.Adam(model.parameters())
training = poptorch.trainingModel(model, optimizer=optimiser)
training(torch.ones(1, 2))
optimiser.load_state_dict(optimiser.state_dict())
assert "torch._dynamo" not in sys.modules
"""


@pytest.mark.shared
def test_a_program_that_trains_does_not_import_torchs_compiler():
    """This import takes longer than all other imports together."""
    done = subprocess.run([sys.executable, "-c", TRAINS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
