"""The guide's listings run as they are printed in examples/python/listings."""

import os
import pathlib
import sys

import poptorch
import pytest
import zygote

LISTINGS = pathlib.Path(__file__).parents[3] / "examples/python/listings"
# Lines that a listing must print, in order.
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
    "custom_ops": [
        "tensor([  2.,   9., -26.]) tensor([1., 4., 9.])",
        "tensor([-2.,  5.])\ntensor([3.])",
    ],
    "error_handling": [
        "Recovery action required: FULL_RESET\n",
        "Rebooting",
        "Need to reset the IPU",
        "Need to reset the partition",
        "Unrecoverable error: machine needs to be taken offline: ",
        "Shutting down",
        "is a meta tensor, which has no values",
        "from component poptorch_cpp_error, location: ",
    ],
    "buffers": [
        "[state] forward reads a tensor of shape [1], which an earlier call wrote",
        "tensor([1.])\ntensor([2.])",
    ],
}


@pytest.mark.shared
@pytest.mark.parametrize("name", EXPECTED)
def test_listing(name, request):
    own = name == "custom_ops"
    folder = request.getfixturevalue("custom_op_folder").parent if own else None
    done = zygote.run(
        [sys.executable, LISTINGS / f"{name}.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(pathlib.Path(poptorch.__file__).parents[1])},
    )
    assert done.returncode == 0, done.stderr
    position = 0
    for text in EXPECTED[name]:
        position = done.stdout.find(text, position)
        assert position >= 0, f"{text!r} is missing in:\n{done.stdout}"


def test_every_listing_is_run():
    helpers = {"mobilenet_v2"}
    assert {path.stem for path in LISTINGS.glob("*.py")} - helpers == set(EXPECTED)
