"""Type checkers report misspelt names in users' programs, and accept correct ones."""

import re
import shutil
import subprocess
import sys
from types import ModuleType

import popxl
import popxl_addons
import pytest
from load_tool import ROOT, load_tool
from test_api import NAMES

PROGRAM = """
import poptorch, popart, popxl, torch

options = poptorch.Options()
options.deviceIterations(3)
options.deviceIteration(3)  # attr-defined
options.deviceIterations("3")  # arg-type
options.deviceIterations()  # call-arg
options.deviceIterations(2).replicationFactor(2).Training.gradientAccumulation(4)
options.Training.gradientAccumulations(4)  # attr-defined
options.outputMode(poptorch.OutputMode.EveryN, 2).outputMode("All")  # arg-type
options.outputMode(poptorch.OutputMode.Every)  # attr-defined
options.device_iterations = 4
options.device_iterations = "4"  # assignment
options.device_iteration = 4  # attr-defined
options.Precision.enableStochasticRounding(True).setPartialsType(torch.half)
options.TensorLocations.setWeightLocation(poptorch.TensorLocationSettings().useOnChipStorage())
options.setExecutionStrategy(poptorch.PipelinedExecution("a", "b"))
options.setExecutionStrategy("a")  # arg-type
number: int = options.replication_factor
text: str = options.replication_factor  # assignment
options.anchorTensor("x", "y")
options.loadFromFile("options.conf").modelName("m").clone().modelNam("m")  # attr-defined

model = torch.nn.Linear(2, 2)
optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1)
poptorch.optim.SGD(model.parameters(), learning_rate=0.1)  # call-arg
training = poptorch.trainingModel(model, options, optimizer)
training = poptorch.trainingModel(model, optimizer)  # arg-type
for batch in poptorch.DataLoader(options, [1, 2], batch_size=1):
    training(batch)

ir = popxl.Ir(replication=2)
with ir.main_graph:
    x = popxl.variable([1, 2, 3], popxl.float32)
    y = popxl.ops.add(x, x) + x * 2
    popxl.ops.ad(x, x)  # attr-defined
    x.shap  # attr-defined
    y.reshape((3, 1)).T.copy_to_ipu(1)
    y.copy_to_ipus(1)  # attr-defined
ir.main_graf  # attr-defined
ir.create_graph(len, 1).inputs[0].dtype.as_numpy()
popxl.float33  # attr-defined
popxl.Session(ir, "cpu").runs()  # attr-defined
popart.Buildr  # attr-defined
poptorch.ctc_beam_search_decoder()  # call-arg
popart.Builder  # attr-defined
"""

