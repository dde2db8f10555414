"""Defines models that tests export here and load in another process, which imports this module."""

import dataclasses
import sys
from collections import namedtuple
from pathlib import Path

import poptorch
import torch

Pair = namedtuple("Pair", "y loss")


@dataclasses.dataclass
class Held:
    y: torch.Tensor
    loss: torch.Tensor
    kind: str = "held"


class Net(torch.nn.Module):
    """Has statistics, an int64 buffer, random numbers, function attributes, structured results."""

    FORMS = {
        "tuple": lambda y, loss: (y, loss),
        "dict": lambda y, loss: {"y": y, "more": [loss]},
        "named": Pair,
        "data": Held,
    }

    def __init__(self, form="tuple", dropout=0.5):
        super().__init__()
        self.form = form
        self.first = torch.nn.Linear(4, 8)
        self.norm = torch.nn.BatchNorm1d(8)
        self.dropout = torch.nn.Dropout(dropout)
        self.last = torch.nn.Linear(8, 2)
        self.act, self.pool, self.names = torch.tanh, torch.nn.functional.gelu, frozenset("ab")

    def forward(self, x, target):
        y = self.last(self.dropout(self.pool(self.act(self.norm(self.first(x))))))
        return self.FORMS[self.form](y, torch.nn.functional.mse_loss(y, target))


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.two.weight = self.one.weight
        self.out = torch.nn.Linear(4, 2)

    def forward(self, x, target):
        y = self.out(self.two(torch.relu(self.one(x))))
        return y, torch.nn.functional.mse_loss(y, target)


class Blocks(torch.nn.Module):
    """One layer per block, each on a separate IPU."""

    def __init__(self):
        super().__init__()
        self.first = poptorch.BeginBlock(torch.nn.Linear(4, 8), "first", ipu_id=0)
        self.last = torch.nn.Linear(8, 2)

    def forward(self, x, target):
        x = torch.relu(self.first(x))
        with poptorch.Block("last", ipu_id=1):
            y = self.last(x)
            return y, torch.nn.functional.mse_loss(y, target)


class Product(torch.nn.Module):
    """A weight for each of two replicas."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(2, 4, 2))

    def forward(self, x, target):
        y = x @ self.weight
        return y, torch.nn.functional.mse_loss(y, target)


class Half(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 2).half()

    def forward(self, x, target):
        y = self.fc(x.half())
        return y, torch.nn.functional.mse_loss(y, target.half())


def bert():
    """A small model of a library; its results are a dict with attributes."""
    from transformers import BertConfig, BertForSequenceClassification

    class Small(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = BertForSequenceClassification(
                BertConfig(vocab_size=20, hidden_size=8, num_hidden_layers=1, intermediate_size=8,
                           num_attention_heads=2, max_position_embeddings=8)
            )  # fmt: skip

        def forward(self, x, target):
            ids = (x.abs() * 5).long()
            return self.bert(ids, labels=(target[:, 0] > 0).long())

    Small.__qualname__ = "Small"
    globals()["Small"] = Small
    return Small()


def strategy(name, options):
    if name == "sharded":
        options.setExecutionStrategy(poptorch.ShardedExecution())
    elif name == "phased":
        phases = [poptorch.Phase(block) for block in ("first", "last")]
        options.setExecutionStrategy(poptorch.SerialPhasedExecution(*phases))
    elif name == "pipelined":
        options.Training.gradientAccumulation(4)
    elif name == "replicas":
        options.replicationFactor(2).broadcastBuffers(False)


# Name → model, optimiser, strategy.
CASES = {
    "sgd": (Net, lambda p: poptorch.optim.SGD(p, lr=0.1, momentum=0.9), ""),
    "adam": (lambda: Net("dict"), lambda p: poptorch.optim.Adam(p, lr=0.01), ""),
    "lamb": (lambda: Net("named"), lambda p: poptorch.optim.LAMB(p, lr=0.01), ""),
    "torch_adam": (lambda: Net("data"), lambda p: torch.optim.Adam(p, lr=0.01), ""),
    "torch_sgd": (Tied, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.5), ""),
    "half": (Half, lambda p: poptorch.optim.SGD(p, lr=0.1, loss_scaling=8.0), ""),
    "sharded": (Blocks, lambda p: poptorch.optim.AdamW(p, lr=0.01), "sharded"),
    "pipelined": (Blocks, lambda p: poptorch.optim.SGD(p, lr=0.1, momentum=0.9), "pipelined"),
    "phased": (Blocks, lambda p: poptorch.optim.Adam(p, lr=0.01), "phased"),
    "replicas": (Net, lambda p: poptorch.optim.SGD(p, lr=0.1, momentum=0.9), "replicas"),
    "grouped": (Product, lambda p: poptorch.optim.SGD(p, lr=0.1, momentum=0.9), "replicas"),
    "bert": (bert, lambda p: poptorch.optim.AdamW(p, lr=0.01), ""),
}


def wrapped(name):
    """A training wrapper of a case."""
    torch.manual_seed(3)
    make, optimiser, kind = CASES[name]
    model = make()
    options = poptorch.Options().showCompilationProgressBar(False).randomSeed(5)
    strategy(kind, options)
    executor = poptorch.trainingModel(model.train(), options, optimiser(model.parameters()))
    if name == "grouped":
        one = poptorch.VariableRetrievalMode.OnePerGroup
        executor.weight.replicaGrouping(poptorch.enums.CommGroupType.NoGrouping, 1, one)
    return executor


def batch(step, executor):
    """Returns the inputs of a step, as many as the options combine into one."""
    options = executor.options
    rows = 4 * options.replication_factor * options.Training.gradient_accumulation
    generator = torch.Generator().manual_seed(step)
    return torch.randn(rows, 4, generator=generator), torch.randn(rows, 2, generator=generator)


def run(executor, steps):
    """Returns the last results, and the weights after them."""
    for step in steps:
        results = executor(*batch(step, executor))
    return results, {k: v.clone() for k, v in executor.model.state_dict().items()}


def main(folder):
    """Continues with every file of the folder, and writes the results."""
    bert()
    poptorch.add_safe_globals([sys.modules["transformers"].BertConfig])
    found = {}
    for name in CASES:
        executor = poptorch.load(f"{folder}/{name}.poptorch")
        results, weights = run(executor, range(2, 4))
        found[name] = (repr(results), tensors(results), weights)
    torch.save(found, sys.argv[2])


def tensors(results):
    """Returns the tensors of results of any structure."""
    if isinstance(results, torch.Tensor):
        return [results]
    if dataclasses.is_dataclass(results):
        results = list(vars(results).values())
    items = results.values() if isinstance(results, dict) else results
    nested = isinstance(results, (dict, list, tuple))
    return [tensor for item in items for tensor in tensors(item)] if nested else []


if __name__ == "__main__":
    sys.modules["exported_models"] = sys.modules["__main__"]
    sys.path.insert(0, str(Path(__file__).parent))
    main(sys.argv[1])
