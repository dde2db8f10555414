"""Defines the rows of `make nightly`: one Row per line of its table."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

PYTEST = "{python} -m pytest -q -n {jobs} --timeout=14400 "


@dataclass
class Row:
    """A command, in which `{count}` is `full` at a share of 1, and the figure in its output."""

    name: str
    what: str
    command: str
    figure: Callable[[str], str]
    full: int = 0
    environment: dict[str, str] = field(default_factory=dict)


def line(pattern: str) -> Callable[[str], str]:
    """Returns the figure in the last line that has it."""

    def find(text: str) -> str:
        found = [one for one in text.splitlines() if re.search(pattern, one)]
        return found[-1].strip("= ") if found else "no figure"

    return find


def _lines(*patterns: str) -> Callable[[str], str]:
    return lambda text: "; ".join(line(pattern)(text) for pattern in patterns)


def _executions(text: str) -> str:
    counts = re.findall(r"number_of_executed_units: (\d+)|^(?:options: )?(\d+) texts", text, re.M)
    findings = len(re.findall(r"SUMMARY: |Test unit written to", text))
    return f"{' + '.join(a or b for a, b in counts)} executions, {findings} findings"


PASSED_PATTERN = r"\d+ passed|\d+ failed"
PASSED = line(PASSED_PATTERN)

ROWS = (
    Row("R1, R2", "PyTorch's own tables: values, in place, gradients",
        "{python} tests/survey/run.py --jobs {jobs} --most {count}",
        line("survey:"), full=1_000),
    Row("R1", "the table of ops at its three sizes, against torch in float64",
        "{python} tests/nightly/sizes.py --jobs {jobs}", line("sizes:")),
    Row("R3", "optimisers over their hyper-parameters, and when resumed",
        PYTEST + "tests/behaviour/optimisers", PASSED),
    Row("R4", "random modules, cut at random: eager = each strategy",
        PYTEST + "tests/behaviour/placement/test_partition_fuzz.py", PASSED, full=20_000,
        environment={"POPTORCH_FUZZ_SEEDS": "{count}"}),
    Row("R4", "random networks of images: eager, and two IPUs = one",
        PYTEST + "tests/behaviour/placement/test_random_images.py", PASSED, full=2_000,
        environment={"POPTORCH_FUZZ_SEEDS": "{count}"}),
    Row("R4", "random forwards that write what outlives a call: eager, or refused",
        PYTEST + "tests/behaviour/tracing/test_random_state.py", PASSED, full=20_000,
        environment={"POPTORCH_STATE_SEEDS": "{count}"}),
    Row("R5", "verifier: ill-formed modules, mutants of every golden text",
        "build/tests/unit/poptorch_unit_tests --gtest_brief=1",
        _lines("ill-formed ops refused", "mutants of golden modules", "mutants of golden programs"),
        full=100_000, environment={"POPTORCH_MUTANTS": "{per_golden}"}),
    Row("R5", "100,000 mutants of files of executables, of which CI takes 20 %",
        "build/tests/unit/poptorch_unit_tests --gtest_brief=1 "
        "--gtest_filter='Fuzz.MutantsOfExecutables*'", line("mutants of executables"), full=400,
        environment={"POPTORCH_MUTANTS": "{count}"}),
    Row("R6, S1, S2", "fuzzers of IR, programs, files and options, sanitized",
        "make fuzz RUNS={count}", _executions, full=2_000_000),
    Row("R8", "training killed at random points, and faults of every call that writes",
        PYTEST + "-rP tests/behaviour/faults/test_killed_training.py "
        "tests/behaviour/files/test_whole_files.py tests/behaviour/files/test_checkpoints.py "
        "tests/behaviour/files/test_checkpoint_files.py "
        "tests/behaviour/data/test_loader_positions.py",
        PASSED, full=1_000, environment={"POPTORCH_TRAINING_KILLS": "{count}"}),
    Row("R7", "programs that share a cache, 5 of 16 killed in every other round",
        "{python} tests/behaviour/cached_models.py rounds {count} {seed}",
        line("cache:"), full=100),
    Row("R8", "kills of a program that exports and caches",
        "{python} tests/behaviour/cached_models.py kills {count} {seed}",
        line("kills:"), full=1_000),
    Row("R8, S1", "faults of each write; hostile files",
        "build/tests/unit/poptorch_unit_tests --gtest_brief=1 "
        "--gtest_filter='WholeFile*:FileLock*:Container*:Safetensors*:ExecutableFile*:Cache*' && "
        + PYTEST + "tests/errors/test_hostile_files.py", _lines(r"PASSED", r"\d+ passed")),
    Row("R9", "memory that does not suffice, and the remedies",
        PYTEST + "tests/behaviour/devices/test_memory_remedies.py "
        "tests/behaviour/placement/test_plan.py", PASSED),
    Row("all", "every case of the tests of which CI takes a twelfth",
        PYTEST + "-m shared tests", PASSED),
    Row("all", "what takes too long for CI: the marker `nightly`",
        PYTEST + "-m nightly tests", PASSED),
    Row("all", "the C++ programs as a user compiles them, of which CI shares the headers",
        "make install && env -u PYTHONPATH " + PYTEST + "tests/meta/test_cpp.py "
        "tests/meta/test_examples.py", PASSED, environment={"POPTORCH_CPP_AS_USERS_DO": "1"}),
    Row("package", "actionlint on the workflows", "make lint-workflows", line("actionlint:")),
    Row("package", "the source distribution, installed from its folder, editable and as an archive",
        "{python} tests/nightly/installs.py folder editable archive",
        _lines("folder: ", "editable: ", "archive: ")),
    Row("package", "from a wheel to the first trained model in under a minute, without downloads",
        "make wheel && {python} tests/nightly/installs.py wheel", line("installs:")),
    Row("package", "the tests of behaviour with the newest torch that is supported",
        "make newest-torch", PASSED),
    Row("R10", "the same bits over runs, threads, strategies and replicas",
        PYTEST + "tests/behaviour/wrapper/test_determinism.py "
        "tests/behaviour/placement/test_replicas.py", PASSED),
    Row("R10", "the tests of behaviour in every config of tests/configs, of which CI takes a sixth",
        PYTEST + "--config all tests/behaviour", PASSED),
    Row("R10", "whole models with the kernels of AVX2, ours and torch's, of which CI takes a third",
        "tools/test_as_on_avx2.sh {python} -q -n {jobs} --timeout=14400", PASSED),
    Row("R10", "the same bits over instances, and collectives, at every number of them",
        PYTEST + "tests/popdist/test_popxl_instances.py tests/popdist/test_together.py "
        "tests/popdist/test_stand_ins.py tests/popdist/test_collectives_in_models.py "
        "tests/popdist/test_machine_on_paper.py tests/popdist/test_other_launchers.py", PASSED,
        environment={"POPTORCH_MOST_INSTANCES": "8"}),
    Row("R10", "the same bits over processes: the product of optimisers, types, reductions ...",
        PYTEST.replace("{jobs}", "1") + "tests/popdist/test_same_bits.py "
        "tests/popdist/test_checkpoints_of_instances.py", PASSED,
        environment={"POPTORCH_ALL_VARIANTS": "{one_in}"}),
    Row("R10", "seventy models of the transformers library, of which CI takes twelve",
        PYTEST + "tests/clients/test_transformers.py", PASSED,
        environment={"ALL_TRANSFORMERS": "1"}),
    Row("R11", "NaN, infinities and automatic loss scaling",
        PYTEST + "tests/behaviour/optimisers/test_optimiser_scaling.py "
        "tests/errors/test_refused_values.py", PASSED),
    Row("R12", "kills of programs that load data: nothing is left within 2 s",
        PYTEST + "tests/nightly/loader_ends.py", PASSED, full=10,
        environment={"POPTORCH_KILL_POINTS": "{count}"}),
    Row("R12", "Ctrl-C at every point of the Python layer",
        PYTEST + "tests/behaviour/faults/test_interrupted_python.py "
        "tests/behaviour/faults/test_interrupts.py tests/behaviour/faults/test_threads.py",
        PASSED, full=1, environment={"POPTORCH_INTERRUPT_EVERY": "{one_in}"}),
    Row("R12", "signals at random times of a program",
        "{python} tests/nightly/signals.py --points {count}", line("signals:"), full=300),
    Row("R12", "kills and stops of one of 8 processes at random times; of 2 and 4 at each point",
        "{python} tests/popdist/random_faults.py --points {count} --instances 8 && "
        "{python} tests/popdist/named_faults.py --signals=SIGTERM && "
        "{python} tests/popdist/named_faults.py --signals=SIGSTOP --sync-seconds=10 && "
        + PYTEST.replace("{jobs}", "1") + "tests/popdist/test_instance_faults.py",
        _lines("instance faults:", "named faults:", r"\d+ passed|\d+ failed"), full=500,
        environment={"POPTORCH_INSTANCE_FAULTS": "1"}),
    Row("build", "every file compiled by itself, without batches, and the unit tests",
        "make test-fast", line(r"PASSED|FAILED")),
    Row("R15", "unit tests under the address and undefined-behaviour sanitizers", "make asan",
        line(r"PASSED|FAILED")),
    Row("R15", "unit tests and some of Python's with the SSE4 kernels, on an emulated Nehalem",
        "make sse4", _lines(r"PASSED|FAILED", PASSED_PATTERN)),
    Row("R15", "unit tests of the core for aarch64, with NEON, emulated", "make neon",
        line(r"PASSED|FAILED")),
    Row("R12", "unit tests under the thread sanitizer", "make tsan", line(r"PASSED|FAILED")),
    Row("R13", "faults of IPUs at random points: training resumed bit by bit",
        PYTEST + "tests/behaviour/faults/test_faults.py", PASSED, full=100,
        environment={"POPTORCH_FUZZ_FAULTS": "{count}"}),
    Row("R14", "a thousand layers compile in five seconds of CPU time",
        "{python} tests/nightly/deep.py", line("deep:")),
    Row("R14", "soak: memory by steps, and by wrappers that come and go",
        "{python} tests/nightly/soak.py --steps {count} --cycles {cycles}", line("soak:"),
        full=1_000_000),
    Row("reports", "what profiling adds to a step: under 3 %",
        PYTEST.replace("{jobs}", "1") + "tests/reports/test_recording.py -k costs", PASSED,
        environment={"POPTORCH_MEASURE": "1"}),
    Row("R15", "line coverage of the core by its unit tests", "make cov", line(r"lines: ")),
)  # fmt: skip

NOT_BUILT = {
    "S3": "libraries of custom ops",
    "S5": "a trace of the calls to the network",
}
