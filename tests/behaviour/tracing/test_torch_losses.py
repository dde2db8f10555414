"""Every loss of torch.nn can train a model, and trains it as in eager torch."""

import copy

import poptorch
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.modules import loss

X = torch.randn(4, 5)
CLASSES = torch.tensor([0, 1, 2, 3])
# Arguments beside the model's output.
TARGETS = {
    "L1Loss": (X,),
    "NLLLoss": (CLASSES,),
    "PoissonNLLLoss": (X.abs(),),
    "GaussianNLLLoss": (X, torch.rand(4, 5) + 0.5),
    "KLDivLoss": (X.softmax(1),),
    "MSELoss": (X,),
    "BCELoss": (torch.rand(4, 5),),
    "BCEWithLogitsLoss": (torch.rand(4, 5),),
    "HingeEmbeddingLoss": (X.sign(),),
    "MultiLabelMarginLoss": (torch.tensor([[3, 0, -1, 1, 1]] * 4),),
    "SmoothL1Loss": (X,),
    "HuberLoss": (X,),
    "SoftMarginLoss": (X.sign(),),
    "CrossEntropyLoss": (CLASSES,),
    "MultiLabelSoftMarginLoss": ((X > 0).float(),),
    "CosineEmbeddingLoss": (X, torch.ones(4)),
    "MarginRankingLoss": (X, X.sign()),
    "MultiMarginLoss": (CLASSES,),
    "TripletMarginLoss": (X, X + 1),
    "TripletMarginWithDistanceLoss": (X, X + 1),
    "LinearCrossEntropyLoss": (CLASSES,),
}
# CTCLoss has other shapes (test_ctc_loss.py); NLLLoss2d is another name of NLLLoss.
ELSEWHERE = {"CTCLoss", "NLLLoss2d"}


# Losses that torch composes of several operators.
COMPOSED = {
    "KLDivLoss of a batch": nn.KLDivLoss(reduction="batchmean"),
    "kl_div of a batch": lambda y, x: F.kl_div(y, x, None, None, "batchmean", log_target=True),
    "weighted mse_loss": lambda y, x: F.mse_loss(y, x, weight=x + 1),
    "weighted l1_loss": lambda y, x: F.l1_loss(y, x, weight=x + 1),
    "weighted huber_loss": lambda y, x: F.huber_loss(y, x, delta=0.5, weight=x + 1),
}


class Model(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.fc = nn.Linear(5, 5)
        sizes = (5, 4) if name == "LinearCrossEntropyLoss" else ()
        self.loss = COMPOSED[name] if name in COMPOSED else getattr(nn, name)(*sizes)
        self.is_probability = name == "BCELoss"

    def forward(self, x, *targets):
        y = self.fc(x)
        if self.is_probability:
            y = y.sigmoid()
        return y, self.loss(y, *targets)


def test_all_are_tried():
    assert set(loss.__all__) - ELSEWHERE == set(TARGETS)


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("name", [*TARGETS, *COMPOSED])
def test_a_model_is_trained_by(name):
    model, x, targets = Model(name), torch.randn(4, 5), TARGETS.get(name, (X.softmax(1),))
    eager = copy.deepcopy(model)
    steps = torch.optim.SGD(eager.parameters(), lr=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    wrapped = poptorch.trainingModel(model, optimizer=optimizer)
    for _ in range(3):
        steps.zero_grad()
        expected = eager(x, *targets)[1]
        expected.backward()
        steps.step()
        found = wrapped(x, *targets)[1]
        torch.testing.assert_close(found, expected.detach())
    torch.testing.assert_close(model.state_dict(), eager.state_dict())


@pytest.mark.parametrize("batched", [True, False])
def test_the_adaptive_softmax_trains_a_model(batched):
    x, classes = torch.randn(4, 6), torch.tensor([0, 4, 7, 9])
    model = nn.AdaptiveLogSoftmaxWithLoss(6, 10, [3, 6], div_value=2.0, head_bias=True)
    inputs = (x, classes) if batched else (x[0], classes[1])
    eager = copy.deepcopy(model)
    output, expected = eager(*inputs)
    expected.backward()
    torch.optim.SGD(eager.parameters(), lr=0.1).step()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = poptorch.trainingModel(model, optimizer=optimizer)(*inputs)
    torch.testing.assert_close(tuple(found), (output.detach(), expected.detach()))
    torch.testing.assert_close(model.state_dict(), eager.state_dict())
