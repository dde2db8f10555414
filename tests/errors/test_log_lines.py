"""Log lines that programs search for appear at their level, when their event happens."""

import logging
import re

import poptorch
import pytest
import torch
from poptorch._impl.devices import ipu_pool

X = torch.randn(2, 3)
OPTIMISER_TAIL = (
    "accumType=float32, firstOrderMomentumAccumType=float32, "
    "secondOrderMomentumAccumType=float32, useTfVariant=0, maxGradNorm=inf"
)


@pytest.fixture
def log(caplog):
    poptorch.setLogLevel("TRACE")
    yield caplog
    poptorch.setLogLevel("INFO")


@pytest.fixture(autouse=True)
def two_ipus(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POPTORCH_IPU_POOL", f"2:2:{tmp_path}")


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)
        self.register_buffer("scale", torch.ones(()))

    def forward(self, x):
        return poptorch.identity_loss(self.fc(x) * self.scale, reduction="mean")


class TwoBlocks(Model):
    def __init__(self):
        super().__init__()
        self.last = torch.nn.Linear(3, 3)

    def forward(self, x):
        with poptorch.Block("first"):
            y = self.fc(x)
        with poptorch.Block("second"):
            return poptorch.identity_loss(self.last(y) * self.scale, reduction="mean")


def options_of(set_options=None):
    options = poptorch.Options().showCompilationProgressBar(False)
    if set_options is not None:
        set_options(options)
    return options


def inference(set_options=None):
    return poptorch.inferenceModel(Model(), options_of(set_options))


def training(set_options=None, optimiser=None, model=None):
    model = model or Model()
    optimiser = (optimiser or (lambda p: poptorch.optim.Adam(p, lr=0.5)))(model.parameters())
    wrapped = poptorch.trainingModel(model, options_of(set_options), optimiser)
    wrapped.optimiser = optimiser
    return wrapped


def run(wrapped, x=X):
    wrapped(x)
    return wrapped


def follow():
    wrapped = run(training())
    poptorch.inferenceModel(wrapped.model, options_of())(X)
    wrapped(X)
    return wrapped.model.state_dict()


def named_buffers():
    wrapped = inference(lambda o: o.updatableNamedBuffers(["scale"]))
    run(wrapped).copyNamedBuffersToDevice()


def follow_again():
    wrapped = training()
    again = poptorch.inferenceModel(wrapped.model, options_of())
    again(X)
    wrapped(X)
    again(X)


def reload():
    wrapped = run(training())
    state = wrapped.optimiser.state_dict()
    wrapped.optimiser.state_dict()
    wrapped.optimiser.load_state_dict(state)


def resume(without):
    """Loads a state that lacks a tensor, or a number."""
    wrapped = run(training())
    state = wrapped.optimiser.state_dict()
    for part in ("ipu_state", "ipu_param"):
        state[part] = {name: value for name, value in state[part].items() if name != without}
    wrapped.optimiser.load_state_dict(state)


def set_random_state():
    run(inference()).rng_state = [7, 2]


def schedule_optimiser():
    wrapped = run(training())
    wrapped.optimiser.param_groups[0]["lr"] = 0.125
    wrapped.setOptimizer(wrapped.optimiser)