OPTIONS = """
import poptorch, torch

options = poptorch.Options().deviceIterations(device_iterations=2).replicationFactor(4)
options.inputReplicaGrouping(2, poptorch.CommGroupType.Consecutive).broadcastBuffers(False)
options.enableSyntheticData(2).modelName(name="m").maxRepeatLogs(None).useIpuId(0).randomSeed(1)
options.connectionType(poptorch.ConnectionType.OnDemand).setAvailableMemoryProportion({"IPU0": 0.5})
options.setAvailableMemoryProportions({"IPU0": 0.5})  # attr-defined
strategy: poptorch.options._IExecutionStrategy = options._execution_strategy
seed: int = options.random_seed
group: poptorch.CommGroupType = options.input_cgt
text: str = options.output_mode  # assignment
options.Precision.enableStochasticRounding(True).setPartialsType(dtype=torch.half)
options.Precision.enableStochasticRoundings(True)  # attr-defined
options.Training.gradientAccumulation(4).setAutomaticLossScaling(enabled=True)
options.Training.setAutomaticLossScale(True)  # attr-defined
settings = poptorch.TensorLocationSettings().useOnChipStorage(False).minElementsForOffChip(4)
settings.useOnChipStorages(False)  # attr-defined
options.TensorLocations.setWeightLocation(settings).numIOTiles(num_tiles=32)
options.TensorLocations.setWeightsLocation(settings)  # attr-defined
on_chip: int = options.TensorLocations.location_weight["onChip"]
options.Jit.traceModel(trace_model=False).traceModels(False)  # attr-defined
options.Distributed.configureProcessId(0, 2).setEnvVarNames("SIZE", "RANK").disable()
processes: int = options.Distributed.numProcesses + options.Distributed.num_distributed_processes
options.Distributed.configureProcess(0, 2)  # attr-defined
options.Emulator.devicePool(8).checkIndices(True).memoryLimit("warn")
options.Emulator.devicePools(8)  # attr-defined
options._Popart.set("enableOutlining", True).setPatterns({"A": True}, level=0)
options._Popart.setEngineOption({"a": "b"})  # attr-defined
options.Training.createOrSet(wibble=1)
found: bool = options.exists("random_seed") and options.Training("gradient_accumulation") > 1
values: dict[str, object] = options.outputMode(poptorch.OutputMode.All).toDict()
options.Precision.update(values).update({"a": 1})

class Distributed(poptorch.options._DistributedOptions):
    @property
    def processId(self) -> int:
        return 1
"""
PROGRAMS = {"program": PROGRAM, "options": OPTIONS}
# The options that `mypy --strict` sets for a file.
STRICT = (
    "disallow-any-generics, disallow-subclassing-any, disallow-untyped-calls, "
    "disallow-untyped-defs, disallow-incomplete-defs, disallow-untyped-decorators, "
    "check-untyped-defs, warn-return-any, no-implicit-reexport, strict-equality, extra-checks"
)


@pytest.fixture(scope="module")
def errors(tmp_path_factory):
    """Returns (file, line) → codes of errors that one run of mypy finds in all programs.

    Only the programs are strict: the types of torch and of these packages are those of lint. They
    are read from a copy of its cache, because several processes may run this.
    """
    folder = tmp_path_factory.mktemp("programs")
    for name, text in {**PROGRAMS, "names": "\n".join(names_program())}.items():
        (folder / f"{name}.py").write_text(f"# mypy: {STRICT}\n{text}")
    if (of_lint := ROOT / ".mypy_cache").is_dir():
        shutil.copytree(of_lint, folder / "cache", symlinks=True)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", folder / "cache"]
        + sorted(folder.glob("*.py")),
        **{"cwd": ROOT, "capture_output": True, "text": True, "check": False},
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = {}
    for file, line, code in re.findall(
        r"(\w+)\.py:(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.M
    ):
        found.setdefault((file, int(line) - 1), set()).add(code)
    return found


def names_program():
    """Yields a line for each public name of the packages."""
    yield "import poptorch.testing, popxl.transforms, popxl_addons"
    yield from (f"poptorch.{name}" for name in NAMES)
    for module in (popxl, popxl.ops, popxl.transforms, popxl_addons, popxl_addons.ops):
        for name, value in vars(module).items():
            if not name.startswith("_") and not isinstance(value, ModuleType):
                yield f"{module.__name__}.{name}"


@pytest.mark.parametrize("program", PROGRAMS)
def test_errors_of_a_program(errors, program):
    expected = {
        (program, number): {line.partition("  # ")[2]}
        for number, line in enumerate(PROGRAMS[program].splitlines(), 1)
        if "  # " in line
    }
    assert {key: codes for key, codes in errors.items() if key[0] == program} == expected


def test_public_names_are_exported(errors):
    lines = list(names_program())
    assert [lines[line - 1] for file, line in errors if file == "names"] == []
    assert len(lines) > 300


def test_option_types_are_those_of_the_tables():
    tool = load_tool("write_option_types")
    assert tool.FILE.read_text() == tool.text(), "run make stubs"


def test_an_option_without_annotation_is_noticed():
    tool = load_tool("write_option_types")
    row = tool.rows.Row("wibble", 1, lambda value: value, "", "")
    with pytest.raises(ValueError, match="not annotated"):
        tool.attribute_type(row, 1, tool.Names())
