"""Training that is killed at random points goes on from its last checkpoint with the same bits.

More kills, of more kinds of programs: POPTORCH_TRAINING_KILLS (in all).
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from killed_training import KINDS

KILLS = int(os.environ.get("POPTORCH_TRAINING_KILLS", "0"))
FEW = ["sync", "workers", "async", "async-workers", "stream"]


@pytest.mark.parametrize("kind", KINDS if KILLS else FEW)
def test_killed_training_ends_with_the_bits_of_the_undisturbed(kind, tmp_path):
    kills = -(-KILLS // len(KINDS)) or 10
    done = subprocess.run(
        [
            sys.executable,
            Path(__file__).with_name("killed_training.py"),
            kind,
            str(kills),
            tmp_path,
        ],
        env={
            **os.environ,
            "PYTHONPATH": ":".join(p for p in sys.path if p),
            "POPTORCH_LOG_LEVEL": "ERR",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = re.fullmatch(
        rf"{kind}: {kills} kills, (\d+) with a checkpoint, .*", done.stdout.strip()
    )
    print(done.stdout)
    assert found and int(found[1]) >= kills // 2
