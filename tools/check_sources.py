"""Two habits: no file grows too long, and oneDNN attributes are made in one place.

Every primitive must use the same floating-point mode, scratchpad mode and so on, or results would
depend on which kernel was chosen: hence one helper that makes dnnl::primitive_attr.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WARN, FAIL = 400, 800
SOURCES = (".cpp", ".hpp", ".py", ".sh", ".cmake")
EXEMPT = re.compile(r"tests/ops/cases_|/tables?/|_table\.(cpp|hpp|py)$")
ATTRIBUTE = re.compile(r"\bprimitive_attr\b")
ATTRIBUTE_HELPER = re.compile(r"^poptorch_cpp/emulator/kernels/onednn[^/]*\.(hpp|cpp)$")


def tracked_files():
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in names.splitlines() if (ROOT / name).is_file()]


def main():
    failures = []
    for name in tracked_files():
        if not name.endswith(SOURCES):
            continue
        text = (ROOT / name).read_text()
        lines = text.count("\n")
        if lines > WARN and not EXEMPT.search(name):
            print(f"{name}: {lines} lines; above {WARN} look for a seam (limit {FAIL})")
            if lines > FAIL:
                failures.append(f"{name}: {lines} lines, the limit is {FAIL}")
        if name.startswith("poptorch_cpp/") and not ATTRIBUTE_HELPER.match(name):
            if ATTRIBUTE.search(text):
                failures.append(
                    f"{name}: make dnnl::primitive_attr through kernels/onednn.hpp only"
                )
    print("\n".join(failures) or "sources: lengths and oneDNN attributes are as they should be")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
