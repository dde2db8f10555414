"""Values that depend on no input, state or random number are known while a model is traced."""

import poptorch
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def assigned(x):
    y = x.clone()
    y[torch.tensor([True, False, True, True])] = torch.arange(18.0).reshape(3, 6)
    return y


def counted(x):
    count = torch.tensor(0)
    while count < 3:
        x, count = x * 2, count + 1
    return x


def asserted(x):
    mask = torch.ones(3, dtype=torch.bool)
    assert mask.all() and not (~mask).any() and torch.equal(mask, mask.clone())
    return x + mask.sum().item()


def written(x):
    mask = torch.ones(4, dtype=torch.bool)
    mask[2] = False
    mask[0].logical_not_()
    return x[mask]


def listed(x):
    first, second = torch.tensor([1, 2]).tolist()
    return x * first + second + int(torch.arange(3).numpy().sum())


FUNCTIONS = {
    "mask": lambda x: x[torch.tensor([True, False, True, True])],
    "mask_of_bytes": lambda x: x[torch.tensor([1, 0, 1, 1], dtype=torch.uint8)],
    "mask_of_two_axes": lambda x: x[torch.arange(24).reshape(4, 6) % 5 == 0],
    "mask_and_numbers": lambda x: x[torch.tensor([True, False, True, True]), torch.arange(3)],
    "mask_behind": lambda x: x[:, torch.arange(6) > 2],
    "mask_of_nothing": lambda x: x[torch.zeros(4, dtype=torch.bool)],
    "assigned": assigned,
    "added": lambda x: x.index_put((torch.arange(4) > 1,), torch.ones(2, 6), accumulate=True),
    "masked_select": lambda x: x.masked_select(torch.arange(6) % 2 == 0),
    "nonzero": lambda x: x[torch.arange(4).remainder(2).nonzero().squeeze(1)],
    "where": lambda x: x[torch.where(torch.arange(4) > 1)],
    "argwhere": lambda x: x * torch.eye(3).argwhere().sum(),
    "unique": lambda x: x[:, torch.tensor([3, 1, 1]).unique()],
    "repeat_interleave": lambda x: x.repeat_interleave(torch.tensor([1, 2, 0, 3]), dim=0),
    "tensor_split": lambda x: x.tensor_split(torch.tensor([1, 3])),
    "tensor_split_in_parts": lambda x: x.tensor_split(torch.tensor(2), dim=1),
    "bincount": lambda x: x * torch.tensor([0, 3, 3]).bincount()[3],
    "item": lambda x: x * torch.linspace(0, 1, 5).mean().item(),
    "listed": listed,
    "asserted": asserted,
    "counted": counted,
    "written": written,
    "cov": lambda x: x.cov(),
    "cov_with_weights": lambda x: x.cov(fweights=torch.tensor([1, 2, 1, 1, 3, 1])),
    "corrcoef": lambda x: x.corrcoef(),
    "gaussian_nll": lambda x: nn.functional.gaussian_nll_loss(x, 2 * x, x.square() + 0.1),
}


def check(model, x):
    found, expected = poptorch.inferenceModel(model)(x), model(x)
    # Integers on the device have 32 bits.
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6, check_dtype=False)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    check(FUNCTIONS[name], torch.randn(4, 6))


@pytest.mark.parametrize("name", ["cov", "cov_with_weights", "corrcoef"])
def test_functions_of_complex_numbers(name):
    check(FUNCTIONS[name], torch.randn(4, 6, dtype=torch.complex64))


class Bounded(nn.Module):
    """Keeps a known value that torch cannot compute."""

    def __init__(self):
        super().__init__()
        self.tables = {}

    def forward(self, x):
        self.tables["bounded"] = torch.ones(3, dtype=torch.complex64).clamp(min=0)
        return x * 2


def test_a_known_value_that_cannot_be_computed():
    message = "clamp is not supported for complex types"
    with pytest.raises(RuntimeError, match=message):
        Bounded()(torch.ones(3))
    with pytest.raises(poptorch.Error, match=message) as caught:
        poptorch.inferenceModel(Bounded())(torch.ones(3))
    assert f"{__file__}:" in str(caught.value)
    assert "frame #" not in str(caught.value)


