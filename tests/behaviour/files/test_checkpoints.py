"""Tests what save_checkpoint and load_checkpoint hold and refuse; a refusal changes nothing."""

import collections
import copy
import os
import random

import numpy
import poptorch
import pytest
import torch


class Model(torch.nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.fc = torch.nn.Linear(4, width)
        self.norm = torch.nn.BatchNorm1d(width)
        self.out = torch.nn.Linear(width, 2)

    def forward(self, x, target):
        y = torch.relu(self.norm(self.fc(x)))
        y = torch.nn.functional.dropout(y, 0.3, self.training)
        return torch.nn.functional.mse_loss(self.out(y), target)


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "poptorch adam": lambda p: poptorch.optim.AdamW(p, lr=0.01),
    "poptorch lamb": lambda p: poptorch.optim.LAMB(p, lr=0.01),
}


class Run:
    """All objects of a training program."""

    def __init__(self, seed, kind="adam", width=6, half=False, scaled=False):
        torch.manual_seed(seed)
        self.model = Model(width)
        if half:
            self.model.half()
        self.optimizer = OPTIMIZERS[kind](self.model.parameters())
        self.scheduler = torch.optim.lr_scheduler.MultiStepLR(self.optimizer, [2, 4], 0.5)
        options = poptorch.Options()
        if scaled:
            options.Training.setAutomaticLossScaling(True)
        self.wrapped = poptorch.trainingModel(self.model, options, self.optimizer)
        draw = torch.Generator().manual_seed(0)
        tensors = [torch.randn(20, size, generator=draw) for size in (4, 2)]
        rows = torch.utils.data.TensorDataset(*(t.half() if half else t for t in tensors))
        self.loader = poptorch.DataLoader(options, rows, 4, shuffle=True)
        self.wrapped.compile(*next(iter(poptorch.DataLoader(options, rows, 4))))

    def steps(self, count):
        losses = []
        while True:
            for x, target in self.loader:
                if len(losses) == count:
                    return losses
                losses.append(self.wrapped(x + torch.rand(()), target))
                self.scheduler.step()
                self.wrapped.setOptimizer(self.optimizer)
                if len(losses) == count and self.after is not None:
                    self.after()
        return losses

    after = None

    def save(self, path, **others):
        poptorch.save_checkpoint(
            path, self.wrapped, self.optimizer, scheduler=self.scheduler, loader=self.loader,
            **others,
        )  # fmt: skip

    def load(self, path):
        return poptorch.load_checkpoint(
            path, self.wrapped, self.optimizer, scheduler=self.scheduler, loader=self.loader
        )

    def tensors(self):
        state = self.optimizer.state_dict()
        found = list(self.model.state_dict().values())
        found += (state.get("ipu_state") or {}).values()
        for entry in state["state"].values():
            found += [value for value in entry.values() if isinstance(value, torch.Tensor)]
        return [tensor.clone() for tensor in found]


def equal(ours, theirs):
    return len(ours) == len(theirs) and all(map(torch.equal, ours, theirs))


@pytest.fixture
def saved(tmp_path):
    run = Run(1)
    run.steps(3)
    run.save(tmp_path / "a.pt", step=3, extra={"note": "x"})
    return tmp_path / "a.pt"


CASES = [{"kind": kind} for kind in OPTIMIZERS]
CASES += [{"half": True}, {"scaled": True}, {"scaled": True, "kind": "poptorch adam"}]


@pytest.mark.shared
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("arguments", CASES, ids=lambda a: "-".join(map(str, a.items())))
def test_training_goes_on_with_the_same_bits(tmp_path, arguments, compiled):
    run = Run(1, **arguments)
    run.after = lambda: run.save(tmp_path / "a.pt", step=7)
    run.steps(7)
    run.after = None
    # The loop above has ended its epoch; the resumed loop is in the middle of it.
    again = Run(2, **arguments)
    if not compiled:
        again.wrapped.destroy()
    assert again.load(tmp_path / "a.pt") == poptorch.Checkpoint(7, {})
    resumed = again.steps(6), again.tensors(), again.wrapped.rng_state
    other = Run(3, **arguments)
    other.steps(2)
    other.load(tmp_path / "a.pt")
    assert equal(resumed[0], other.steps(6)) and equal(resumed[1], other.tensors())
    straight = Run(1, **arguments)
    losses = straight.steps(13)
    assert equal(losses[7:], resumed[0])
    assert equal(straight.tensors(), resumed[1])
    assert straight.wrapped.rng_state == resumed[2]


