"""Tests class and text of messages: options, devices, optimisers, random state, inspection."""

import sys

import poptorch
import pytest
import torch
import zygote

X = torch.randn(4, 3)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)

    def forward(self, x):
        y = self.fc(x)
        return y, poptorch.identity_loss(y.square(), reduction="mean")


def options(change=None):
    made = poptorch.Options()
    if change is not None:
        change(made)
    return made


def compiled(change=None, **optimiser):
    model = Model()
    made = poptorch.optim.SGD(model.parameters(), lr=0.1, **optimiser)
    wrapped = poptorch.trainingModel(model, options(change), made)
    wrapped(X)
    return wrapped, made


@pytest.fixture
def log(caplog):
    return caplog


INF, NAN, ZERO = float("inf"), float("nan"), 0.0


@pytest.mark.parametrize(
    "function, given, op",
    [
        (lambda x: x - x, INF, "sub"),
        (lambda x: 1 / x, ZERO, "(div|reciprocal)"),
        (lambda x: x * torch.tensor([0.0]), INF, "mul"),
        (lambda x: torch.sqrt(x), -1.0, "sqrt"),
        (lambda x: (x > 0).float(), NAN, "gt .*compares NaN"),
        (lambda x: x.half(), 1e6, "cast"),
        (lambda x: x.half() * x.half(), 300.0, "mul"),
    ],
    ids=["inf-inf", "1/0", "inf*0", "sqrt(-1)", "nan>0", "to half", "half*half"],
)
def test_floating_point_exceptions(function, given, op):
    x = torch.tensor([given])
    plain = poptorch.inferenceModel(function)
    plain(x)  # off by default
    checked = poptorch.inferenceModel(
        function, options(lambda o: o.Precision.enableFloatingPointExceptions(True))
    )
    checked(torch.tensor([1.0]))
    with pytest.raises(poptorch.Error, match=rf"\[floating-point exception\] {op}.*micro-batch 1 "):
        checked(x)


def test_a_floating_point_exception_names_the_module():
    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            return self.inner(x)

    class Inner(torch.nn.Module):
        def forward(self, x):
            return torch.log(x)

    checked = options(lambda o: o.Precision.enableFloatingPointExceptions(True))
    where = r"log of module inner .*test_matched_messages\.py:\d+"
    with pytest.raises(poptorch.Error, match=where):
        poptorch.inferenceModel(Outer(), checked)(torch.tensor([-1.0]))


def test_training_with_floating_point_exceptions():
    wrapped, _ = compiled(lambda o: o.Precision.enableFloatingPointExceptions(True), momentum=0.9)
    wrapped(X)
    with pytest.raises(poptorch.Error, match="floating-point exception"):
        wrapped(X * INF)


def test_attaching_and_detaching():
    wrapped, _ = compiled()
    with pytest.raises(poptorch.Error, match="Device is already attached"):
        wrapped.attachToDevice()
    wrapped.detachFromDevice()
    with pytest.raises(poptorch.Error, match="Device is not attached"):
        wrapped.detachFromDevice()
    wrapped.attachToDevice()
    wrapped.destroy()
    for method in (wrapped.attachToDevice, wrapped.detachFromDevice, wrapped.copyWeightsToHost):
        with pytest.raises(
            poptorch.Error, match="Model has not been compiled or has been destroyed."
        ):
            method()


def test_offline_targets_compile_and_never_run():
    wrapped = poptorch.inferenceModel(Model(), options(lambda o: o.useOfflineIpuTarget()))
    wrapped.compile(X)
    for action in (lambda: wrapped(X), wrapped.attachToDevice):
        with pytest.raises(AssertionError, match="Trying to run a model on an offline device"):
            action()


def test_on_demand_attaches_at_the_first_call():
    on_demand = poptorch.ConnectionType.OnDemand
    wrapped = poptorch.inferenceModel(Model(), options(lambda o: o.connectionType(on_demand)))
    wrapped.compile(X)
    assert not wrapped.isAttachedToDevice()
    wrapped(X)
    assert wrapped.isAttachedToDevice()


def test_a_numbered_device_has_one_holder():
    first = poptorch.inferenceModel(Model(), options(lambda o: o.useIpuId(3)))
    first(X)
    second = poptorch.inferenceModel(Model(), options(lambda o: o.useIpuId(3)))
    with pytest.raises(poptorch.Error, match="Failed to acquire device Id 3"):
        second(X)
    first.detachFromDevice()
    second(X)
    with pytest.raises(poptorch.Error, match="Failed to acquire device Id 3"):
        first(X)
    del second
    first(X)


def test_a_forgotten_wrapper_gives_its_device_back():
    forgotten = poptorch.inferenceModel(Model(), options(lambda o: o.useIpuId(5)))
    forgotten(X)
    forgotten.itself = forgotten  # only a collection finds it
    del forgotten
    poptorch.inferenceModel(Model(), options(lambda o: o.useIpuId(5)))(X)


