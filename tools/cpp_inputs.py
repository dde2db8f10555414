#!/usr/bin/env python3
"""Remembers for which C++ sources the unit tests have passed under the sanitizers.

`--passed` exits with 0 if they have passed for the current sources; `--note-passed` records that
they have. A record is a file beside ccache's, named by a hash of everything that such a build
depends on.
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Sources of the sanitized unit tests, and files that they read.
INPUTS = (
    "poptorch_cpp",
    "cmake",
    "tests/unit",
    "tests/ir",
    "tests/fuzz",
    "third_party",
    "CMakeLists.txt",
    "Makefile",
    "requirements.txt",
)


def output(*command):
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def digest():
    clang = shutil.which("clang++-16")  # absent: not noted
    found = hashlib.sha256(output(clang, "--version").encode() if clang else b"")
    names = output("git", "ls-files", "-co", "--exclude-standard", *INPUTS).splitlines()
    for name in sorted(names):
        path = ROOT / name
        if path.is_file():
            found.update(f"{name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def note():
    cache = Path(output("ccache", "--get-config", "cache_dir").strip())
    return cache / "poptorch-sanitized" / digest()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--passed", action="store_true")
    action.add_argument("--note-passed", action="store_true")
    args = parser.parse_args()
    path = note()
    if args.passed:
        return 0 if path.exists() else 1
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return 0


if __name__ == "__main__":
    sys.exit(main())
