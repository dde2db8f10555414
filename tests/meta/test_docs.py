"""Every Python block of README and docs runs; blocks of a page share their names."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

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
    done = subprocess.run([sys.executable, script, "--check"], check=False)
    assert done.returncode == 0, "run python tools/write_options_page.py"
