"""Tests opts._Popart: the options that setters record there, those that take effect, refusals."""

import copy
import pickle

import popart
import poptorch
import pytest
import torch
from poptorch import poptorch_core

X = torch.arange(4.0).reshape(4, 1)
MODES = poptorch.OutputMode
SESSION = {"instrumentWithHardwareCycleCounter": False, "rearrangeAnchorsOnHost": False}

RECORDED = [
    (lambda o: o.enableStableNorm(True), {"enableStableNorm": True}),
    (lambda o: o.enableSyntheticData(True), {"syntheticDataMode": 2}),
    (lambda o: o.enableSyntheticData(2), {"syntheticDataMode": 2}),
    (lambda o: o.enableSyntheticData("").logDir("x"), {"syntheticDataMode": 0}),
    (lambda o: o.logCycleCount(True), {"instrumentWithHardwareCycleCounter": True}),
    (
        lambda o: o.enableExecutableCaching("d"),
        {"enableEngineCaching": True, "cachePath": "d"},
    ),
    (
        lambda o: o.enableExecutableCaching("d").enableExecutableCaching(None),
        {"enableEngineCaching": False},
    ),
    (
        lambda o: o.Precision.setPartialsType(torch.half),
        {"partialsTypeMatMuls": "half", "convolutionOptions": {"partialsType": "half"}},
    ),
    (
        lambda o: (
            o.Precision.setPartialsType(torch.float),
            o.Training.setConvolutionDithering(True),
        ),
        {
            "partialsTypeMatMuls": "float",
            "convolutionOptions": {"partialsType": "float", "enableConvDithering": True},
        },
    ),
    (
        lambda o: o.Precision.enableFloatingPointExceptions(True),
        {"enableFloatingPointChecks": True},
    ),
    (lambda o: o.Precision.enableStochasticRounding(True), {"enableStochasticRounding": True}),
    (
        lambda o: o.Training.setAutomaticLossScaling(True),
        {"automaticLossScalingSettings.enabled": True},
    ),
    (lambda o: o.updatableNamedBuffers(["a"]), {"updatableNamedBuffers": ["a"]}),
    (lambda o: o._Popart.setPatterns({"A": True}), {"patterns": {"A": True}, "patterns_level": 2}),
    (
        lambda o: (o._Popart.setEngineOptions({"a": "b"}), o.enableProfiling("d")),
        {
            "engineOptions": {
                "a": "b",
                "debug.allowOutOfMemory": "true",
                "autoReport.directory": "d",
                "autoReport.all": "true",
            }
        },
    ),
]


@pytest.mark.parametrize("change, said", RECORDED, ids=range(len(RECORDED)))
def test_setters_record_session_options(change, said):
    options = poptorch.Options()
    change(options)
    assert options._Popart.options == {**SESSION, **said}
    assert options.clone()._Popart.options == {**SESSION, **said}
    poptorch_core._validateOptions(options.outputMode(MODES.All).toDict())


def test_profiles_are_in_the_current_folder_by_default():
    options = poptorch.Options().enableProfiling()
    assert options.profile_dir == "."
    assert options._Popart.options["engineOptions"]["autoReport.all"] == "true"


def test_copies_keep_session_options_in_common():
    options = poptorch.Options().logCycleCount(True)
    for made in (options.clone(), pickle.loads(pickle.dumps(options)), copy.deepcopy(options)):
        assert repr(made) == repr(options)
        made.Precision.enableStochasticRounding(True)
        made.Training.setConvolutionDithering(True)
        names = {"enableStochasticRounding", "convolutionOptions"}
        assert names <= made._Popart.options.keys()
        assert not names & options._Popart.options.keys()


def test_session_options_have_the_effect_of_their_setters():
    options = poptorch.Options()
    options._Popart.set("enableStochasticRounding", True)
    options._Popart.set("instrumentWithHardwareCycleCounter", True)
    assert options.Precision.enable_stochastic_rounding and options.log_cycle_count
    wrapped = poptorch.inferenceModel(torch.nn.Linear(1, 1), options)
    wrapped(X)
    assert "stochastic_rounding=true" in wrapped.graph("normal")
    assert wrapped.cycleCount() > 0


