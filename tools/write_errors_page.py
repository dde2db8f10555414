"""Writes docs/errors.md from error_tags.py.

With --check nothing is written; the exit status tells whether the page is up to date.
"""

import sys
from pathlib import Path

import error_tags

PAGE = Path(__file__).resolve().parents[1] / "docs/errors.md"
HEAD = """# Errors

A message of PopTorch begins with a tag in brackets. It says what happened, why, and what to do,
and ends with the line of your program. Errors are `poptorch.Error`, or Python's own class where
PopTorch documents one. This page is made from `tools/error_tags.py`
(`python tools/write_errors_page.py`).

| tag | cause | remedy |
|---|---|---|
"""
INTERNAL_HEAD = """
## Tags of the compiler itself

These report a malformed text of IR, or a defect in PopTorch. If your program has given PopTorch no
such text, please report the message with the program: """
FUNCTIONS_HEAD = """
## Tags that are names of functions

An argument of the function does not fit. The message says which, and what the function takes: """


def code(names):
    return ", ".join(f"`[{name}]`" for name in names) + ".\n"


def text():
    """The page."""
    rows = "".join(f"| `[{tag.name}]` | {tag.cause} | {tag.remedy} |\n" for tag in error_tags.TAGS)
    internal, functions = code(error_tags.INTERNAL), code(error_tags.FUNCTIONS)
    return HEAD + rows + INTERNAL_HEAD + internal + FUNCTIONS_HEAD + functions


def main():
    if sys.argv[1:] == ["--check"]:
        return not PAGE.exists() or PAGE.read_text() != text()
    PAGE.write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
