"""Forward writes attributes, lists, dicts, closures and constants: values are as in eager torch, or
the model is refused with the line that reads what an earlier call wrote.
"""

import copy
import functools
import logging

import poptorch
import pytest
import torch
from poptorch._impl.wrapper.state import wrapper_state
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.c, self.mask = torch.zeros(2, 3), torch.ones(2, 3)
        self.d, self.hist, self.state = {}, [], None
        self.n, self.first = 0, True


def wrapped(model):
    options = poptorch.Options().showCompilationProgressBar(False)
    return poptorch.inferenceModel(model, options)


def model(forward):
    """Returns a module with this forward."""
    return type("Made", (Model,), {"forward": forward})()


def added(self, x):
    self.c = self.c + x
    return self.c * 1


def added_in_place(self, x):
    self.c += x
    return self.c * 1


def set_item(self, x):
    self.c[0] = x[0]
    return self.c * 1


def set_entry(self, x):
    self.d["k"] = self.d.get("k", 0) + x
    return self.d["k"] * 1


def appended(self, x):
    self.hist.append(x * 2)
    return self.hist[0] * 1


def none_at_first(self, x):
    self.state = x if self.state is None else self.state * 0.5 + x
    return self.state * 1


def counted(self, x):
    self.n += 1
    return x * self.n


def decided(self, x):
    self.n += 1
    return x * 2 if self.n > 3 else x


def first_call(self, x):
    if self.first:
        self.first = False
        return x * 2
    return x


def in_nested(self, x):
    self.d.setdefault("list", [torch.zeros(2, 3)])
    self.d["list"][0] = self.d["list"][0] + x
    return self.d["list"][0] * 1


REFUSED = [added, added_in_place, set_item, set_entry, appended, none_at_first, counted, decided,
           first_call, in_nested]  # fmt: skip


@pytest.mark.parametrize("forward", REFUSED)
def test_reading_what_an_earlier_call_wrote_is_refused_with_the_line(forward):
    made = model(forward)
    before = copy.deepcopy(vars(made))
    with pytest.raises(poptorch.Error, match=r"\[state\] forward reads") as raised:
        wrapped(made)(torch.ones(2, 3))
    assert "test_forward_state.py:" in str(raised.value)
    assert "register_buffer" in str(raised.value)
    after = vars(made)
    assert after["d"] == before["d"] and after["hist"] == [] and after["n"] == 0


def test_a_closure_is_refused_by_its_name():
    total = torch.zeros(2, 3)

    class Closing(nn.Module):
        def forward(self, x):
            nonlocal total
            total = total.to(x.device) + x
            return total * 1

    with pytest.raises(poptorch.Error, match=r"an earlier call wrote to total \("):
        wrapped(Closing())(torch.ones(2, 3))


def feature(self, x):
    self.feature = self.linear(x)
    return self.feature.sum()


def parts(self, x):
    self.d["parts"] = [x * 2, {"sum": x.sum()}]
    return x + 1


def cleared(self, x):
    self.hist.clear()
    self.hist.append(x + 1)
    return x


def constant(self, x):
    self.c.copy_(x * 2)
    return self.c + 1


def masked(self, x):
    self.mask[:, 1:] = 0
    return x * self.mask


def shape(self, x):
    self.shape = x.shape
    return x * 2


@pytest.mark.parametrize("forward", [feature, parts, cleared, constant, masked, shape])
def test_what_forward_only_writes_holds_the_last_calls_value(forward):
    ours = model(forward)
    eager = copy.deepcopy(ours)
    wrapper = wrapped(ours)
    for i in range(3):
        x = torch.rand(2, 3) + i
        torch.testing.assert_close(wrapper(x), eager(x).detach())
        for name in ("feature", "d", "hist", "c", "mask", "shape"):
            if hasattr(eager, name):
                torch.testing.assert_close(
                    getattr(ours, name), _detached(getattr(eager, name)), rtol=1e-5, atol=1e-6
                )


def _detached(value):
    return value.detach() if isinstance(value, torch.Tensor) else value


def test_training_stores_the_values_of_the_step():
    class Training(Model):
        def forward(self, x):
            self.feature = self.linear(x)
            return poptorch.identity_loss((self.feature**2).mean(), "none")

    ours = Training()
    eager = copy.deepcopy(ours)
    optimiser = poptorch.optim.SGD(ours.parameters(), lr=0.1)
    options = poptorch.Options().showCompilationProgressBar(False)
    wrapper = poptorch.trainingModel(ours, options, optimiser)
    theirs = torch.optim.SGD(eager.parameters(), lr=0.1)
    for _ in range(3):
        x = torch.rand(2, 3)
        wrapper(x)
        theirs.zero_grad()
        (eager.linear(x) ** 2).mean().backward()
        expected = eager.linear(x).detach()
        theirs.step()
        torch.testing.assert_close(ours.feature, expected)


