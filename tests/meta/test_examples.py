"""The examples run as a user runs them, and reach the accuracy that they promise."""

import re
import sys
from pathlib import Path

import cpp_twins
import pytest
import torch
from cpp_projects import run, skip_unless_installed
from load_tool import load_tool

# The first test of a C++ program compiles all of them: minutes if ccache is empty.
pytestmark = pytest.mark.timeout(900)
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def check_digits(output):
    assert re.search(r"IPU 0 held [\d.]+ of \d+ MiB", output)
    assert re.search(r"a step took [1-9]\d* emulated cycles", output)
    last = output.splitlines()[-1]
    assert float(re.fullmatch(r"test accuracy: ([\d.]+)", last)[1]) >= 0.97


def test_python_digits():
    check_digits(run(sys.executable, EXAMPLES / "python/mnist.py"))


def last_number(output, pattern):
    return float(re.search(pattern, output.splitlines()[-1])[1])


@pytest.mark.shared
def test_plain_loop():
    assert last_number(run(sys.executable, EXAMPLES / "python/training_loop.py"), r"([\d.]+)") < 0.1


@pytest.mark.shared
def test_loop_with_schedule_and_checkpoints():
    output = run(sys.executable, EXAMPLES / "python/save_and_resume.py")
    assert float(re.search(r"last loss: ([\d.]+)", output)[1]) < 1.0
    assert output.rstrip().endswith("bit-identical: True")


# The last line of an example, with bounds of its numbers.
LAST_LINES = {
    "pipelined_transformer": (r"4 IPUs, busy (\d+)% .*, last loss ([\d.]+)", [60, 0], [100, 1]),
    "phased": (r"last loss ([\d.]+), the same in phases: True", [0], [0.01]),
    "half_precision": (r"float16, automatic: (\d+) KiB .*, last loss ([\d.]+)", [99, 0], [100, 1]),
    "server": (r"(\d+) answers, .* are those of the model: True", [40], [40]),
    "hugging_face": (r"completed: 3 5 7 9 11 13 15 17 19 21 23 (\d+)", [25], [25]),
    "lightning_digits": (r"accuracy: ([\d.]+)", [0.9], [1]),
    "torch_compile": (r"poptorch .*: difference (-?\de[+-]\d+)", [-1e-3], [1e-3]),
    "knowledge_graph": (r"(\d+)% of the tails are right; .* 2560 of 9472 bytes", [80], [100]),
    "custom_op": (r"C\+\+ has the losses of Python: True, last loss ([\d.]+)", [0], [0.01]),
    "popxl/transformer_layer": (r"step 300: loss ([\d.]+)", [0], [0.15]),
    "graph_network": (r"loss ([\d.]+), accuracy .*: ([\d.]+)", [0, 0.6], [0.3, 1]),
    "diffusion": (r"last loss ([\d.]+), a drawn image has (\d+)% .*", [0, 1], [0.4, 80]),
}


@pytest.mark.shared
@pytest.mark.parametrize("name", LAST_LINES)
def test_gallery(name):
    pattern, least, most = LAST_LINES[name]
    needed = {"graph_network": "torch_geometric", "lightning_digits": "pytorch_lightning"}
    pytest.importorskip(needed.get(name, "transformers"))
    if name == "custom_op":
        skip_unless_installed()
    output = run(sys.executable, EXAMPLES / f"python/{name}.py")
    found = re.fullmatch(pattern, output.rstrip().splitlines()[-1])
    assert found, output
    for text, low, high in zip(found.groups(), least, most, strict=True):
        assert low <= float(text) <= high, output


def test_the_tables_of_examples_are_those_of_the_programs():
    page = load_tool("write_examples_page")
    assert page.main(["--check"]) == 0, "run python tools/write_examples_page.py"
    assert len(page.EXAMPLES) == 14
    files = [*map(page.path_of, page.EXAMPLES), *page.others()]
    lengths = {file.name: len(file.read_text().splitlines()) for file in files}
    assert len(lengths) > 40 and max(lengths.values()) < 80, lengths


@pytest.mark.shared
def test_loop_that_recovers_from_a_fault():
    output = run(sys.executable, EXAMPLES / "python/recovering.py")
    assert "recovery action: LINK_RESET" in output and "continues from step 5" in output
    assert output.rstrip().endswith("failures: 1; bit-identical: True")


@pytest.mark.shared
def test_report_of_an_uneven_pipeline(tmp_path):
    output = run(sys.executable, EXAMPLES / "python/reporting.py", tmp_path)
    assert re.search(
        r"IPU 1, which has stages 1 and 5, works [\d,]+ cycles .* poptorch\.plan", output
    )
    speeds = re.findall(r"even: (\d+) samples a second", output)
    assert float(speeds[1]) > 1.3 * float(speeds[0])
    assert (tmp_path / "compared/report.html").exists()


@pytest.mark.shared
def test_a_killed_program_goes_on():
    output = run(sys.executable, EXAMPLES / "python/killed_and_resumed.py")
    assert re.search(r"checkpoint is of step \d+ of 192", output)
    assert output.rstrip().endswith("bit-identical: True")


@pytest.mark.shared
def test_several_processes_have_the_losses_of_one():
    program, python = EXAMPLES / "python/many_processes.py", sys.executable
    alone = re.findall(r"epoch .*", run(python, program))
    assert len(alone) == 3 and len(set(alone)) == 3
    words = ("--num-instances=2", "--num-replicas=4", python, program)
    launched = run(python, "-m", "popdist.launcher.main", *words)
    assert re.findall(r"epoch .*", launched) == alone and "[1,0]<stdout>:epoch 0" in launched
    words = ("--standalone", "--nproc-per-node=2", "-m", "popdist", "--replicas-per-instance=2")
    torchs = run(python, "-m", "torch.distributed.run", *words, program)
    assert re.findall(r"epoch .*", torchs) == alone


@pytest.fixture(scope="module")
def cpp_examples(cpp_programs):
    return cpp_programs / "examples"


def test_cpp_digits(cpp_examples):
    linked = run("ldd", cpp_examples / "digits")
    assert "libpoptorch.so" in linked and "libpython" not in linked and "not found" not in linked
    check_digits(run(cpp_examples / "digits"))
    assert run(cpp_examples / "blocks").splitlines()[-1] == "equal: yes"


@pytest.mark.shared
@pytest.mark.parametrize("name", cpp_twins.PROGRAMS)
def test_cpp_trains_with_the_bits_of_python(name, cpp_examples, tmp_path):
    """Also compares the description of the execution, the first lines in every form."""
    network, model, inputs = cpp_twins.PROGRAMS[name]()
    torch.save({**cpp_twins.tensors(network), **inputs}, tmp_path / "start.pt")
    run(cpp_examples / name, tmp_path)
    expected, plan = cpp_twins.trained(model, network, inputs)
    found = torch.load(tmp_path / "end.pt", weights_only=False)  # what pickle_save writes
    assert found.keys() == expected.keys()
    for tensor, value in expected.items():
        assert torch.equal(found[tensor].to(value.dtype), value), tensor

    def execution(text):
        return text.partition("graph @")[0]

    assert execution((tmp_path / "plan.txt").read_text()) == execution(plan)
    assert "optimiser_group" in execution(plan)
