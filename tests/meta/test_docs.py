"""Every Python block of README and docs runs, generated pages are up to date, and named files
exist.

Blocks of a page share their names.
"""

import re
import sys
from pathlib import Path

import pytest
import zygote

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WITH_CODE = {page.name: BLOCK.findall(page.read_text()) for page in PAGES}


@pytest.mark.parametrize("page", [name for name, blocks in WITH_CODE.items() if blocks])
def test_blocks_run(page):
    names = {"__name__": page}
    for block in WITH_CODE[page]:
        exec(compile(block, page, "exec"), names)


def test_the_options_page_is_that_of_the_table():
    script = ROOT / "tools/write_options_page.py"
    done = zygote.run([sys.executable, script, "--check"], check=False)
    assert done.returncode == 0, "run python tools/write_options_page.py"


def test_figures_of_reports_are_those_of_the_rows():
    script = ROOT / "tools/write_report_figures.py"
    done = zygote.run([sys.executable, script, "--check"], check=False)
    assert done.returncode == 0, "run python tools/write_report_figures.py"


def test_the_page_of_tests_is_that_of_their_docstrings():
    script = ROOT / "tools/write_tests_page.py"
    done = zygote.run([sys.executable, script, "--check"], check=False)
    assert done.returncode == 0, "run python tools/write_tests_page.py"


OURS = "poptorch_cpp python tests examples docs tools benchmarks cmake .ci".split()
FILE = re.compile(r"`([\w-][\w.-]*(?:/[\w.-]+)+/?|[\w-]+\.(?:cpp|hpp|py|md|ir|json))`")
NOT_OURS = re.compile(r"dnnl\.hpp|build/.*|(report|trace)\.json")


@pytest.fixture(scope="module")
def paths():
    """Every file and folder of the project, and each end of its path."""
    found = set()
    for folder in OURS:
        for path in [ROOT / folder, *(ROOT / folder).rglob("*")]:
            parts = path.relative_to(ROOT).parts
            found |= {"/".join(parts[i:]) for i in range(len(parts))}
    return found | {path.name for path in ROOT.iterdir()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page, paths):
    named = {name.rstrip("/") for name in FILE.findall(page.read_text())}
    assert {name for name in named if not NOT_OURS.fullmatch(name)} - paths == set()
