"""Writes tests/README.md from the module docstrings of the Python files of tests.

--check writes nothing; the exit status says whether the page is up to date.
"""

import ast
import re
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "tests"
PAGE = TESTS / "README.md"
HEAD = """# Tests

`python tools/write_tests_page.py` makes this page from the docstrings of the files.

```
make test                        # build, install and run one share of all tests
make test-fast                   # unit and golden tests of the core, in seconds
make flaky RUNS=20               # repeat tests of signals and processes on a busy machine
make nightly                     # all tests, and those that take hours
python -m pytest tests/ops       # the Python tests of one folder
python -m pytest --config sharded_2 tests/behaviour  # in one placement configuration
python -m pytest --config all tests/behaviour        # in each of them
```

`make native` builds the package for pytest; set `PYTHONPATH` to `build/python`.

| marker | meaning |
|---|---|
| `shared` | with `--share`, which CI uses, a twelfth of the cases run; the next with every commit |
| `signals` | the outcome depends on signals, kills or process order; `make flaky` repeats it |
| `nightly` | takes too long for CI; `--share` leaves it out, `make nightly` runs it |

Test files that one of the last twelve commits changed run completely, unless there are more than
twelve. `WORLD_SHARE` selects the share: 0 to 11, or `all`. `make flaky` leaves out the marker
`nightly`.

Each file of `tests/configs` is a placement configuration. It may have a strategy, which models
without annotations get, and environment variables. Tests assert the same in every configuration:
values must not depend on the placement. `suite_skip` of a configuration maps a reason to the files,
tests and cases that it leaves out. `--share` also runs the tests of `tests/behaviour` in a sixth of
the configurations.

Not Python: `tests/unit` has the C++ unit tests of the core, `tests/ir` the golden texts of its
passes, `tests/cpp` programs of the C++ API, and `tests/fuzz` the fuzzers with their corpus.
"""


def first_sentence(file):
    """Returns the first sentence of a file's docstring, as text of a cell."""
    docstring = ast.get_docstring(ast.parse(file.read_text()))
    if not docstring:
        raise SystemExit(f"{file}: write a docstring that says what the file tests")
    paragraph = " ".join(docstring.split("\n\n")[0].split())
    return re.match(r".*?\.(?= |$)|.*", paragraph)[0].replace("|", "\\|")


def page():
    """Returns the page: a section for each folder, a row for each file."""
    parts = [HEAD]
    for folder in sorted({file.parent for file in TESTS.rglob("*.py")}):
        name = folder.relative_to(TESTS.parent)
        rows = [
            f"| `{file.name}` | {first_sentence(file)} |" for file in sorted(folder.glob("*.py"))
        ]
        parts.append("\n".join([f"## {name}", "", "| file | tests |", "|---|---|", *rows, ""]))
    return "\n".join(parts)


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(not PAGE.exists() or PAGE.read_text() != page())
    PAGE.write_text(page())