class Members(nn.Module):
    """Has attributes that are neither parameters nor buffers."""

    def __init__(self):
        super().__init__()
        self.sizes = torch.tensor([2, 4])
        self.mask = torch.tensor([True, False, True, True])

    def forward(self, x):
        return *x.split(self.sizes.tolist(), 1), x[self.mask], x[~self.mask]


def test_members():
    check(Members(), torch.randn(4, 6))


class Packed(nn.Module):
    """A recurrent layer over sequences of constant lengths."""

    def __init__(self, kind, lengths, **options):
        super().__init__()
        self.layer = kind(6, 5, **options)
        self.lengths = lengths
        self.first = options.get("batch_first", False)

    def forward(self, x):
        packed = pack_padded_sequence(x, self.lengths, self.first, enforce_sorted=False)
        y, state = self.layer(packed)
        y, lengths = pad_packed_sequence(y, self.first, padding_value=-1.0, total_length=5)
        return y, state, lengths


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("lengths", [[4, 3, 1], torch.tensor([1, 4, 2])], ids=["sorted", "mixed"])
@pytest.mark.parametrize("batch_first", [True, False])
def test_packed_sequences(kind, lengths, batch_first):
    model = Packed(kind, lengths, batch_first=batch_first, num_layers=2, bidirectional=True)
    check(model, torch.randn((3, 4, 6) if batch_first else (4, 3, 6)))


def test_packed_sequences_train_as_in_eager_mode():
    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.packed = Packed(nn.LSTM, torch.tensor([1, 4, 2]))

        def forward(self, x):
            y, _, _ = self.packed(x)
            return poptorch.identity_loss(y.square(), reduction="mean")

    model, x = Loss(), torch.randn(4, 3, 6)
    model(x).backward()
    expected = [p.detach() - 0.1 * p.grad for p in model.parameters()]
    wrapped = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    wrapped(x)
    for found, wanted in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(found.detach(), wanted, rtol=1e-5, atol=1e-6)


def test_batch_norms_that_average_all_batches():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(6, momentum=None)

        def forward(self, x):
            return poptorch.identity_loss(self.norm(x).square() * x, reduction="mean")

    model, eager = Model(), Model()
    wrapped = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    optimiser = torch.optim.SGD(eager.parameters(), lr=0.1)
    for x in torch.randn(3, 4, 6):
        optimiser.zero_grad()
        loss = eager(x)
        loss.backward()
        optimiser.step()
        torch.testing.assert_close(wrapped(x), loss.detach())
    torch.testing.assert_close(model.state_dict(), eager.state_dict())


def test_numbers_of_a_loop_differ_by_round():
    def model(x):
        number = torch.tensor(0)

        def body(x):
            nonlocal number
            number += 1
            return [x * number]

        return poptorch.for_loop(3, body, [x])[0]

    x = torch.randn(4, 6)
    torch.testing.assert_close(poptorch.inferenceModel(model)(x), x * 6)

    def asks(x):
        number = torch.tensor(0)

        def body(x):
            nonlocal number
            number += 1
            return [x * number.item()]

        return poptorch.for_loop(3, body, [x])[0]

    with pytest.raises(poptorch.Error, match="the value of a tensor is needed on the host"):
        poptorch.inferenceModel(asks)(x)


