"""Checks three rules: the length of files, oneDNN attributes in one place, distinct names of test
files.

Every primitive must use the same floating-point mode, scratchpad mode and so on; otherwise results
would depend on which kernel was chosen. One helper therefore makes dnnl::primitive_attr. pytest
imports test files by name, without their folder.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 400
SOURCES = (".cpp", ".hpp", ".py", ".sh", ".cmake", ".js", ".css")
# These folders have files of other projects, unchanged.
VENDORED = ("python/poptorch_core/reports/assets/echarts/", "third_party/")
EXEMPT = re.compile(r"tests/ops/cases_|/tables?/|_table\.(cpp|hpp|py)$")
ATTRIBUTE = re.compile(r"\bprimitive_attr\b")
TEST_FILE = re.compile(r"(^|/)test_[^/]*\.py$")
ATTRIBUTE_HELPER = re.compile(r"^poptorch_cpp/emulator/kernels/conv/onednn[^/]*\.(hpp|cpp)$")


def tracked_files():
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in names.splitlines() if (ROOT / name).is_file()]


def main():
    failures = []
    tests = {}  # by file name: the first with it
    for name in tracked_files():
        if TEST_FILE.search(name):
            other = tests.setdefault(Path(name).name, name)
            if other != name:
                failures.append(f"{name}: {other} has the same file name")
        if not name.endswith(SOURCES) or name.startswith(VENDORED):
            continue
        text = (ROOT / name).read_text()
        lines = text.count("\n")
        if lines > LIMIT and not EXEMPT.search(name):
            failures.append(f"{name}: {lines} lines, the limit is {LIMIT}. Divide the file.")
        if name.startswith("poptorch_cpp/") and not ATTRIBUTE_HELPER.match(name):
            if ATTRIBUTE.search(text):
                failures.append(
                    f"{name}: make dnnl::primitive_attr through kernels/conv/onednn.hpp only"
                )
    print(
        "\n".join(failures) or "sources: lengths, attributes and test names are as they should be"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
