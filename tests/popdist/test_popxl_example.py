"""The PopXL example for instances prints the same losses alone and under each launcher."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from launching import POPRUN, clean_environment

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/python/popxl/instances.py"
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
STARTED = {
    1: [sys.executable],
    2: [*POPRUN, "--num-instances=2", "--num-replicas=4", sys.executable],
    "torchrun": [sys.executable, *TORCHRUN, "-m", "popdist", "--replicas-per-instance=2"],
}
# Without buffering, processes under torchrun may write before another's end of line.
NUMBER = r"([-+.e\d]+)"


@pytest.mark.shared
def test_losses_are_equal_alone_and_over_instances():
    printed = {}
    for name, words in STARTED.items():
        done = subprocess.run(
            [*words, EXAMPLE], env=clean_environment(), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        printed[name] = (
            re.findall(rf"step \d: loss {NUMBER}", done.stdout),
            sorted(re.findall(rf"instance (\d): {NUMBER}", done.stdout)),
        )
    losses, ((_, weights),) = printed[1]
    assert len(losses) == 10 and float(losses[-1]) < 0.2 * float(losses[0])
    for name in (2, "torchrun"):
        assert printed[name] == (losses, [("0", weights), ("1", weights)])
