"""Runs collectives of every kind, group and dtype in wrapped models, in inference and with
gradients.

`collective_program.py FOLDER REPLICAS` writes FOLDER/<instance>.pt: the results of the replicas of
the instance.
"""

import itertools
import sys

import popdist
import popdist.poptorch
import poptorch
import poptorch.distributed as dist
import torch

GROUPS = {
    "all": dist.ReplicaGroup(),
    "neighbours": dist.ReplicaGroup(2),
    "apart": dist.ReplicaGroup(2, 0),
    "alone": dist.ReplicaGroup(1),
}
DTYPES = (torch.float32, torch.float16, torch.int32)
ROWS = 8  # of a replica


def kinds(x, group):
    """Yields name and result of each kind."""
    for op in ("sum", "min", "max", "prod", *(["mean"] if x.is_floating_point() else [])):
        yield op, dist.all_reduce(x, op, group)
        yield f"scattered {op}", dist.reduce_scatter(x, op, 0, group)
    yield "gathered", dist.all_gather(x, 1, group)
    yield "turned", dist.all_to_all(x, 0, 1, group)
    yield "rank", dist.group_rank(group).reshape(1, 1)


class Collectives(torch.nn.Module):
    """Returns results by name; each has the rows of replica after replica."""

    def forward(self, x):
        found = {}
        for (name, group), dtype in itertools.product(GROUPS.items(), DTYPES):
            for kind, made in kinds(x.to(dtype), group):
                found[f"{kind} {name} {dtype}"] = made
        return found


class Trained(torch.nn.Module):
    """Uses batch statistics of neighbours, and weights that are gathered from parts."""

    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x):
        h = self.fc(x)
        mean = dist.all_reduce(h.mean(0), "mean", GROUPS["neighbours"])
        h = dist.all_gather(h - mean, 0, GROUPS["apart"])
        return h, poptorch.identity_loss(h.square() + dist.all_reduce(h, "max"), "mean")


def options_of(replicas):
    if popdist.isPopdistEnvSet():
        return popdist.poptorch.Options()
    return poptorch.Options().replicationFactor(replicas)


def own_rows(options, replicas, seed):
    given = torch.randn(ROWS * replicas, 4, generator=torch.Generator().manual_seed(seed)) * 3
    return popdist.poptorch.local_rows(given, options)


if __name__ == "__main__":
    folder, replicas = sys.argv[1], int(sys.argv[2])
    options = options_of(replicas)
    x = own_rows(options, replicas, 0)
    found = poptorch.inferenceModel(Collectives(), options)(x)
    options = options_of(replicas).outputMode(poptorch.OutputMode.All)
    torch.manual_seed(0)
    model = Trained()
    wrapped = poptorch.trainingModel(
        model, options, poptorch.optim.SGD(model.parameters(), lr=0.01)
    )
    for step in range(3):
        outputs, losses = wrapped(own_rows(options, replicas, step))
    found |= {"trained": outputs, "losses": losses.reshape(-1, 1)}
    found |= {f"weight {name}": value.clone() for name, value in model.state_dict().items()}
    torch.save(found, f"{folder}/{popdist.getInstanceIndex()}.pt")