def test_a_forgotten_training_wrapper_is_collected():
    wrapped, _ = compiled(lambda o: o.useIpuId(6))  # its device has the newest weights
    del wrapped, _
    poptorch.inferenceModel(Model(), options(lambda o: o.useIpuId(6)))(X)


def test_hardware_queries(monkeypatch):
    monkeypatch.delenv("POPTORCH_IPU_MODEL", raising=False)
    assert poptorch.ipuHardwareIsAvailable(64) and not poptorch.ipuHardwareIsAvailable(65)
    assert poptorch.ipuHardwareVersion() == 2
    monkeypatch.setenv("POPTORCH_IPU_MODEL", "1")
    assert not poptorch.ipuHardwareIsAvailable()
    assert poptorch.ipuHardwareVersion() == 0


def test_cycle_counts():
    wrapped = poptorch.inferenceModel(Model(), options(lambda o: o.logCycleCount(True)))
    wrapped.compile(X)
    with pytest.raises(
        poptorch.Error, match="Please run the model at least once before obtaining cycle count."
    ):
        wrapped.cycleCount()
    on_model = options(lambda o: o.logCycleCount(True).useIpuModel(True))
    with pytest.raises(
        poptorch.Error, match="Cycle count logging is only supported on actual IPU hardware."
    ):
        poptorch.inferenceModel(Model(), on_model)(X)


def test_compilation_time_needs_the_progress_bar():
    wrapped = poptorch.inferenceModel(
        Model(), options(lambda o: o.showCompilationProgressBar(False))
    )
    with pytest.raises(poptorch.Error, match="Please compile the model before obtaining compilat"):
        wrapped.compilationTime()
    wrapped(X)
    with pytest.raises(poptorch.Error, match="Please set showCompilationProgressBar option to"):
        wrapped.compilationTime()


def test_random_state():
    wrapped = poptorch.inferenceModel(Model())
    with pytest.raises(poptorch.Error, match="Model has not been compiled"):
        _ = wrapped.rng_state
    wrapped(X)
    with pytest.raises(poptorch.Error, match="expected .seed, state., two integers"):
        wrapped.rng_state = [1]


def test_anchors():
    wrapped, _ = compiled(lambda o: o.anchorTensor("w", "fc.weight"))
    with pytest.raises(AssertionError, match="No tensor with name X found."):
        wrapped.getAnchoredTensor("X")
    with pytest.raises(poptorch.Error, match=r"the model has no tensor fc.wight.*fc.weight"):
        compiled(lambda o: o.anchorTensor("w", "fc.wight"))
    with pytest.raises(AssertionError, match="Model must be compiled before calling getTensorNa"):
        poptorch.inferenceModel(Model()).getTensorNames()


def test_a_scheduler_without_set_optimizer_is_warned_about_once(log):
    wrapped, optimiser = compiled()
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.5)
    for _ in range(3):
        wrapped(X)
        scheduler.step()
    wrapped(X)
    text = "lr in the optimizer's param_groups changed from 0.1 to 0.05"
    assert log.text.count(text) == 1 and log.text.count("call setOptimizer(optimizer)") == 1


def test_a_scheduler_with_set_optimizer_is_not_warned_about(log):
    model = Model()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.5)
    wrapped = poptorch.trainingModel(model, None, optimiser)
    for _ in range(3):
        wrapped(X)
        scheduler.step()
        wrapped.setOptimizer(optimiser)
    assert "warning" not in {record.levelname.lower() for record in log.records}


def test_a_step_that_is_not_a_schedulers_is_unexpected(log):
    model = Model()
    optimiser = poptorch.optim.SGD(model.parameters(), lr=0.1)
    torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.5)
    wrapped = poptorch.trainingModel(model, None, optimiser)
    wrapped(X)
    torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.5)
    wrapped.setOptimizer(optimiser)
    assert "optimizer attribute" not in log.text
    for value in (0, optimiser.zero_grad):
        optimiser.step = value
        wrapped.setOptimizer(optimiser)
    text = "Ignoring unexpected optimizer attribute in SGD2 optimizer: ['step']"
    assert log.text.count(text) == 1


@pytest.mark.parametrize("relaxed", [False, True])
def test_new_attributes_are_warned_about_once(log, relaxed):
    wrapped, optimiser = compiled(lambda o: o.relaxOptimizerAttributesChecks(relaxed))
    optimiser.param_groups[0]["initial_lr"] = 0.1
    optimiser.defaults["wibble"] = 1
    optimiser.wobble = 2
    for _ in range(2):
        wrapped.setOptimizer(optimiser)
    for text in (
        "Ignoring unexpected group 0 attribute in SGD2 optimizer: ['initial_lr']",
        "Ignoring unexpected default group variable in SGD2 optimizer: ['wibble']",
        "Ignoring unexpected optimizer attribute in SGD2 optimizer: ['wobble']",
    ):
        assert log.text.count(text) == (0 if relaxed else 1)


