"""Writes the table of poprun's options into docs/reference/poprun.md; --check only compares."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/reference/poprun.md"
TABLE = re.compile(r"(?:TABLE\n|\| option \| default \|.*?\n(?:\|.*\n)+)")


def main():
    sys.path.insert(0, str(ROOT / "python"))
    from popdist.launcher.option_table import as_markdown

    text = PAGE.read_text()
    written = TABLE.sub(lambda _: as_markdown(), text, count=1)
    if "--check" in sys.argv:
        return int(written != text)
    PAGE.write_text(written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
