"""The C++ API offers the features of Python under the same names, and passes the same options to
the compiler.
"""

import inspect
import re
import subprocess

import poptorch
import pytest
import torch
from cpp_projects import run
from load_tool import ROOT
from poptorch._impl.options.group_class import groups_of
from poptorch._impl.options.rows import COMPILE, RUN
from poptorch_core import _core

pytestmark = pytest.mark.timeout(900)  # the first test compiles: minutes if ccache has nothing
HEADERS = ROOT / "poptorch_cpp/include/poptorch"
DOCUMENT = (ROOT / "docs/cpp.md").read_text()
TABLE = _core.option_table()


def header(name):
    text = (HEADERS / f"{name}.hpp").read_text()
    return re.sub(r"//.*", "", text)


def told_otherwise():
    """Returns names in the first column of the document's table of features that C++ lacks."""
    rows = re.findall(r"^\| (.*?) \|", DOCUMENT.partition("## Not in C++")[2], re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def plain(name):
    """Normalises a setter's name: setWeightLocation and weightLocation are the same."""
    return name.removeprefix("set").lower()


def test_every_setter_that_takes_effect_has_its_counterpart():
    declared = {plain(name) for name in re.findall(r"(\w+)\(", header("options"))}
    groups = [*groups_of(poptorch.Options()).values(), poptorch.TensorLocationSettings()]
    # C++ sets options of the compiler's table that need no conversion by name.
    by_name = {option.setter.partition("(")[0].rpartition(".")[2] for option in TABLE}
    rows = {row.name for group in groups for row in group.ROWS if row.effect in (COMPILE, RUN)}
    assert len(rows) > 35
    missing = {name for name in rows - by_name if plain(name) not in declared}
    assert missing <= told_otherwise()
    assert {"Jit", "Distributed"} <= told_otherwise()


def test_every_op_has_its_counterpart():
    declared = set(re.findall(r"(?:\b|:)(\w+)\(", header("ops") + header("blocks")))
    missing = set(poptorch.ops.__all__) - declared
    assert missing <= told_otherwise()


def test_every_collective_has_its_counterpart():
    text = header("distributed")
    functions = {n for n in poptorch.distributed.__all__ if n != "ReplicaGroup"}
    assert functions == set(re.findall(r"^\S+ (\w+)\(", text, re.MULTILINE))
    for name in functions:
        declared = re.search(rf" {name}\((.*?)\);", text, re.DOTALL)[1]
        words = [re.search(r"(\w+)(?: =.*)?$", part)[1] for part in declared.split(",")]
        assert words == list(inspect.signature(getattr(poptorch.distributed, name)).parameters)
    fields = re.findall(r"int64_t (\w+) = (\d);", text)
    group = poptorch.distributed.ReplicaGroup()
    assert dict(fields) == {"size": str(group.size), "stride": str(group.stride)}


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "LAMB"])
def test_every_argument_of_an_optimiser_has_its_counterpart(name):
    text = header("optim")
    own = re.search(rf"class {name}Options : public (\w+)<.*?^}};", text, re.DOTALL | re.MULTILINE)
    classes, base = own[0], own[1]
    while base:
        found = re.search(rf"^class {base} : public (\w+).*?^}};", text, re.DOTALL | re.MULTILINE)
        classes += found[0]
        base = found[1] if found[1] != "Arguments" else None
    arguments = [a for a in inspect.signature(getattr(poptorch.optim, name)).parameters]
    missing = {a for a in arguments if not re.search(rf"\b{a}\(", classes)}
    assert missing <= told_otherwise()
    assert "lr" in arguments and "lr" not in missing


def test_every_strategy_has_its_counterpart():
    for name in ("PipelinedExecution", "ShardedExecution", "Stage", "Phase", "AutoStage"):
        assert hasattr(poptorch, name) and re.search(rf"class {name}\b", header("strategies"))
    for kind in (poptorch.SerialPhasedExecution, poptorch.ParallelPhasedExecution):
        own = re.search(rf"class {kind.__name__} .*?^}};", header("strategies"), re.DOTALL | re.M)
        names = {n for n in dir(kind) if re.fullmatch(r"(set|use|send)[A-Z]\w+", n)}
        assert names == set(re.findall(r"((?:set|use|send)[A-Z]\w+)\(", own[0]))


def names_of(enumeration):
    """Returns its names in the C++ headers."""
    text = header("strategies") + header("options") + header("ops")
    words = re.search(rf"enum class {enumeration} \{{(.*?)\}}", text, re.DOTALL)[1]
    return [word.strip() for word in words.split(",")]


@pytest.mark.parametrize(
    "name", ["AutoStage", "Liveness", "CommGroupType", "OverlapMode", "MultiConvPlanType"]
)
def test_enumerations_have_the_names_of_python(name):
    assert names_of(name) == [e.name for e in getattr(poptorch, name)]


def test_enumerations_have_the_names_of_the_table():
    words = {option.name: option.words for option in TABLE}
    assert names_of("OutputMode") == ["Default", *words["output_mode"]]
    assert ["", *map(str.lower, names_of("MemoryLimit"))] == words["memory_limit"]