UNKNOWN = [
    (lambda o: o._Popart.set("wibble", 1), r"Unknown int option wibble"),
    (lambda o: o._Popart.set("wibble", True), r"Unknown bool option wibble"),
    (lambda o: o._Popart.set("wibble", [1]), r"Unknown list option wibble"),
    (lambda o: o._Popart.set("wibble", {"a": 1}), r"Unknown dict option wibble"),
    (lambda o: o.createOrSet(wibble="x"), r"Unknown string option wibble"),
    (lambda o: o.Training.createOrSet(wibble=0.5), r"Unknown float option wibble"),
    (
        lambda o: o._Popart.set("autoRecomputation", object()),
        r"Unknown value type <class 'object'> for option autoRecomputation",
    ),
]


@pytest.mark.parametrize("change, text", UNKNOWN, ids=range(len(UNKNOWN)))
def test_what_the_backend_does_not_know_is_refused_at_compilation(change, text):
    options = poptorch.Options().outputMode(MODES.All)
    change(options)
    with pytest.raises(poptorch.Error, match=text):
        poptorch_core._validateOptions(options.toDict())
    wrapped = poptorch.inferenceModel(torch.nn.Linear(1, 1), options)
    with pytest.raises(poptorch.Error, match=text):
        wrapped(X)


ONLY_HARDWARE = """
    enableOutlining accumulateOuterFragmentSettings.schedule disableGradAccumulationTensorStreams
    accumulateOuterFragmentSettings.excludedVirtualGraphs defaultBufferingDepth decomposeGradSum
    subgraphCopyingStrategy scheduleNonWeightUpdateGradientConsumersEarly saveInitializersToFile
    hardwareInstrumentations swapLimitScheduler timeLimitScheduler matmulOptions outlineThreshold
    enableNonStableSoftmax useHostCopyOps lstmOptions gclOptions reportOptions customCodelets
""".split()


def test_session_options_of_hardware_are_recorded():
    options = poptorch.Options()
    for name in ONLY_HARDWARE:
        options._Popart.set(name, {1} if name == "hardwareInstrumentations" else 1)
    model = torch.nn.Linear(1, 1)
    wrapped = poptorch.inferenceModel(model, options)
    assert torch.equal(wrapped(X), model(X))
    assert set(wrapped.report()["recorded_options"]["_Popart.options"]) == set(ONLY_HARDWARE)


def test_options_of_a_program_for_large_models():
    """Sets options as public programs do, with the numbers of PopART's enumerations."""
    options = poptorch.Options().autoRoundNumIPUs(True)
    options.setExecutionStrategy(poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement))
    options.Precision.setPartialsType(torch.half)
    options.enableSyntheticData(int(popart.SyntheticDataMode.RandomNormal))
    schedule = popart.AccumulateOuterFragmentSchedule.OverlapMemoryOptimized
    recompute = popart.RecomputationType.RecomputeAll
    session = {
        "disableGradAccumulationTensorStreams": True,
        "accumulateOuterFragmentSettings.schedule": int(schedule),
        "accumulateOuterFragmentSettings.excludedVirtualGraphs": ["0"],
        "subgraphCopyingStrategy": int(popart.SubgraphCopyingStrategy.JustInTime),
        "autoRecomputation": int(recompute),
        "virtualGraphMode": popart.VirtualGraphMode.Manual,
        "hardwareInstrumentations": {int(popart.Instrumentation.Outer)},
        "engineOptions": {"opt.useAutoloader": "true"},
    }
    for name, value in session.items():
        options._Popart.set(name, value)
    options._Popart.setPatterns({"TiedGather": True, "UpdateInplacePrioritiesForIpu": True})
    wrapped = poptorch.inferenceModel(torch.nn.Linear(1, 1), options)
    assert wrapped(X).shape == (4, 1)
    assert session.items() <= wrapped.options._Popart.options.items()
    assert (schedule, recompute, wrapped.options._Popart.options["syntheticDataMode"]) == (3, 4, 2)
