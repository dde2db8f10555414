"""Learns a knowledge graph whose entities are spread over four replicas, with collectives."""

import poptorch
import torch
from poptorch import distributed
from torch import nn

SIDE, SIZE, REPLICAS = 12, 16, 4
ENTITIES = SIDE * SIDE
STEPS = {"right": (1, 0), "down": (0, 1), "two right": (2, 0), "down and right": (1, 1)}


def triples():
    """Returns (head, relation, tail) of a square of entities, [any, 3]."""
    return torch.tensor([
        (x + SIDE * y, relation, x + dx + SIDE * (y + dy))
        for relation, (dx, dy) in enumerate(STEPS.values())
        for x in range(SIDE - dx)
        for y in range(SIDE - dy)
    ], dtype=torch.int32)  # fmt: skip


class TransE(nn.Module):
    """Places entities so that head + relation is near the tail. Each replica has a shard."""

    def __init__(self):
        super().__init__()
        self.entities = nn.Parameter(torch.randn(REPLICAS, ENTITIES // REPLICAS, SIZE) * 0.1)
        self.relations = nn.Parameter(torch.randn(len(STEPS), SIZE) * 0.1)

    def forward(self, rows):
        head, relation, tail = rows.unbind(1)
        every = distributed.all_gather(self.entities[None]).reshape(-1, SIZE)
        guess = every[head] + self.relations[relation]
        scores = -(guess[:, None] - every).abs().sum(-1)  # against all entities
        loss = nn.functional.cross_entropy(scores, tail.long()) / REPLICAS
        right = distributed.all_reduce((scores.argmax(1) == tail).sum())
        return right, distributed.all_reduce(loss.detach()), poptorch.identity_loss(loss, "none")


def main():
    torch.manual_seed(0)
    model = TransE()
    options = poptorch.Options().replicationFactor(REPLICAS).showCompilationProgressBar(False)
    options.Training.accumulationAndReplicationReductionType(poptorch.ReductionType.Sum)
    training = poptorch.trainingModel(model, options, torch.optim.Adam(model.parameters(), lr=0.02))
    training.entities.replicaGrouping(
        poptorch.CommGroupType.NoGrouping, 1, poptorch.VariableRetrievalMode.OnePerGroup
    )
    rows = triples()
    rows = rows[torch.randperm(len(rows))][: len(rows) // REPLICAS * REPLICAS]
    for epoch in range(151):
        right, loss, _ = training(rows)
        if epoch % 50 == 0:
            print(f"epoch {epoch}: loss {loss[0]:.3f}, {right[0]} of {len(rows)} tails are nearest")
    held = training.report()["ipus"][0]["weight_bytes"]
    whole = sum(p.numel() for p in model.parameters()) * 4
    share = right[0] / len(rows)
    print(f"{share:.0%} of the tails are right; a replica has {held} of {whole} bytes")


if __name__ == "__main__":
    main()
