"""Trains small models over all replicas, and writes the results, bit by bit.

`trained_program.py FOLDER REPLICAS STEPS VARIANT …` writes FOLDER/<instance>.pt, by variant:
outputs of the last step, weights and optimiser state. Without a launcher one process has all
replicas.
"""

import sys

import popdist
import popdist.poptorch
import poptorch
import torch
import variants

ROWS, WIDTH = 2, 8
PER_GROUP = poptorch.VariableRetrievalMode.OnePerGroup
PER_REPLICA = poptorch.VariableRetrievalMode.AllReplicas


class Network(torch.nn.Module):
    """Has layers; if `replicas` is given, also weights that groups of replicas share."""

    def __init__(self, words, replicas=0):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.rate = 0.25 if "dropout" in words else 0.0
        self.is_grouped = "grouped" in words
        if self.is_grouped:
            for name, values in (("near", 2), ("far", 2), ("own", replicas)):
                weight = torch.randn(values, WIDTH) / 4 + 1
                setattr(self, name, torch.nn.Parameter(weight))
        if "tied" in words:
            self.layers[1].weight = self.layers[0].weight
        if "frozen" in words:
            self.layers[2].weight.requires_grad_(False)
        if "unused" in words:
            self.unused = torch.nn.Linear(3, 3)  # without a gradient
        self.table = torch.nn.Embedding(16, WIDTH) if "embedded" in words else None
        if "pipelined" in words:
            for ipu in range(1, 4):
                poptorch.BeginBlock(self.layers[ipu], ipu_id=ipu)

    def forward(self, x, target):
        if self.table is not None:
            x = x + self.table((x[:, 0] * 4).int().abs().clamp(max=15))
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        mask = torch.nn.functional.dropout(torch.ones_like(x), self.rate)
        x = self.layers[-1](x * mask)
        if self.is_grouped:
            x = x * self.near * self.far + self.own
        return x, mask, torch.nn.functional.mse_loss(x.float(), target.float())


def group(wrapped, replicas):
    """Lets neighbours, or every other replica, share a weight; the third weight is not shared."""
    kinds = poptorch.CommGroupType
    wrapped.near.replicaGrouping(kinds.Consecutive, replicas // 2, PER_GROUP)
    wrapped.far.replicaGrouping(kinds.Orthogonal, replicas // 2, PER_GROUP)
    wrapped.own.replicaGrouping(kinds.NoGrouping, 1, PER_REPLICA)


def options_of(replicas):
    """Returns options of this process, and its number."""
    if popdist.isPopdistEnvSet():
        return popdist.poptorch.Options(), popdist.getInstanceIndex()
    return poptorch.Options().replicationFactor(replicas), 0


def wrapped_of(variant, replicas):
    """Returns a model before training, its wrapper and optimiser."""
    words = variant.split()
    torch.manual_seed(0)
    model = Network(words, replicas).to(variants.dtype_of(words))
    options, _ = options_of(replicas)
    variants.apply(words, options)
    optimiser = variants.optimiser_of(words, model.parameters())
    wrapped = poptorch.trainingModel(model, options, optimizer=optimiser)
    if model.is_grouped:
        group(wrapped, replicas)
    return model, wrapped, optimiser


def state_of(model, optimiser):
    """Returns weights, and the optimiser's state on the device."""
    state = optimiser.state_dict()["ipu_state"]
    return {
        **{name: value.clone() for name, value in model.state_dict().items()},
        **{f"optimiser {name}": value for name, value in state.items()},
    }


def trained(variant, replicas, steps):
    """Returns the results of some steps."""
    model, wrapped, optimiser = wrapped_of(variant, replicas)
    words = variant.split()
    rows = ROWS * variants.iterations_of(words) * variants.accumulation_of(words) * replicas
    for step in range(steps):
        batch = [torch.randn(rows, WIDTH, dtype=variants.dtype_of(words)) for _ in range(2)]
        given = [popdist.poptorch.local_rows(part, wrapped.options) for part in batch]
        outputs, masks, losses = wrapped(*given)
        if "stepped" in words and step % 5 == 4:
            optimiser.param_groups[0]["lr"] /= 2
            wrapped.setOptimizer(optimiser)
    found = {"outputs": outputs, "masks": masks, "losses": losses, **state_of(model, optimiser)}
    wrapped.destroy()
    return found


if __name__ == "__main__":
    folder, number, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if popdist.isPopdistEnvSet():
        popdist.init()
    found = {variant: trained(variant, number, steps) for variant in sys.argv[4:]}
    torch.save(found, f"{folder}/{options_of(number)[1]}.pt")