PARTS = {"IpuMemory": "ipus", "IpuWork": "ipus", "StageCost": "stages", "OpCost": "ops"}
PARTS |= {"CollectiveCost": "collectives", "Report": ""}


def test_every_member_of_a_report_is_a_figure():
    members = {part: set() for part in PARTS.values()}
    for struct, part in PARTS.items():
        body = re.search(rf"struct {struct} \{{(.*?)^\}};", header("report"), re.DOTALL | re.M)[1]
        body = re.sub(r"<.*>|.*\(\) const.*", "", body)
        members[part].update(re.findall(r"(\w+)(?: = \d+)?[,;]", body))
    figures = {part: set() for part in members}
    for part, name, *_ in _core.report_figures():
        figures.setdefault(part, set()).add(name)
    assert members[""] - figures[""] == {"work", *filter(None, PARTS.values())}
    of_python = {"instances", "runs", "run_seconds", "between_runs_seconds"}
    assert figures[""] - members[""] == of_python
    assert figures["ipus"] == members["ipus"] | {"needed_bytes"}
    for part in ("stages", "ops", "collectives"):
        assert figures[part] == members[part]


@pytest.fixture(scope="module")
def programs(cpp_programs):
    return cpp_programs / "tests"


def test_cpp_api(programs):
    assert "PASSED" in run(programs / "cpp_api_tests")


def test_the_log_has_the_lines_of_python(programs, monkeypatch):
    monkeypatch.setenv("POPTORCH_LOG_LEVEL", "DEBUG")
    monkeypatch.setenv("POPTORCH_LOG_DEST", "stdout")
    names = ("CppApi.CopiesNamed*", "CppApi.TakesAnotherLearningRate", "Blocks.HaveIdsOfTheirOwn")
    told = run(programs / "cpp_api_tests", f"--gtest_filter={':'.join(names)}")
    for line in (
        "[info] Writing weights from host to IPU memory.",
        "[info] Writing weights from IPU to host.",
        "[info] Writing named buffers from host to IPU memory.",
        "[debug] poptorch.Options set random_seed to value 9",
        "[debug] Setting random seed to: 4",
        "[debug] Setting RNG state",
        "[debug] Reading random seed",
        "[debug] Reading RNG state",
    ):
        assert f"[poptorch:cpp] {line}\n" in told
    assert re.search(r"\[debug\] Starting block id=\w+ stage=0 phase=-1 ipu=0\n", told)


class Scorer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8))
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x, target):
        y = self.drop(self.layers(x))
        return y, torch.nn.functional.mse_loss(y, target)


@pytest.mark.shared
def test_libtorch_runs_what_python_exported(programs, tmp_path):
    wrapped = poptorch.trainingModel(Scorer(), poptorch.Options().deviceIterations(2))
    x, target = torch.randn(8, 6), torch.randn(8, 8)
    wrapped(x, target)
    wrapped.save(tmp_path / "scorer.poptorch")
    torch.save({"0": x, "1": target}, tmp_path / "inputs", _use_new_zipfile_serialization=True)
    run(programs / "run_saved", *(tmp_path / n for n in ("scorer.poptorch", "inputs", "outputs")))
    outputs = torch.load(tmp_path / "outputs", weights_only=False)
    for index, result in enumerate(wrapped(x, target)):
        assert torch.equal(outputs[str(index)], result)
    weights = wrapped.state_dict()
    assert torch.equal(outputs["layers.0.weight"], weights["layers.0.weight"])


@pytest.mark.shared
@pytest.mark.parametrize(
    "point", ["compile", "attach", "run:3", "run:6:1", "copy:1", "copy:4", "copy:20"]
)
def test_cpp_recovers_from_faults(programs, point, monkeypatch):
    expected = run(programs / "recovering")
    monkeypatch.setenv("POPTORCH_FAULT", f"{point}:LINK_RESET")
    assert run(programs / "recovering") == f"LINK_RESET\n{expected}"
    monkeypatch.setenv("POPTORCH_FAULT", f"{point}:UNRECOVERABLE")
    assert "UNRECOVERABLE [device] " in run(programs / "recovering")


@pytest.mark.shared
def test_every_option_that_python_says_can_be_set_by_its_name(programs):
    said = {
        name
        for group in groups_of(poptorch.Options()).values()
        for row in group.ROWS
        for name in row.said(group)
        if not name.startswith("location ")
    }
    options = {option.name: option for option in TABLE if option.keyword in ("execution", "host")}
    assert len(said) > 15 and said <= set(options)
    for name in sorted(said):
        default = options[name].default
        value = str(default).lower() if isinstance(default, bool) else default
        words = options[name].words
        run(programs / "execution_lines", "set", f"{name}={words[-1] if words else value}")
    failed = subprocess.run(
        [programs / "execution_lines", "set", "training=true"], capture_output=True, check=False
    )
    assert failed.returncode == 1 and b"there is no option" in failed.stderr


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(8, 8), torch.nn.Linear(8, 4)

    def forward(self, x):
        with poptorch.Block("a", ipu_id=0):
            x = torch.relu(self.first(x))
        with poptorch.Block("b", ipu_id=0):
            x = self.last(x)
            return x, poptorch.identity_loss(x, "mean")


