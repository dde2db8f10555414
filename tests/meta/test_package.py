"""What the package says of itself: its license, and that it has types."""

import re
import tomllib

from load_tool import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_license():
    text = (ROOT / "LICENSE").read_text()
    assert text.startswith("MIT License\n")
    assert (
        re.search(r"^Copyright \(c\) \d{4} (.*)$", text, re.M)[1]
        == (PROJECT["project"]["authors"][0]["name"])
    )
    assert PROJECT["project"]["license"] == "MIT"
    assert PROJECT["project"]["license-files"] == ["LICENSE"]


def test_every_package_says_that_it_has_types():
    packages = {file.parent for file in (ROOT / "python").glob("*/__init__.py")}
    assert len(packages) >= 5
    assert all((package / "py.typed").exists() for package in packages)
    shipped = PROJECT["tool"]["setuptools"]["package-data"]["*"]
    assert {"py.typed", "*.pyi"} <= set(shipped)
