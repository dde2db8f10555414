"""Tests that the loops over whole vectors compute with vectors: the compiler says nothing when it
computes lane by lane, which takes ten times as long."""

import re
import subprocess
from collections import Counter

import pytest
from load_tool import ROOT

LIBRARY = ROOT / "build/python/poptorch_core/lib/libpoptorch_core.so"
LOOP = re.compile(r"\d(?:map_vectors|round_vectors)I")
SCALAR = re.compile(r"\tv?(?:add|sub|mul|div|sqrt|min|max|u?comi|cvt\w*|fn?m(?:add|sub)\w*)ss\s")
# A loop uses scalars for the operands that are a single number, before it starts. A polynomial of
# scalars has more.
MOST = 5


def scalar_instructions():
    """The number of instructions on single floats in each loop."""
    command = ["objdump", "--disassemble", "--no-show-raw-insn", LIBRARY]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        counts, loop = Counter(), None
        for line in process.stdout:
            if line.endswith(">:\n"):
                name = line.split("<", 1)[1][:-3]
                loop = name if LOOP.search(name) else None
                if loop:
                    counts[loop] = 0
            elif loop and SCALAR.search(line):
                counts[loop] += 1
    assert process.returncode == 0
    return counts


def test_scalar_instructions_are_recognised():
    line = "  9a5f72:\tvfmadd132ss {rz-sae},%xmm5,%xmm4,%xmm1\n"
    assert SCALAR.search(line)
    assert not SCALAR.search(line.replace("ss", "ps"))
    assert not SCALAR.search("  9a5f72:\tvbroadcastss 0x10(%rax),%zmm1\n")


@pytest.mark.skipif(not LIBRARY.exists(), reason="the tests run without a build")
def test_loops_over_whole_vectors_have_no_loops_over_lanes():
    counts = scalar_instructions()
    if not counts:
        pytest.skip("this build has no kernels of x86-64")
    assert len(counts) > 100
    assert not {loop: count for loop, count in counts.items() if count > MOST}