def test_the_plain_model_is_enough(saved, tmp_path):
    run, other = Run(2), Run(3)
    poptorch.load_checkpoint(saved, run.model, run.optimizer)
    other.load(saved)
    assert run.wrapped.rng_state == other.wrapped.rng_state
    x, target = torch.ones(4, 4), torch.ones(4, 2)
    assert torch.equal(run.wrapped(x, target), other.wrapped(x, target))
    poptorch.save_checkpoint(tmp_path / "b.pt", run.model)
    model = Model()
    poptorch.load_checkpoint(tmp_path / "b.pt", model)
    assert equal(list(model.state_dict().values()), list(run.model.state_dict().values()))


def test_an_inference_wrapper_takes_the_weights(saved):
    model = Model().eval()
    wrapped = poptorch.inferenceModel(model)
    x = torch.ones(4, 4), torch.ones(4, 2)
    before = wrapped(*x)
    poptorch.load_checkpoint(saved, wrapped)
    assert not torch.equal(wrapped(*x), before)
    assert torch.allclose(wrapped(*x), model(*x))


def test_a_run_that_was_not_compiled_yet(tmp_path):
    torch.manual_seed(1)
    model = Model()
    wrapped = poptorch.trainingModel(model)
    poptorch.save_checkpoint(tmp_path / "a.pt", wrapped)
    wrapped.rng_state = [5, 6]
    assert wrapped.rng_state == [5, 6]
    poptorch.save_checkpoint(tmp_path / "b.pt", wrapped)
    with pytest.raises(poptorch.Error, match="two integers"):
        wrapped.rng_state = "x"
    poptorch.load_checkpoint(tmp_path / "a.pt", wrapped)
    assert wrapped.rng_state == [5, 6]
    other = poptorch.trainingModel(Model())
    poptorch.load_checkpoint(tmp_path / "b.pt", other)
    other.compile(torch.ones(4, 4), torch.ones(4, 2))
    assert other.rng_state == [5, 6]


def test_the_programs_numbers_go_on(saved):
    def draw():
        return torch.rand(()).item(), random.random(), numpy.random.rand()

    poptorch.load_checkpoint(saved, Model())
    expected = draw()
    draw()
    poptorch.load_checkpoint(saved, Model())
    assert draw() == expected


EXTRA = {
    "numbers": [1, 2.5, True, None, 3j, b"x", "text"],
    "tuple": (torch.float16, torch.Size([2]), numpy.float64(2.0), numpy.int8(3)),
    "dict": collections.OrderedDict(a={1: "x"}),
    "count": collections.Counter([1, 1]),
    "view": torch.arange(10)[2:4],
    "weight": torch.nn.Parameter(torch.ones(2)),
}


def test_extra_data_comes_back(tmp_path):
    file = tmp_path / "a.pt"
    poptorch.save_checkpoint(file, Model(), step=4, extra=EXTRA)
    loaded = poptorch.load_checkpoint(file, Model())
    assert loaded.step == 4 and loaded.extra.keys() == EXTRA.keys()
    for name in ("numbers", "tuple", "dict", "count"):
        assert loaded.extra[name] == EXTRA[name]
    assert torch.equal(loaded.extra["view"], torch.tensor([2, 3]))
    assert type(loaded.extra["weight"]) is torch.Tensor
    assert torch.load(file, weights_only=True)["step"] == 4
    assert file.stat().st_mode & 0o777 == 0o600 and os.listdir(tmp_path) == ["a.pt"]


def loop():
    made = {}
    made["a"] = made
    return made


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"extra": {"a": [1, {2}]}}, r"extra\['a'\]\[1\] is of type set, which a checkpoint does"),
        ({"extra": {"a": Model()}}, r"extra\['a'\] is of type Model"),
        ({"extra": {"a": poptorch.OutputMode.All}}, "is of type OutputMode"),
        ({"extra": {"a": numpy.ones(2)}}, "is of type ndarray"),
        ({"extra": {"a": torch.ones(2).to_sparse()}}, "is of type Tensor"),
        ({"extra": loop()}, "extra contains itself"),
        ({"extra": 3}, "extra is a int, but must be a dict"),
        ({"step": 1.5}, "step is 1.5, but must be an integer"),
        ({"optimizer": 3}, "the optimizer is a int. Pass the optimizer of"),
        ({"scheduler": 3}, "the scheduler is a int, which has no"),
        ({"loader": [torch.utils.data.DataLoader([1])]}, "the loader is a DataLoader, whose pos"),
        ({"model": torch.relu}, "which has no state. Pass a torch.nn.Module"),
        ({"model": poptorch.inferenceModel(torch.relu)}, "which has no state. Pass a torch.nn"),
    ],
)
def test_what_is_not_saved(tmp_path, arguments, text):
    with pytest.raises(poptorch.Error, match=text):
        poptorch.save_checkpoint(tmp_path / "a.pt", **{"model": Model(), **arguments})
    assert os.listdir(tmp_path) == []


