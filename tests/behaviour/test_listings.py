"""The guide's listings run as they are printed in examples/python/listings."""

import pathlib
import subprocess
import sys

import pytest

LISTINGS = pathlib.Path(__file__).parents[2] / "examples/python/listings"
# What a listing must print, in order.
EXPECTED = {
    "training_model": ["0: ", "799: "],
    "inference_model": ["torch.return_types.topk"],
    "explicit_copies": ["loss: "],
    "custom_loss": ["loss: "],
    "half_precision": [],
    "annotate_layers": ["largest difference: "],
    "annotate_model": ["tensor("],
    "annotate_functions": ["tensor("],
    "stage_declaration": ["tensor([2.]) tensor([4.]) tensor([3.])"],
    "parallel_phased_execution": ["loss: "],
    "phased_strategies": ["SerialPhased", "ParallelPhased", "equal: True"],
    "replica_groups": ["losses agree: True", "weights agree: True"],
    "buffers": ["tensor([1.])\ntensor([1.])\ntensor([1.])\ntensor([2.])"],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_listing(name):
    done = subprocess.run(
        [sys.executable, LISTINGS / f"{name}.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    position = 0
    for text in EXPECTED[name]:
        position = done.stdout.find(text, position)
        assert position >= 0, f"{text!r} is missing in:\n{done.stdout}"


def test_every_listing_is_run():
    helpers = {"mobilenet_v2"}
    assert {path.stem for path in LISTINGS.glob("*.py")} - helpers == set(EXPECTED)