@pytest.mark.parametrize(
    "edit",
    [
        lambda model: model.fc.weight.detach().fill_(0),
        lambda model: model.load_state_dict(Model().state_dict()),
        lambda model: torch.nn.init.zeros_(model.fc.bias),
        lambda model: model.fc.weight.data.zero_(),
        lambda model: setattr(model.fc.weight, "data", torch.zeros(3, 3)),
    ],
    ids=["fill", "load_state_dict", "init", "data", "set data"],
)
def test_edits_on_the_host_are_warned_about_once(log, edit):
    wrapped, _ = compiled()
    wrapped(X)
    edit(wrapped.model)
    for _ in range(2):
        wrapped(X)
    assert log.text.count("were changed on the host since they were last copied") == 1
    wrapped.copyWeightsToDevice()
    ours = wrapped.model.state_dict()
    inference = poptorch.inferenceModel(Model())
    inference.load_state_dict(ours)
    torch.testing.assert_close(inference(X)[0], wrapped.model(X)[0])


def test_edits_of_a_model_for_inference_are_warned_about_once(log):
    inference = poptorch.inferenceModel(Model())
    inference(X)
    inference.model.fc.weight.detach().fill_(0)
    for _ in range(2):
        inference(X)
    assert log.text.count("Call copyWeightsToDevice() to use the host's") == 1


def test_reads_and_copies_are_no_edits(log):
    wrapped, _ = compiled()
    inference = poptorch.inferenceModel(wrapped)
    for _ in range(2):
        wrapped(X)
        inference(X)
        wrapped.model.fc.weight.sum()
        wrapped.copyWeightsToHost()
        inference(X)
        wrapped(X)
        inference.copyWeightsToDevice()
        wrapped.load_state_dict(Model().state_dict())
        wrapped(X)
    assert "changed on the host" not in log.text


def test_groups_must_agree_on_centered():
    model = Model()
    groups = [{"params": [model.fc.weight], "centered": True}, {"params": [model.fc.bias]}]
    with pytest.raises(AssertionError, match="same value of centered"):
        poptorch.trainingModel(model, None, poptorch.optim.RMSprop(groups, lr=0.1))(X)


def test_velocity_scaling_of_the_separate_sgd_is_warned_about(log):
    poptorch.optim.SGD(Model().parameters(), lr=0.1, velocity_scaling=2.0)
    assert "velocity_scaling" in log.text
    log.clear()
    poptorch.optim.SGD(Model().parameters(), lr=0.1, velocity_scaling=2.0, use_combined_accum=True)
    assert not log.text


def test_subclasses_are_warned_about(log):
    class Own(poptorch.optim.SGD):
        pass

    model = Model()
    poptorch.trainingModel(model, None, Own(model.parameters(), lr=0.1))
    assert (
        log.text.count(
            "Optimizer `Own` subclassed from classes in poptorch.optim or torch.optim are unlikely "
            "to behave as intended. Poptorch does not run Python optimizer code directly; "
        )
        == 1
    )


def test_max_grad_norm_is_compiled_in():
    wrapped, optimiser = compiled(max_grad_norm=1.0)
    optimiser.max_grad_norm = 2.0
    with pytest.raises(poptorch.Error, match="max_grad_norm is compiled in as the constant 1.0"):
        wrapped.setOptimizer(optimiser)


def test_known_session_options_are_recorded():
    made = options(lambda o: o._Popart.set("autoRecomputation", 3))
    made._Popart.setPatterns({"PostNRepl": True}, level=0).setEngineOptions({"a": "b"})
    wrapped = poptorch.inferenceModel(Model(), made)
    assert wrapped.options._Popart.options["autoRecomputation"] == 3
    assert wrapped.options._Popart.options["engineOptions"] == {"a": "b"}


@pytest.mark.shared
def test_uncaught_errors_are_logged_with_a_childs_stderr_on_request(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import poptorch, subprocess, sys\n"
        "child = 'import sys; print(\"from the child\", file=sys.stderr); sys.exit(3)'\n"
        "subprocess.run([sys.executable, '-c', child], check=True, stderr=subprocess.PIPE)\n"
    )
    done = zygote.run(
        [sys.executable, program],
        env={"PYTHONPATH": ":".join(p for p in sys.path if p), "POPTORCH_LOG_UNCAUGHT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "[poptorch::python] [error]" in done.stderr
    assert "CalledProcessError" in done.stderr and "from the child" in done.stderr


@pytest.mark.parametrize(
    "wide, narrow", [(torch.int64, torch.int32), (torch.float64, torch.float32)]
)
def test_64_bit_inputs_are_warned_about_once(log, monkeypatch, wide, narrow):
    monkeypatch.setattr(poptorch._impl.wrapper.call_arguments, "_warned_of_types", set())
    for _ in range(2):
        wrapped = poptorch.inferenceModel(lambda x: x + 1)
        for _ in range(2):
            assert wrapped(torch.ones(2, dtype=wide)).dtype == narrow
    assert log.text.count(f"The device has no {wide}: such inputs become {narrow}") == 1