class Renamed(Model):
    def __init__(self):
        super().__init__()
        self.fcc = self.fc
        del self.fc


class More(Model):
    def __init__(self):
        super().__init__()
        self.more = torch.nn.Linear(1, 1)


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


REFUSED = {
    "name": (lambda m, o, s, d: {"model": Renamed()},
             r"has 'fc.weight', which the model does not have. Is it 'fcc.weight'\?"),
    "new": (lambda m, o, s, d: {"model": More()},
            "the model has 'more.weight', which the checkpoint does not have"),
    "shape": (lambda m, o, s, d: {"model": Model(7)},
              r"'fc.weight' is float32\[7, 4\] in the model and float32\[6, 4\] in the checkpoint"),
    "type": (lambda m, o, s, d: {"model": Model().half()},
             r"'fc.weight' is float16\[6, 4\] in the model"),
    "optimizer": (lambda m, o, s, d: {"optimizer": sgd(m)},
                  "the optimizer is a torch.SGD, and in the checkpoint torch.Adam"),
    "namespace": (lambda m, o, s, d: {"optimizer": poptorch.optim.Adam(m.parameters())},
                  "the optimizer is a poptorch.Adam, and in the checkpoint torch.Adam"),
    "parameters": (lambda m, o, s, d: {"optimizer": torch.optim.Adam(m.fc.parameters())},
                   r"updates parameters of the shapes \[\[\[6, 4\], \[6\]\]\], and in the"),
    "scheduler": (lambda m, o, s, d: {"scheduler": torch.optim.lr_scheduler.StepLR(o, 2)},
                  "the scheduler is a StepLR, and in the checkpoint a MultiStepLR"),
    "schedulers": (lambda m, o, s, d: {"scheduler": [s, s]},
                   "has 1 schedulers, but 2 were passed"),
    "loaders": (lambda m, o, s, d: {"loader": [d, d]}, "has 1 loaders, but 2 were passed"),
    "loader": (lambda m, o, s, d: {"loader": poptorch.DataLoader(poptorch.Options(), d.dataset)},
               "combinedBatchSize is 1, but was 4"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_other_programs_are_refused_and_not_changed(saved, name):
    make, text = REFUSED[name]
    run = Run(2)
    run.steps(2)
    given = {"model": run.wrapped, "optimizer": run.optimizer, "scheduler": run.scheduler,
             "loader": run.loader}  # fmt: skip
    changed = make(run.model, run.optimizer, run.scheduler, run.loader)
    expected = _state(run)
    with pytest.raises(poptorch.Error, match=text):
        poptorch.load_checkpoint(saved, **{**given, **changed})
    _same_state(run, expected)


def _state(run):
    states = copy.deepcopy([run.scheduler.state_dict(), run.loader.state_dict()])
    return run.tensors(), run.wrapped.rng_state, torch.get_rng_state(), repr(states)


def _same_state(run, expected):
    got = _state(run)
    assert equal(got[0], expected[0]) and torch.equal(got[2], expected[2])
    assert got[1] == expected[1] and got[3] == expected[3]


def test_values_that_are_compiled_in_are_refused_and_nothing_is_changed(tmp_path):
    def made(beta):
        torch.manual_seed(1)
        model = Model()
        optimizer = poptorch.optim.AdamW(model.parameters(), lr=0.01)
        optimizer.param_groups[0]["betas"] = (beta, 0.99)
        wrapped = poptorch.trainingModel(model, None, optimizer)
        wrapped(torch.ones(4, 4), torch.ones(4, 2))
        return model, optimizer, wrapped

    model, optimizer, wrapped = made(0.5)
    poptorch.save_checkpoint(tmp_path / "a.pt", model, optimizer)
    model, optimizer, wrapped = made(0.6)
    wrapped(torch.ones(4, 4), torch.ones(4, 2))
    before = copy.deepcopy([optimizer.state_dict(), model.state_dict(), wrapped.rng_state])
    with pytest.raises(poptorch.Error, match="betas"):
        poptorch.load_checkpoint(tmp_path / "a.pt", model, optimizer)
    after = [optimizer.state_dict(), model.state_dict(), wrapped.rng_state]
    assert repr(before) == repr(after)
    wrapped(torch.ones(4, 4), torch.ones(4, 2))


def test_an_optimizer_that_was_not_saved(tmp_path):
    model = Model()
    poptorch.save_checkpoint(tmp_path / "a.pt", model)
    with pytest.raises(poptorch.Error, match="holds no optimizer's state. Give save_checkpoint"):
        poptorch.load_checkpoint(tmp_path / "a.pt", model, sgd(model))
