"""Lists the workloads: W0 to W9, and one for each other kind of model; seeded weights and data.

`make("W3:bf16")` builds one, with model and data cast; `make("W4:inference")` leaves the training.
"""

from dataclasses import dataclass

import torch
from torch import nn

from benchmarks import models
from benchmarks.kinds.large import LARGE
from benchmarks.kinds.rows import KINDS
from benchmarks.workload import SGD, Workload, images, tokens

WEIGHT_SEED, DATA_SEED = 42, 7
DTYPES = {"": torch.float32, "fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

MLP = (784, 512, 512, 512, 10)
BERT_DATA = tokens(128, models.BertSmall.VOCABULARY, classes=2)

WORKLOADS = {
    "W0": Workload("Linear(8, 8)", lambda: models.Mlp(8, 8), images(8, classes=8), 1, SGD),
    "W1": Workload("MLP", lambda: models.Mlp(*MLP), images(784, classes=10), 8, SGD),
    "W2": Workload(
        "MLP, Adam",
        lambda: models.Mlp(*MLP),
        images(784, classes=10),
        8,
        ("Adam", {"lr": 1e-3, "eps": 1e-5}),
    ),
    "W3": Workload("CNN", models.DigitsCnn, images(1, 28, 28, classes=10), 16, SGD),
    "W4": Workload(
        "ResNet-18",
        models.ResNet18,
        images(3, 64, 64, classes=200),
        16,
        ("SGD", {"lr": 0.01, "momentum": 0.9}),
    ),
    "W5": Workload(
        "BERT-small", models.BertSmall, BERT_DATA, 8, ("AdamW", {"lr": 1e-4, "weight_decay": 0.01})
    ),
    "W6": Workload("BERT-small inference", models.BertSmall, BERT_DATA, 1, None),
    "W7": Workload(
        "MobileNetV2 inference", models.MobileNetV2, images(3, 224, 224, classes=1000), 1, None
    ),
    "W8": Workload("LSTM", models.LstmClassifier, images(64, 128, classes=10), 16, SGD),
    "W9": Workload(
        "GPT-2-mini",
        models.Gpt2Mini,
        tokens(256, models.Gpt2Mini.VOCABULARY),
        4,
        ("AdamW", {"lr": 1e-4}),
        items_per_sample=256,
    ),
}


@dataclass
class Instance:
    """A built workload: `model(*inputs)` returns the loss (training) or the logits (inference)."""

    row: Workload
    model: nn.Module
    dtype: torch.dtype
    training: bool

    def batches(self, count: int, seed: int = DATA_SEED) -> list[tuple]:
        """`count` different seeded batches of model arguments."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            drawn = [self.row.draw(self.row.batch) for _ in range(count)]
        arguments = None if self.training else -1  # the last one is the target
        return [tuple(self._cast(t) for t in batch[:arguments]) for batch in drawn]

    def optimiser(self, **changes) -> torch.optim.Optimizer:
        """The row's optimiser over the model's parameters, with arguments changed."""
        name, arguments = self.row.optimiser
        return getattr(torch.optim, name)(self.model.parameters(), **{**arguments, **changes})

    def _cast(self, tensor):
        return tensor.to(self.dtype) if tensor.is_floating_point() else tensor


def make(name: str) -> Instance:
    """Builds a workload by name, e.g. "W4", "W5:bf16" or "W5:inference:bf16"."""
    key, *variants = name.split(":")
    row = (WORKLOADS | KINDS | LARGE)[key]
    training = row.training and "inference" not in variants
    dtype = DTYPES[next((v for v in variants if v != "inference"), "")]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(WEIGHT_SEED)
        model = row.network()
    if training:
        model = models.WithLoss(model).train()
    else:
        model = model.eval()
    return Instance(row, model.to(dtype), dtype, training)
