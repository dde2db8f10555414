"""ctc_loss and other losses that are one generic op train as in eager mode."""

import copy

import poptorch
import pytest
import torch
import torch.nn.functional as F
from torch import nn

TARGETS = torch.tensor([[2, 3, 0], [4, 3, 2]])
LENGTHS = {"lists": ([6, 6], [2, 3]), "tensors": (torch.tensor([6, 5]), torch.tensor([2, 3]))}


class Recogniser(nn.Module):
    def __init__(self, lengths, **keywords):
        super().__init__()
        self.fc = nn.Linear(4, 5)
        self.loss = nn.CTCLoss(**keywords)
        self.lengths = lengths

    def forward(self, x, targets, *lengths):
        scores = self.fc(x).log_softmax(-1)
        return scores, self.loss(scores, targets, *(lengths or self.lengths))


class Margin(nn.Module):
    def __init__(self, loss):
        super().__init__()
        self.fc = nn.Linear(4, 5)
        self.loss = loss

    def forward(self, x, target):
        y = self.fc(x)
        return y, self.loss(y, target)


def compare(model, *inputs):
    """Runs two steps and compares losses and weights with eager torch."""
    eager = copy.deepcopy(model)
    wrapped = poptorch.trainingModel(
        model, optimizer=poptorch.optim.SGD(model.parameters(), lr=0.1)
    )
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        loss = eager(*inputs)[1]
        loss.backward()
        optimizer.step()
        torch.testing.assert_close(wrapped(*inputs)[1], loss.detach())
    torch.testing.assert_close(model.fc.weight.detach(), eager.fc.weight.detach())


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("kind", LENGTHS)
def test_ctc_loss_is_a_loss(kind, reduction):
    torch.manual_seed(3)
    keywords = {"blank": 1, "zero_infinity": True, "reduction": reduction}
    lengths = LENGTHS[kind] if kind == "tensors" else ()
    compare(Recogniser(LENGTHS[kind], **keywords), torch.randn(6, 2, 4), TARGETS, *lengths)


def test_ctc_losses_of_each_sequence_are_refused():
    wrapped = poptorch.trainingModel(Recogniser(LENGTHS["lists"], reduction="none"))
    text = 'CTCLoss with reduction="none" is currently not supported'
    with pytest.raises(poptorch.Error, match=text):
        wrapped(torch.randn(6, 2, 4), TARGETS)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_margin_losses(reduction):
    torch.manual_seed(3)
    x = torch.randn(2, 4)
    compare(Margin(nn.MultiMarginLoss(reduction=reduction)), x, torch.tensor([1, 4]))
    several = torch.tensor([[3, 0, -1, 1, 2], [1, -1, 0, 0, 0]])
    compare(Margin(nn.MultiLabelMarginLoss(reduction=reduction)), x, several)


@pytest.mark.parametrize("second", [F.nll_loss, F.cross_entropy])
def test_equal_losses_count_each(second):
    def both(y, t):
        return F.nll_loss(y, t) + 5 * second(y, t)

    x, target = torch.randn(2, 4), torch.tensor([1, 4])
    with pytest.raises(poptorch.Error, match="Multiple independent losses found in graph"):
        poptorch.trainingModel(Margin(both))(x, target)
    compare(Margin(lambda y, t: poptorch.identity_loss(both(y, t), "none")), x, target)


FORMS = {
    "one after the other": (torch.tensor([2, 3, 4, 3, 2]), *LENGTHS["tensors"]),
    "one after the other, lists": (torch.tensor([2, 3, 4, 3, 2]), *LENGTHS["lists"]),
    "too short": (TARGETS, torch.tensor([1, 6]), torch.tensor([2, 3])),
    "int32": (TARGETS.int(), torch.tensor([6, 5]).int(), torch.tensor([2, 3]).int()),
}


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("form", FORMS)
def test_forms_of_targets_and_lengths(form, reduction):
    torch.manual_seed(3)
    targets, *lengths = FORMS[form]
    keywords = {"blank": 1, "zero_infinity": form == "too short", "reduction": reduction}
    listed = isinstance(lengths[0], list)
    model = Recogniser(lengths if listed else (), **keywords)
    compare(model, torch.randn(6, 2, 4), targets, *([] if listed else lengths))


def test_one_sequence_without_a_batch():
    torch.manual_seed(3)
    lengths = torch.tensor(6), torch.tensor(2)
    compare(Recogniser((), reduction="sum"), torch.randn(6, 4), torch.tensor([2, 3]), *lengths)


def test_halves_are_summed_in_float32():
    """A loss trains in float16 although torch's kernel does not accept it."""
    torch.manual_seed(3)
    x = torch.randn(6, 2, 4)
    model = Recogniser(LENGTHS["lists"]).half()
    eager = copy.deepcopy(model).float()
    eager(x, TARGETS)[1].backward()
    expected = eager.fc.weight.detach() - 0.1 * eager.fc.weight.grad
    wrapped = poptorch.trainingModel(
        model, optimizer=poptorch.optim.SGD(model.parameters(), lr=0.1)
    )
    _, loss = wrapped(x.half(), TARGETS)
    assert loss.dtype == torch.float16
    torch.testing.assert_close(loss.float(), eager(x, TARGETS)[1].detach(), rtol=2e-3, atol=2e-3)
    torch.testing.assert_close(model.fc.weight.detach().float(), expected, rtol=2e-3, atol=2e-3)
