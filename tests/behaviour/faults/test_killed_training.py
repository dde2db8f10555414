"""Training that is killed at an event continues from its last checkpoint bit-identically.

POPTORCH_TRAINING_KILLS (a total) gives more kills, of more kinds of programs, and at random times;
POPTORCH_SEED gives the seed.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from killed_training import KINDS

KILLS = int(os.environ.get("POPTORCH_TRAINING_KILLS", "0"))
SEED = os.environ.get("POPTORCH_SEED", "0")
FEW = ["sync", "async-workers"]


@pytest.mark.nightly
@pytest.mark.signals
@pytest.mark.parametrize("kind", KINDS if KILLS else FEW)
def test_killed_training_ends_with_the_bits_of_the_undisturbed(kind, tmp_path):
    kills = -(-KILLS // len(KINDS)) or 10
    program = Path(__file__).parents[1] / "killed_training.py"
    times = ["times"] if KILLS else []
    done = subprocess.run(
        [sys.executable, program, kind, str(kills), tmp_path, SEED, *times],
        env={
            **os.environ,
            "PYTHONPATH": ":".join(p for p in sys.path if p),
            "POPTORCH_LOG_LEVEL": "ERR",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{done.stderr}repeat with POPTORCH_SEED={SEED}"
    found = re.fullmatch(
        rf"{kind}: {kills} kills, (\d+) with a checkpoint, .*", done.stdout.strip()
    )
    print(done.stdout)
    assert found and int(found[1]) >= kills // 2
