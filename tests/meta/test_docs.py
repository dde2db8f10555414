"""Every Python block of README and docs prints what its page shows.

Pages are short and in the navigation, generated pages are up to date, and named files exist.
"""

import re
import sys
from pathlib import Path

import pytest
import yaml
import zygote
from load_tool import load_tool

ROOT = Path(__file__).resolve().parents[2]
blocks = load_tool("page_blocks")
PAGES = blocks.pages()
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
# Parts of the site whose pages may be longer.
EXEMPT = ("Reference", "Contribute")
LIMIT = 900


@pytest.mark.parametrize("page", [n for n in NAMES if blocks.BLOCK.search((ROOT / n).read_text())])
def test_blocks_print_what_the_page_shows(page):
    """`python tools/page_blocks.py PAGE` writes the outputs."""
    text = (ROOT / page).read_text()
    assert [f"{page}:{line}: {out}" for line, _, out in blocks.faults(text, page)] == []


hook = load_tool("docs_hook")
pages_in = hook.listed


def navigation():
    """Returns the parts of the site by their titles; the hook's and plugins' tags are not read."""
    text = (ROOT / "mkdocs.yml").read_text()
    nav = hook.with_other_guides(yaml.safe_load(text[text.index("nav:") :])["nav"])
    return {next(iter(part)): part for part in nav}


def test_pages_are_short():
    short = {
        page: words
        for title, part in navigation().items()
        if title not in EXEMPT
        for page in pages_in(part)
        if (ROOT / "docs" / page).exists()  # others are generated
        if (words := blocks.words_of((ROOT / "docs" / page).read_text())) > LIMIT
    }
    assert short == {}


def test_links_of_the_readme_lead_to_files():
    links = re.findall(r"\]\((?!http)([^)#]+)", (ROOT / "README.md").read_text())
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_page_is_in_the_navigation():
    listed = set(pages_in(list(navigation().values())))
    written = {str(page.relative_to(ROOT / "docs")) for page in PAGES if page.name != "README.md"}
    assert written - listed == set()


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


OURS = "poptorch_cpp python tests examples docs tools benchmarks cmake third_party .ci".split()
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


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_files_that_a_page_names_exist(page, paths):
    named = {name.rstrip("/") for name in FILE.findall(page.read_text())}
    assert {name for name in named if not NOT_OURS.fullmatch(name)} - paths == set()
