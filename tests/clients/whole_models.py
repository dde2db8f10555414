"""Whole models other than transformers, by name.

Each has a function that returns the model, as (scores, loss) of the tensors of a batch, and the
batch.
"""

import generative_models
import learning_models
import poptorch
import structured_models
import torch
from sequence_models import DLRM, LSTMLanguageModel, WaveNet
from torch import nn
from vision_models import UNet, efficientnet_b0, mobilenet_v2, resnet50


class Supervised(nn.Module):
    """Returns scores of all inputs but the last; the loss compares them with the next inputs."""

    def __init__(self, model, loss=nn.functional.cross_entropy):
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, *batch):
        scores = self.model(*batch[:-1])
        return scores, poptorch.identity_loss(self.loss(scores, batch[-1]), reduction="none")


def images(kind, size=32):
    def make():
        return Supervised(kind()), (torch.randn(4, 3, size, size), torch.randint(5, (4,)))

    return make


def unet():
    return Supervised(UNet()), (torch.randn(2, 3, 16, 16), torch.randint(3, (2, 16, 16)))


def wavenet():
    sound = torch.randint(32, (2, 25))
    return Supervised(WaveNet()), (sound[:, :-1].contiguous(), sound[:, 1:].contiguous())


def lstm():
    words = torch.randint(40, (3, 9))
    return Supervised(LSTMLanguageModel()), (words[:, :-1].contiguous(), words[:, 1:].contiguous())


def dlrm():
    ids = torch.stack([torch.randint(n, (6, 2)) for n in (20, 30, 7)], 1)
    clicks = torch.randint(2, (6,)).float()
    loss = nn.functional.binary_cross_entropy_with_logits
    return Supervised(DLRM(), loss), (torch.randn(6, 5), ids, clicks)


MODELS = {
    "U-Net": unet,
    "ResNet-50": images(resnet50),
    "MobileNetV2": images(mobilenet_v2),
    "EfficientNet-B0": images(efficientnet_b0, 64),
    "WaveNet": wavenet,
    "LSTM language model": lstm,
    "DLRM": dlrm,
    **generative_models.MODELS,
    **structured_models.MODELS,
    **learning_models.MODELS,
}

# Their norms divide by the deviations of a few values, and amplify rounding:
# docs/explain/rounding.md has the measurement. Of ten steps from equal weights, the given
# number may differ at kinks.
ROUNDING_IS_AMPLIFIED = {"ResNet-50": 3, "MobileNetV2": 3, "EfficientNet-B0": 0}