def wait():
    holder = run(inference(lambda o: o.useIpuId(0)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POPTORCH_WAIT_FOR_IPU", "1")
        patch.setattr(ipu_pool.time, "sleep", lambda _: holder.detachFromDevice())
        run(inference(lambda o: o.useIpuId(0)))


def pipelined(options):
    options.setExecutionStrategy(poptorch.PipelinedExecution("first", "second"))
    options.Training.gradientAccumulation(4)


def phased(options):
    options.setExecutionStrategy(poptorch.SerialPhasedExecution(["first"], ["second"]))


def placed(set_options):
    wrapped = training(set_options, model=TwoBlocks())
    wrapped(X.repeat(4, 1) if set_options is pipelined else X)


def of_kind(kind, **arguments):
    def train():
        run(training(optimiser=lambda p: getattr(poptorch.optim, kind)(p, lr=0.5, **arguments)))

    return train


DEBUG, INFO, TRACE = logging.DEBUG, logging.INFO, poptorch._logging.TRACE
WARN = logging.WARNING
LINES = [
    (lambda: run(inference(lambda o: o.deviceIterations(2))), DEBUG,
     "poptorch.Options set device_iterations to value 2"),
    (lambda: run(inference()), DEBUG, "poptorch.Options set auto_round_num_ipus to value false"),
    (lambda: run(inference(lambda o: o.replicationFactor(2)), X.repeat(2, 1)), DEBUG,
     "^poptorch.Options set replication_factor to value 2$"),
    (lambda: run(inference(lambda o: o.enableExecutableCaching("cache"))), DEBUG,
     "^poptorch.Options set enableEngineCaching to value true$"),
    (lambda: run(inference(lambda o: o.outputMode(poptorch.OutputMode.Sum))), DEBUG,
     f"poptorch.Options set output_mode to value {int(poptorch.OutputMode.Sum)}"),
    (named_buffers, DEBUG, "poptorch.Options added scale to "),
    (lambda: run(inference(lambda o: o.setAvailableMemoryProportion({"IPU0": 0.5}))), DEBUG,
     r"poptorch.Options set available_memory_proportion\[(IPU)?0\] to 0.5$"),
    (lambda: run(inference()), INFO, "^Writing weights from host to IPU memory.$"),
    (follow, INFO, "^Writing weights from IPU to host.$"),
    (follow, DEBUG, r"^Implicit copyWeightsToHost\(\)$"),
    (follow_again, DEBUG, r"^Implicit copyWeightsToDevice\(\)$"),
    (named_buffers, INFO, "^Writing named buffers from host to IPU memory.$"),
    (reload, INFO, "^Writing optimiser state tensors from IPU to host.$"),
    (reload, INFO, "^Writing optimiser state tensors from host to IPU memory.$"),
    (reload, DEBUG, "^Using cached optimiser state dict$"),
    (lambda: resume("Accl1___fc.weight"), WARN,
     "^writeOptimizerState: ignoring missing state Accl1___fc.weight"),
    (lambda: resume("learningRate___specific___fc.weight"), WARN,
     "^writeOptimizerState: ignoring missing parameter learningRate___specific___fc.weight"),
    (lambda: run(training()).load_state_dict(Model().state_dict()), DEBUG,
     r"^load_state_dict: implicit copyWeightsToDevice\(\)$"),
    (lambda: run(inference(lambda o: o.randomSeed(42))), DEBUG, "^Setting random seed to: 42$"),
    (set_random_state, DEBUG, "^Setting random seed to: 7$"),
    (set_random_state, DEBUG, "^Setting RNG state$"),
    (lambda: run(inference()).rng_state, DEBUG, "^Reading random seed$"),
    (lambda: run(inference()).rng_state, DEBUG, "^Reading RNG state$"),
    (lambda: run(inference()), DEBUG, r"^Acquired 1 IPU\(s\): running on device Id 0.$"),
    (lambda: run(inference(lambda o: o.useIpuId(1))), DEBUG,
     "^Acquired IPU device with id 1, running on device.$"),
    (lambda: run(inference()).detachFromDevice(), DEBUG, "^Detached from device 0$"),
    (lambda: run(inference()), TRACE, "^Attached to device 0$"),
    (wait, TRACE, "^No IPU available, sleeping for 15 seconds$"),
    (lambda: placed(pipelined), DEBUG, "^Starting block id=second stage=1 phase=-1 ipu=1$"),
    (lambda: placed(phased), DEBUG, "^Starting block id=second stage=1 phase=1 ipu=0$"),
    (lambda: placed(pipelined), DEBUG, "^No IPU specified for block second: default to stage_id 1"),
    (lambda: placed(phased), DEBUG, "^No IPU specified for block second: default to stage_id 0$"),
    (lambda: placed(pipelined), DEBUG, "^enablePipelining set to value 1$"),
    (lambda: placed(pipelined), DEBUG, "^autoRecomputation set to value 3$"),
    (lambda: run(inference()), DEBUG, "^enablePipelining set to value 0$"),
    (lambda: placed(phased), DEBUG, r"^executionPhaseSettings.phases set to value 2$"),
    (of_kind("SGD", momentum=0.25), DEBUG,
     r"^Updating graph optimizer with SGD2, defaultDampening=0 \(const\), "
     r"defaultLearningRate=0.5, defaultMomentum=0.25, defaultVelocityScaling=1 \(const\), "
     r"defaultWeightDecay=0 \(const\), lossScaling=1 \(const\), nesterov=0 \(const\), "
     f"{OPTIMISER_TAIL}$"),
    (of_kind("SGD", loss_scaling=8.0), DEBUG, "defaultVelocityScaling=8, .*lossScaling=8, "),
    (of_kind("SGD", use_combined_accum=True, velocity_scaling=2.0), DEBUG,
     r"^Updating group 0 optimizer with SGD1, dampening=0 \(const\), learningRate=0.5, "
     r"momentum=0 \(const\), nesterov=0 \(const\), velocityScaling=2, weightDecay=0 \(const\), "
     r"useTfVariant=0, maxGradNorm=inf for \(tensors affected fc.weight, fc.bias\)$"),
    (of_kind("Adam", betas=(0.75, 0.5)), DEBUG,
     r"^Updating graph optimizer with ADAM, defaultBeta1=0.75, defaultBeta2=0.5, "
     r"defaultEps=1e-08 \(const\), defaultLearningRate=0.5, defaultWeightDecay=0 \(const\), "
     rf"lossScaling=1 \(const\), {OPTIMISER_TAIL}$"),
    (of_kind("AdamW", bias_correction=False), DEBUG, "^Updating graph optimizer with ADAMW, "),
    (of_kind("LAMB", max_weight_norm=3.0), DEBUG,
     "^Updating graph optimizer with LAMB, .*, defaultMaxWeightNorm=3, "),
    (of_kind("RMSprop", alpha=0.5, centered=True), DEBUG,
     r"^Updating graph optimizer with RMSPROP, defaultAlpha=0.5, defaultEps=1e-08 \(const\), "),
    (of_kind("Adam", accum_type=torch.float16, max_grad_norm=2.0), DEBUG,
     "accumType=float16, firstOrderMomentumAccumType=float32, .*maxGradNorm=2 for "),
    (schedule_optimiser, DEBUG, "^Updating graph optimizer with ADAM, .*Rate=0.5, "),
    (schedule_optimiser, DEBUG, "^Updating group 0 optimizer with ADAM, .*, learningRate=0.125, "),
]  # fmt: skip


@pytest.mark.shared
@pytest.mark.parametrize("make, level, line", LINES, ids=[line for _, _, line in LINES])
def test_a_line(log, make, level, line):
    made = make()
    records = [r for r in log.records if re.search(line, r.getMessage())]
    assert {record.levelno for record in records} == {level}
    del made


@pytest.mark.parametrize("ipu, what", [(None, r"2 IPU\(s\)"), (0, "device Id 0")])
def test_what_cannot_be_had_is_not_waited_for(monkeypatch, ipu, what):
    monkeypatch.setenv("POPTORCH_WAIT_FOR_IPU", "1")
    monkeypatch.setenv("POPTORCH_IPU_POOL", f"{1 if ipu is None else 2}:2")
    monkeypatch.setattr(ipu_pool.time, "sleep", lambda _: pytest.fail("it waits"))

    def set_options(options):
        pipelined(options)
        if ipu is not None:
            options.useIpuId(ipu)

    with pytest.raises(poptorch.Error, match=f"Failed to acquire {what}"):
        training(set_options, model=TwoBlocks()).compile(X.repeat(4, 1))


def test_new_names_are_told_of_with_the_kind_of_optimiser(log):
    wrapped = run(training(optimiser=lambda p: torch.optim.SGD(p, lr=0.5)))
    for _ in range(2):
        wrapped.optimiser.foo = 0
        wrapped.optimiser.param_groups[0]["bar"] = 0
        wrapped.optimiser.defaults["baz"] = 0
        wrapped.setOptimizer(wrapped.optimiser)
    for what in ("optimizer attribute", "group 0 attribute", "default group variable"):
        name = {"o": "foo", "g": "bar", "d": "baz"}[what[0]]
        line = f"Ignoring unexpected {what} in SGD2 optimizer: ['{name}']"
        assert log.text.count(line) == 1


@pytest.mark.shared
@pytest.mark.parametrize(
    "kind, arguments, shown",
    [
        ("SGD", {}, "SGD2"),
        ("SGD", {"use_combined_accum": True}, "SGD1"),
        ("Adam", {}, "ADAM"),
        ("AdamW", {}, "ADAMW"),
        ("AdamW", {"bias_correction": False}, "ADAMW_NO_BIAS"),
        ("RMSprop", {}, "RMSPROP"),
        ("RMSprop", {"centered": True}, "RMSPROP_CENTERED"),
        ("LAMB", {}, "LAMB"),
        ("LAMB", {"bias_correction": False}, "LAMB_NO_BIAS"),
    ],
)
def test_kinds_of_optimisers(log, kind, arguments, shown):
    wrapped = training(optimiser=lambda p: getattr(poptorch.optim, kind)(p, lr=0.5, **arguments))
    run(wrapped)
    wrapped.optimiser.foo = 0
    wrapped.setOptimizer(wrapped.optimiser)
    assert f"Ignoring unexpected optimizer attribute in {shown} optimizer: ['foo']" in log.text
