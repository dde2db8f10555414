"""Every Python block of README and docs runs; blocks of a page share their names."""

import re
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