def logged(self, x):
    self.hist.append(x.shape)
    return x


def counted_only(self, x):
    self.n += 1
    return x


def kept_each(self, x):
    self.hist.append(x * 2)
    return x


ONCE = [(logged, "hist"), (counted_only, "n"), (kept_each, "hist")]


@pytest.mark.parametrize("forward, name", ONCE)
def test_other_writes_are_warned_about_once(forward, name, caplog):
    made = model(forward)
    wrapper = wrapped(made)
    with caplog.at_level(logging.WARNING, "poptorch"):
        for _ in range(3):
            wrapper(torch.ones(2, 3))
    found = [r.getMessage() for r in caplog.records if "[state] forward writes" in r.getMessage()]
    assert len(found) == 1 and f"self.{name}" in found[0]
    assert made.hist in ([], [(2, 3)]) and made.n in (0, 1)  # as the first call left it


def mixed(self, x):
    self.hist += [x * 2, x.shape]
    self.d["last"] = x * 3
    return x


def test_tensors_that_no_run_stores_are_not_results():
    made = model(mixed)
    wrapper = wrapped(made)
    for i in range(3):
        x = torch.ones(2, 3) + i
        torch.testing.assert_close(wrapper(x), x)
        torch.testing.assert_close(made.d["last"], x * 3)
    assert made.hist == []
    assert len(wrapper_state(wrapper).compiled.executable.output_types()) == 2


@functools.lru_cache
def cached_table(n):
    return torch.arange(float(n)) * 2


TABLES = {}


def of_function(self, x):
    return x + cached_table(3)


def of_global(self, x):
    if "t" not in TABLES:
        TABLES["t"] = torch.linspace(0, 1, 3).cos()
    return x + TABLES["t"]


def of_module(self, x):
    if "t" not in self.d:
        self.d["t"] = torch.arange(3.0).sin()[None]
    return x + self.d["t"]


def of_attribute(self, x):
    if self.state is None:
        table = torch.arange(12.0).reshape(4, 3)
        self.state = table[:2]
        self.hist = [table]
    return x + self.state + self.hist[0][2]


@pytest.mark.parametrize("forward", [of_function, of_global, of_module, of_attribute])
def test_known_tables_are_carried_over_to_other_wrappers_and_to_the_host(forward):
    """Train, then evaluate: the second trace, and eager torch, use the first one's table."""
    cached_table.cache_clear()
    TABLES.clear()
    made = model(forward)
    x = torch.rand(2, 3)
    first, second = wrapped(made)(x), wrapped(made)(x)
    eager = made(x)
    cached_table.cache_clear()
    TABLES.clear()
    expected = model(forward)(x)
    for found in (first, second, eager):
        torch.testing.assert_close(found, expected)


def test_a_table_that_a_training_wrapper_cached_serves_its_inference_wrapper():
    class Training(Model):
        def forward(self, x):
            if "t" not in self.d:
                self.d["t"] = torch.arange(3.0) + 1
            y = self.linear(x) * self.d["t"]
            return y, poptorch.identity_loss((y**2).mean(), "none")

    made = Training()
    options = poptorch.Options().showCompilationProgressBar(False)
    optimiser = poptorch.optim.SGD(made.parameters(), lr=0.1)
    training = poptorch.trainingModel(made, options, optimiser)
    inference = poptorch.inferenceModel(made)
    x = torch.rand(2, 3)
    training(x)
    torch.testing.assert_close(inference(x)[0], (made.linear(x) * (torch.arange(3.0) + 1)).detach())


def test_a_saved_model_warns_about_what_it_does_not_write(tmp_path, caplog):
    wrapper = wrapped(model(parts))
    x = torch.rand(2, 3)
    expected = wrapper(x)
    wrapper.save(tmp_path / "m.poptorch", export_model=False)
    assert "Runs of the loaded model do not write it" in caplog.text
    again = wrapped(model(parts))
    again.load_state_dict(wrapper.model.state_dict())
    again.loadExecutable(tmp_path / "m.poptorch")
    torch.testing.assert_close(again(x), expected)


def test_a_number_that_is_returned_is_refused():
    def forward(self, x):
        self.n += 1
        return x + 1, self.n

    with pytest.raises(poptorch.Error, match=r"an earlier call wrote to self.n"):
        wrapped(model(forward))(torch.ones(2, 3))
