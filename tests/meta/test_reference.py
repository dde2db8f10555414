"""The documentation site builds without a warning, and its reference has every public name.

Each name has a summary, its arguments, and the errors that its own code raises.
"""

import importlib
import inspect
import os
import re
import sys
import types
import zlib
from pathlib import Path

import pytest
import zygote

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import header_page  # noqa: E402
import public_names  # noqa: E402
import reference_pages  # noqa: E402

# All names without an underscore in these modules are public. Of the other modules on the pages,
# they are those that public_names.py reads from the source.
PACKAGES = ("poptorch", "popxl", "popxl.ops", "popxl_addons", "popdist", "popart")
MODULES = sorted({module for page in reference_pages.PAGES for module in page.modules})
SECTION = re.compile(r"^(?:Args|Attributes):\n((?:    .*\n?|\n)*)", re.MULTILINE)
ENTRY = re.compile(r"^ {4}((?:\*{0,2}\w+(?:, )?)+):", re.MULTILINE)
RAISE = re.compile(r"^\s+raise ", re.MULTILINE)


def names_at_run_time(module):
    """Returns the public names of an imported module that are not modules."""
    found = importlib.import_module(module)
    if module in PACKAGES:
        names = getattr(found, "__all__", None) or [n for n in vars(found) if n[0] != "_"]
    else:
        names = [name for name in public_names.names_of(module) if hasattr(found, name)]
    return [name for name in names if not isinstance(getattr(found, name), types.ModuleType)]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Builds the site; returns the names of its inventory."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "SITE_WHOLE": "false"}
    done = zygote.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    inventory = (folder / "objects.inv").read_bytes().split(b"\n", 4)[4]
    return {line.split(" ", 1)[0] for line in zlib.decompress(inventory).decode().splitlines()}


@pytest.mark.timeout(300)
def test_every_public_name_is_on_a_page(site):
    refused = {f"popart.{name}" for name in reference_pages.refused_names()}
    wanted = {f"{module}.{name}" for module in MODULES for name in names_at_run_time(module)}
    assert len(wanted) > 400 and wanted - site - refused == set()


def test_every_class_of_the_headers_has_a_section():
    page = header_page.page()
    for header in header_page.INCLUDE.glob("*.hpp"):
        assert f"## {header.name}\n" in page
        classes = re.findall(r"^(?:class|struct) (\w+)[^;]*?{", header.read_text(), re.MULTILINE)
        assert [name for name in classes if f"### {name}\n" not in page] == []


def documented(module):
    """Yields (path, object) of a module's public functions and classes, and of their members."""
    for name in names_at_run_time(module):
        value = getattr(importlib.import_module(module), name)
        if inspect.isclass(value) and value.__module__.startswith("pop"):
            yield name, value
            for member, found in vars(value).items():
                plain = found.__func__ if isinstance(found, (classmethod, staticmethod)) else found
                if member.startswith("_") or not inspect.isfunction(plain):
                    continue
                if plain.__module__.startswith("pop"):  # torch adds its own at the first use
                    yield f"{name}.{member}", plain
        elif inspect.isfunction(value):
            yield name, value


def arguments(value):
    """Returns the names of a function's, or of a constructor's, arguments that users pass."""
    function = vars(value).get("__init__") if inspect.isclass(value) else value
    if not inspect.isfunction(inspect.unwrap(function) if function else None):
        return []
    names = [*inspect.signature(function).parameters]
    return [name for name in names if name not in ("self", "cls") and name[0] != "_"]


def described(value, doc, module):
    """Returns the arguments that a docstring describes.

    They have an entry, are named in its first paragraph, or are those of a function or class of the
    same module to which it refers.
    """
    if inspect.isclass(value) and "__init__" in vars(value):
        doc += "\n\n" + (inspect.getdoc(value.__init__) or "")
    texts = [name for text in SECTION.findall(doc) for name in ENTRY.findall(text)]
    names = set(re.findall(r"\w+", " ".join([*texts, doc.split("\n\n")[0]])))
    for other in re.findall(r"`(\w+)`", doc):
        found = getattr(importlib.import_module(module), other, None)
        if found is not value and (inspect.isfunction(found) or inspect.isclass(found)):
            names |= {*arguments(found)}
    return names


def is_made_elsewhere(value, doc):
    """Returns whether users do not call the class: another function makes its objects."""
    if not inspect.isclass(value):
        return False
    internal = ("ade by", "The result of", "returns one", "return one", "constructor raises")
    return any(text in doc for text in internal) or issubclass(value, (BaseException, tuple))


def raises(value):
    """Returns whether a function has a raise statement."""
    if inspect.isclass(value):
        return False
    try:
        source = inspect.getsource(inspect.unwrap(value))
    except OSError:  # made at run time
        return False
    return bool(RAISE.search(source.replace(inspect.getdoc(value) or "", "")))


def faults(module):
    """Yields what the docstrings of a module's names lack."""
    for name, value in documented(module):
        doc = inspect.getdoc(value) or ""
        if not re.match(r"\S.*[.)`\]]", doc.split("\n\n")[0].replace("\n", " ")):
            yield f"{name}: no summary"
        if doc.startswith("Refused: "):
            continue
        missing = {*arguments(value)} - described(value, doc, module)
        if missing and not is_made_elsewhere(value, doc):
            yield f"{name}: arguments {', '.join(sorted(missing))}"
        if raises(value) and "aises" not in doc:
            yield f"{name}: errors"


@pytest.mark.parametrize("module", MODULES)
def test_names_have_a_summary_arguments_and_errors(module):
    assert list(faults(module)) == []
