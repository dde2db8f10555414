"""Programs for machines larger than this host are compiled and reported without a device."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from launching import NIGHT, clean_environment, lines, poprun

HERE = Path(__file__).parent
DOMAIN = {"POPLAR_TARGET_OPTIONS": '{"ipuLinkDomainSize": "64"}'}


MODELS = [("gpt", 6.86)] + [("bert-large", 0.365)] * NIGHT


@pytest.mark.shared
@pytest.mark.parametrize("model, billions", MODELS)
def test_one_process_accounts_256_ipus(model, billions):
    """Needs at most 1 GiB, and 90 s in the nightly: no weight is made or copied."""
    done = subprocess.run(
        [sys.executable, HERE / "paper_program.py", model],
        env=clean_environment(**DOMAIN), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert not NIGHT or found["compile_seconds"] < 90
    assert found["peak_bytes"] < 2**30
    assert found["ipus"] == 256
    assert found["parameters"] == pytest.approx(billions * 1e9, rel=0.01)
    assert found["weight_bytes"] == 4 * found["parameters"]
    assert found["parts"] == [
        ["all_gather", "IPU-Links"], ["all_reduce", "GW-Links"], ["reduce_scatter", "IPU-Links"],
    ]  # fmt: skip


@pytest.mark.shared
def test_instances_without_devices(tmp_path):
    """Each instance writes a separate report; only the first shows a bar of compilation."""
    out, err = poprun(
        "--offline-mode=on", "--num-ilds", 2, "--num-instances", 2, "--num-replicas", 32,
        "--ipus-per-replica", 4, sys.executable, HERE / "offline_program.py", tmp_path, env=DOMAIN,
    )  # fmt: skip
    for instance in (0, 1):
        own = tmp_path / f"instance_{instance}" if instance else tmp_path
        said = json.loads(lines(out, instance)[-1])
        assert said["refused"] == "poprun --offline-mode" and said["ipus"] == 128
        data = json.loads((own / "paper" / "report.json").read_text())
        assert data["target"]["replicas"] == 32 and data["target"]["instances"] == 2
        assert {part["links"] for part in data["collectives"]} == {"IPU-Links", "GW-Links"}
        bars = [line for line in lines(err, instance) if "Graph compilation" in line]
        assert bool(bars) == (instance == 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["instance_1", "paper"]