def every_setting():
    return (
        poptorch.TensorLocationSettings()
        .minElementsForOffChip(4)
        .minElementsForReplicatedTensorSharding(16)
        .useOnChipStorage(False)
        .useReplicatedTensorSharding()
        .useIOTilesToLoad()
        .useIOTilesToStore()
    )


def counts(o):
    o.deviceIterations(2).replicationFactor(4).autoRoundNumIPUs().randomSeed(0xFEDCBA9876543210)
    o.inputReplicaGrouping(2, poptorch.CommGroupType.Orthogonal)
    o.outputMode(poptorch.OutputMode.EveryN, 3).Training.gradientAccumulation(3)
    o.syncPattern(poptorch.SyncPattern.SinglePipeline).Emulator.memoryLimit("off")


def checks(o):
    o.Precision.enableFloatingPointExceptions(True).enableStochasticRounding(True)
    o.Emulator.checkIndices(True)


def reductions(o):
    o.Training.gradientAccumulation(2).setAutomaticLossScaling(True)
    o.Training.accumulationAndReplicationReductionType(poptorch.ReductionType.Sum)


def running(o):
    o.Training.gradientAccumulation(2)
    o.Training.setMeanAccumulationAndReplicationReductionStrategy(
        poptorch.MeanReductionStrategy.Running
    )


def anchors(o):
    o.outputMode(poptorch.OutputMode.Sum).anchorTensor("w", "first.weight")
    o.anchorTensor("g", "Gradient___*", poptorch.OutputMode.Final)


def locations(o):
    o.TensorLocations.numIOTiles(64)
    o.TensorLocations.setActivationLocation(every_setting())
    o.TensorLocations.setWeightLocation(poptorch.TensorLocationSettings().useOnChipStorage())
    o.TensorLocations.setOptimizerLocation(every_setting())
    o.TensorLocations.setAccumulatorLocation(poptorch.TensorLocationSettings())


def serial(o):
    strategy = poptorch.SerialPhasedExecution(poptorch.Phase("a"), poptorch.Phase("b"))
    strategy.setTensorsLiveness(poptorch.Liveness.OffChipAfterEachPhase).useSeparateBackwardPhase()
    o.setExecutionStrategy(strategy)


def parallel(o):
    phases = poptorch.Phase("a").ipus(0), poptorch.Phase("b").ipus(1)
    o.setExecutionStrategy(poptorch.ParallelPhasedExecution(*phases).sendTensorsOffChipAfterFwd())


def sharded(o):
    o.setExecutionStrategy(poptorch.ShardedExecution("a", poptorch.Stage("b").ipu(1)))


# This must equal tests/cpp/execution_lines.cpp.
OPTIONS = {
    "plain": lambda o: o,
    **{
        case.__name__: case
        for case in (
            *(counts, checks, reductions, running, anchors, locations, serial, parallel, sharded),
        )
    },
}
half = torch.float16
OPTIMISERS = {
    "torch sgd": lambda p: torch.optim.SGD(p, 0.2, momentum=0.5, weight_decay=0.1, nesterov=True),
    "torch adam": lambda p: torch.optim.Adam(p, 0.2, betas=(0.9, 0.99)),
    "torch adamw": lambda p: torch.optim.AdamW(p, 0.2),
    "torch rmsprop": lambda p: torch.optim.RMSprop(p, 0.2, alpha=0.5, centered=True),
    "sgd": lambda p: poptorch.optim.SGD(
        p, 0.2, momentum=0.5, velocity_scaling=8.0, use_combined_accum=True, maximize=True
    ),
    "adam": lambda p: poptorch.optim.Adam(
        p, 0.2, eps=1e-6, loss_scaling=4.0, max_grad_norm=2.0, accum_type=half
    ),
    "adamw": lambda p: poptorch.optim.AdamW(p, bias_correction=False, weight_decay=0.5),
    "rmsprop": lambda p: poptorch.optim.RMSprop(
        p, use_tf_variant=True, second_order_momentum_accum_type=half
    ),
    "lamb": lambda p: poptorch.optim.LAMB(p, 0.2, max_weight_norm=3.0, bias_correction=False),
}


@pytest.mark.shared
@pytest.mark.parametrize("case", [*OPTIONS, *OPTIMISERS])
def test_both_say_the_same_of_an_execution(case, programs):
    options = poptorch.Options().showCompilationProgressBar(False)
    OPTIONS.get(case, OPTIONS["plain"])(options)
    network = Network()
    made = OPTIMISERS.get(case, lambda p: torch.optim.SGD(p, 0.1))(network.parameters())
    model = poptorch.trainingModel(network, options, made)
    model.compile(torch.randn(24, 8))
    lines = model.graph("traced").partition("state ")[0]
    assert run(programs / "execution_lines", case) == lines
