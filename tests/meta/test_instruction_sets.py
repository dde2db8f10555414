"""Only the kernels of an instruction set contain its instructions; the host selects kernels when a
program starts.
"""

import re
import subprocess

import pytest
from load_tool import ROOT

# Libraries in build folders, because an installed one has no names of functions.
LIBRARIES = sorted(ROOT.glob("build*/python/poptorch_core/lib/libpoptorch_core.so"))
SETS = ("SSE4", "AVX2", "AVX512", "NEON")
# GCC's clones of a function are local to the object that calls them.
CLONE = re.compile(r"\.(isra|part|constprop|cold)\b")
# Registers that AVX-512 adds, and masks. A function that uses them belongs to that set.
AVX512 = re.compile(r"%zmm|%k[0-7]\b|%[xy]mm(1[6-9]|2\d|3[01])\b")
# Every instruction of AVX and later begins with v; few others do.
AVX2 = re.compile(r"\tv(?!err|erw|mcall|mlaunch|mresume)")


def functions_with(pattern, library):
    """Returns mangled names of a library's functions with a matching instruction, except clones."""
    command = ["objdump", "-d", "--no-show-raw-insn", library]
    found, name = set(), ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line.endswith(">:\n"):
                name = line[line.index("<") + 1 : -3]
            elif name not in found and pattern.search(line) and not CLONE.search(name):
                found.add(name)
    assert process.returncode == 0
    return found


def sets_of(library):
    """Returns the instruction sets that a library was built with, by the names of its functions."""
    names = subprocess.run(
        ["nm", "--defined-only", "--format=just-symbols", library],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return {name for name in SETS if f"emulator{len(name)}{name}" in names}


def test_the_tests_on_an_emulated_processor_exist():
    named = re.search(r"^SSE4_TESTS := (.*)$", (ROOT / "Makefile").read_text(), re.M)[1].split()
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.skipif(not LIBRARIES, reason="the tests run without a build")
@pytest.mark.parametrize("library", LIBRARIES, ids=lambda path: path.relative_to(ROOT).parts[0])
def test_only_a_sets_functions_have_its_instructions(library):
    built = sets_of(library)
    if len(built) == 1:
        pytest.skip("everything is compiled for the one set")
    assert "AVX512" in built
    wide = functions_with(AVX512, library)
    assert len(wide) > 100
    own = r"6AVX512|11AVX512_BF16|10AVX512_AMX"
    others = [name for name in sorted(wide) if not re.search(own, name)]
    assert others == []
    if "SSE4" in built:
        vectors = functions_with(AVX2, library)
        own = ("6AVX512", "4AVX2")
        assert [name for name in sorted(vectors) if not any(set in name for set in own)] == []