UNKNOWN = {
    "input": lambda x: x[x > 0],
    "random": lambda x: x[torch.rand(4) > 0.5],
    "through_a_constant": lambda x: x[torch.ones(4).logical_and(x[:, 0] > 0)],
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_depends_on_more_is_not_known(name):
    with pytest.raises(poptorch.Error, match="output shape is determined at runtime"):
        poptorch.inferenceModel(UNKNOWN[name])(torch.randn(4, 6))


def test_weights_and_buffers_are_not_known():
    norm = nn.BatchNorm1d(6)
    with pytest.raises(poptorch.Error, match="depends on an input, a weight or a random number"):
        poptorch.inferenceModel(Asking(norm))(torch.randn(4, 6))


class Kept(nn.Module):
    """Has a buffer of counts and a mask buffer."""

    def __init__(self, function):
        super().__init__()
        self.register_buffer("counts", torch.tensor([3, 1, 2, 1]))
        self.register_buffer("mask", torch.tensor([True, False, True, True]))
        self.function = function

    def forward(self, x):
        return self.function(self, x)


BY_BUFFERS = {
    "size": (lambda m, x: x[: int(m.counts[0] + 1)], "counts"),
    "question": (lambda m, x: x if m.counts.sum() > 2 else -x, "counts"),
    "mask": (lambda m, x: x[m.mask], "mask"),
    "mask_of_both": (lambda m, x: x[m.mask & (m.counts > 1)], "counts', 'mask"),
    "selected": (lambda m, x: torch.masked_select(x[:, 0], m.mask), "mask"),
    "repeated": (lambda m, x: x.repeat_interleave(m.counts, 0), "counts"),
    "nonzero": (lambda m, x: m.mask.nonzero(), "mask"),
    "lengths": (lambda m, x: pack_padded_sequence(x, m.counts, True, False).data, "counts"),
}


@pytest.mark.parametrize("name", BY_BUFFERS)
def test_buffers_that_are_constants_should_be_attributes(name):
    function, buffers = BY_BUFFERS[name]
    text = rf"It depends on '{buffers}': .* plain attribute \(self\.name = tensor, without"
    with pytest.raises(poptorch.Error, match=text):
        poptorch.inferenceModel(Kept(function))(torch.randn(4, 3, 2))


@pytest.mark.parametrize(
    "function", [lambda m, x: x[m.mask & (x[:, 0] > 0)], lambda m, x: x[x > 0]]
)
def test_what_follows_from_inputs_too_has_no_such_cure(function):
    with pytest.raises(poptorch.Error, match="at runtime") as error:
        poptorch.inferenceModel(Kept(function))(torch.randn(4, 6))
    assert "plain attribute" not in error.value.message


class Asking(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.norm = norm

    def forward(self, x):
        return x * self.norm.running_mean.sum().item()


def clamped(y):
    if not torch.isfinite(y).all():
        y = y.clamp(-10.0, 10.0)
    return y


def checked(y):
    assert not (y.isnan() | y.isinf()).any(), "unusual numbers"
    return y


def asked_for_the_item(y):
    return y if torch.isnan(y).any().item() is False else y * 0


FINITE = {"clamped": clamped, "checked": checked, "asked for the item": asked_for_the_item}


class Guarded(nn.Module):
    """Checks whether a layer's result is finite."""

    def __init__(self, ask):
        super().__init__()
        self.fc, self.ask = nn.Linear(6, 3), ask

    def forward(self, x):
        return poptorch.identity_loss(self.ask(self.fc(x)).square(), reduction="mean")


@pytest.mark.parametrize("name", FINITE)
def test_numbers_are_finite_where_forward_asks(name, micro_batches):
    model, x = Guarded(FINITE[name]), torch.randn(4 * micro_batches, 6)
    model(x).backward()
    expected = [p.detach() - 0.1 * p.grad for p in model.parameters()]
    wrapped = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    wrapped(x)
    for found, wanted in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(found.detach(), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", FINITE)
def test_a_run_ends_where_numbers_are_not_finite(name):
    wrapped = poptorch.inferenceModel(Guarded(FINITE[name]))
    x = torch.randn(4, 6)
    wrapped(x)
    x[2, 3] = float("nan")
    line = r"tests \(.*test_known_values.py:\d+\) whether numbers"
    with pytest.raises(poptorch.Error, match=line):
        wrapped(x)


def test_other_questions_about_unknown_values_are_refused():
    for question in (lambda y: (y > 0).all(), lambda y: y.isnan().any() or (y < 9).all()):
        with pytest.raises(poptorch.Error, match="is needed on the host"):
            poptorch.inferenceModel(lambda x, q=question: x if q(x) else -x)(torch.randn(4, 6))
