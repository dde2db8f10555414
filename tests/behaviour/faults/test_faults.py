"""Training that recovers from injected faults ends bit-identical to an undisturbed run."""

import functools
import os
import random
import threading

import poptorch
import poptorch.testing
import pytest
import torch
from poptorch.testing import inject_fault
from recovering import ACCUMULATION, ITERATIONS, KINDS, OPTIMISERS, Net, Program, options_of

STRATEGIES = ("sharded", "pipelined", "phased", "replicated")
RECOVERABLE = KINDS[:-1]
# Attachments: one by the first call, and one after each checkpoint. Copies: the compilation makes
# the first; a checkpoint makes one of the weights and several of the optimiser.
POINTS = {
    "attach 1": ("attach", {}),
    "attach 3": ("attach", {"nth": 3}),
    "compile": ("compile", {}),
    "run 1": ("run", {}),
    "run 4, in the middle": ("run", {"nth": 4, "micro_batch": 3, "ipu": 1}),
    "run 6, at its end": ("run", {"nth": 6, "micro_batch": ACCUMULATION * ITERATIONS, "ipu": 0}),
    "copy 1": ("copy", {}),
    "copy 4": ("copy", {"nth": 4}),
    "copy 13": ("copy", {"nth": 13}),
}


@functools.cache
def undisturbed(strategy, optimiser):
    program = Program(strategy, optimiser).run()
    assert not program.faults
    return program.outcome()


def check(program, strategy, optimiser):
    expected, found = undisturbed(strategy, optimiser), program.outcome()
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(found[name], value), name


@pytest.mark.shared
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("kind", RECOVERABLE)
@pytest.mark.parametrize(
    "strategy, optimiser",
    [
        ("sharded", "momentum"),
        ("sharded", "Adam"),
        ("pipelined", "momentum"),
        ("pipelined", "Adam"),
    ],
)
def test_every_kind_at_every_point(strategy, optimiser, kind, point):
    where, numbers = POINTS[point]
    with inject_fault(where, kind, **numbers) as fault:
        program = Program(strategy, optimiser).run()
        assert fault.struck
    (error,) = program.faults
    assert type(error) is poptorch.RecoverableError
    assert error.recovery_action == kind
    assert error.type == "poplar_recoverable_runtime_error"
    check(program, strategy, optimiser)


@pytest.mark.shared
@pytest.mark.parametrize("rewraps", [False, True], ids=["attached again", "wrapped again"])
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize(
    "strategy, optimiser",
    [("pipelined", "own Adam"), ("phased", "RMSprop"), ("replicated", "momentum")],
)
def test_training_goes_on_from_its_checkpoint(strategy, optimiser, point, rewraps):
    where, numbers = POINTS[point]
    with inject_fault(where, **numbers) as fault:
        program = Program(strategy, optimiser, rewraps).run()
        assert fault.struck
    assert len(program.faults) == 1
    check(program, strategy, optimiser)


@pytest.mark.parametrize("point", POINTS)
def test_nothing_can_be_had_behind_an_unrecoverable_fault(point):
    where, numbers = POINTS[point]
    with inject_fault(where, "UNRECOVERABLE", **numbers) as fault:
        program = Program("pipelined", "Adam", rewraps=True).run()
        assert fault.struck
        (error,) = program.faults
        assert type(error) is poptorch.UnrecoverableError
        assert error.type == "poplar_unrecoverable_runtime_error"
        for other in (poptorch.inferenceModel(torch.neg), poptorch.inferenceModel(torch.abs)):
            with pytest.raises(poptorch.UnrecoverableError, match="no device is available"):
                other(torch.ones(2))
    program.recover()  # another system
    program._steps()
    check(program, "pipelined", "Adam")


@pytest.mark.shared
@pytest.mark.parametrize("seed", range(int(os.environ.get("POPTORCH_FUZZ_FAULTS", "8"))))
def test_a_random_fault(seed):
    draw = random.Random(seed)
    strategy, optimiser = draw.choice(STRATEGIES), draw.choice(list(OPTIMISERS))
    most = {"attach": 4, "compile": 1, "run": 6, "copy": 50}
    point = draw.choice(list(most))
    numbers = {"nth": draw.randint(1, most[point])}
    if point == "run":
        numbers["micro_batch"] = draw.randint(0, ACCUMULATION * ITERATIONS)
        numbers["ipu"] = draw.randrange(4 if strategy == "replicated" else 2)
    with inject_fault(point, draw.choice(RECOVERABLE), **numbers) as fault:
        program = Program(strategy, optimiser, rewraps=draw.random() < 0.5).run()
        assert len(program.faults) == fault.struck
    check(program, strategy, optimiser)


def test_several_faults_one_after_the_other():
    with (
        inject_fault("run", "IPU_RESET", nth=2),
        inject_fault("attach", "LINK_RESET", nth=3),
        inject_fault("copy", "FULL_RESET", nth=20),
        inject_fault("run", "PARTITION_RESET", nth=7, micro_batch=2, ipu=1),
    ):
        program = Program("pipelined", "momentum").run()
    assert [e.recovery_action for e in program.faults][0] == "IPU_RESET"
    assert len(program.faults) == 4
    check(program, "pipelined", "momentum")


class Slow(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(4))

    def forward(self, x):
        for number, part in enumerate(self.parts):
            with poptorch.Block(f"part {number}", ipu_id=number):
                x = torch.relu(part(x))
                loss = poptorch.identity_loss(x.square(), reduction="mean")
        return loss


@pytest.mark.shared
@pytest.mark.parametrize("ipu", range(8))
def test_a_fault_in_one_ipu_does_not_leave_the_others_waiting(ipu):
    options = poptorch.Options().showCompilationProgressBar(False).replicationFactor(2)
    options.Training.gradientAccumulation(8)
    model = poptorch.trainingModel(Slow(), options)
    x = torch.randn(64, 64)
    errors = []

    def work():
        try:
            model(x)
        except poptorch.RecoverableError as error:
            errors.append(error)

    with inject_fault("run", "LINK_RESET", micro_batch=3, ipu=ipu):
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
    assert f"IPU {ipu}" in errors[0].message
    model.detachFromDevice()
    model.attachToDevice()
    assert torch.isfinite(model(x)).all()


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 8 * 2 * ACCUMULATION * ITERATIONS

    def __getitem__(self, index):
        return torch.full((4,), index / 100), torch.zeros(2)


@pytest.mark.shared
def test_a_loader_that_works_ahead_goes_on():
    options = options_of("pipelined")
    loader = poptorch.DataLoader(
        options, Rows(), batch_size=2, mode=poptorch.DataLoaderMode.Async, num_workers=1
    )
    model = poptorch.trainingModel(Net(), options)
    losses, faults = [], 0
    with inject_fault("run", nth=3, micro_batch=2, ipu=1):
        for batch in loader:
            try:
                losses.append(model(*batch))
            except poptorch.RecoverableError:
                faults += 1
                model.detachFromDevice()
                model.attachToDevice()
    loader.terminate()
    assert faults == 1 and len(losses) == 7


def test_faults_are_counted_from_when_they_are_armed():
    program = Program("sharded", "momentum")
    program.wrapper(*program.batches[0])
    with inject_fault("run", nth=2) as fault:
        program.wrapper(*program.batches[0])
        assert not fault.struck
        with pytest.raises(poptorch.RecoverableError):
            program.wrapper(*program.batches[0])
        assert fault.struck
    assert fault.struck
