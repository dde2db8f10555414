"""TransE with its entities spread over replicas: a knowledge graph's triples (head, relation, tail)
as head + relation ≈ tail.

Entity e is row e // shards of shard e % shards. A triple is computed where its head is; tails come
by all_to_all, the entities to compare with by all_gather. With more replicas than shards, several
hold the same shards and share the triples.
"""

from dataclasses import dataclass

import poptorch
import torch
from poptorch import distributed
from poptorch.distributed import ReplicaGroup


@dataclass(frozen=True)
class Plan:
    entities: int
    relations: int
    size: int = 16
    replicas: int = 4
    shards: int = 4
    slots: int = 8  # triples of a head's and a tail's shard in a step
    negatives: int = 4  # entities of each shard that all triples of a step are compared with
    margin: float = 4.0
    penalty: float = 0.01

    @property
    def group(self) -> ReplicaGroup:
        """The replicas that hold all shards together."""
        return ReplicaGroup(self.shards)


def spread(table: torch.Tensor, shards: int) -> torch.Tensor:
    """[entities, size] → [shards, entities / shards, size]."""
    return table.unflatten(0, (-1, shards)).transpose(0, 1).contiguous()


def gathered(shards: torch.Tensor) -> torch.Tensor:
    """The opposite of spread."""
    return shards.transpose(0, 1).flatten(0, 1)


class Embedding(torch.nn.Module):
    """What a replica has of the entities, and all relations."""

    def __init__(self, plan: Plan, entities: torch.Tensor, relations: torch.Tensor) -> None:
        super().__init__()
        self.plan = plan
        self.entities = torch.nn.Parameter(spread(entities, plan.shards))
        self.relations = torch.nn.Parameter(relations.clone())

    def looked_up(self, head, relation, tail):
        """head + relation and tail, [shards, slots, size] each: a row is of one tail's shard.

        tail: of row i the tails that replica i of the group asks this one for.
        """
        tails = distributed.all_to_all(self.entities[tail], group=self.plan.group)
        return self.entities[head] + self.relations[relation], tails


class Training(Embedding):
    def forward(self, head, relation, tail, is_triple, negative):
        query, tails = self.looked_up(head, relation, tail)
        others = distributed.all_gather(self.entities[negative], group=self.plan.group)
        losses = margin_losses(self.plan, query, tails, others)
        # Losses of all replicas add up to that of the step.
        triples = distributed.all_reduce(is_triple.sum())
        norm = distributed.all_reduce(self.entities[negative].square().sum()).sqrt()
        loss = (losses * is_triple).sum() / triples + self.plan.penalty * norm / self.plan.replicas
        whole = distributed.all_reduce(loss.detach())
        return whole, poptorch.identity_loss(loss, "sum")


class Ranking(Embedding):
    """Of each triple, how many entities are as near to head + relation as the tail, or nearer."""

    def forward(self, head, relation, tail):
        query, tails = self.looked_up(head, relation, tail)
        distance = (query - tails).abs().sum(-1).flatten()
        queries = distributed.all_gather(query.flatten(0, 1), group=self.plan.group)
        limits = distributed.all_gather(distance, group=self.plan.group)
        found = (queries[:, None] - self.entities).abs().sum(-1) <= limits[:, None] + 1e-4
        ranks = distributed.reduce_scatter(found.sum(1).int(), group=self.plan.group)
        return ranks.reshape(head.shape)


def margin_losses(plan, query, tails, others):
    """Each triple's loss: its distance is small, and others' are large, the nearest first of all.

    query, tails: [..., size]; others: [negatives, size]. Gives [...].
    """
    near = (query - tails).abs().sum(-1)
    far = (query[..., None, :] - others).abs().sum(-1)
    weights = torch.softmax(-far.detach(), -1)
    softplus = torch.nn.functional.softplus
    return softplus(near - plan.margin) + (weights * softplus(plan.margin - far)).sum(-1)


def place(plan: Plan, triples: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """head, relation, tail, whether there is a triple: [replicas · shards, slots] each.

    triples: [any, 3], which the groups of replicas take in turn. ValueError: the slots do not do.
    """
    shape = (plan.replicas, plan.shards, plan.slots)
    head, relation, tail = torch.zeros(3, *shape, dtype=torch.int)
    is_triple = torch.zeros(shape)
    used = torch.zeros(shape[:2], dtype=torch.int)
    for number, (h, r, t) in enumerate(triples.tolist()):
        first = number % (plan.replicas // plan.shards) * plan.shards
        own, other = h % plan.shards, t % plan.shards
        slot = int(used[first + own, other])
        if slot == plan.slots:
            raise ValueError(f"More than {plan.slots} triples from shard {own} to {other}.")
        used[first + own, other] += 1
        head[first + own, other, slot] = h // plan.shards
        relation[first + own, other, slot] = r
        tail[first + other, own, slot] = t // plan.shards
        is_triple[first + own, other, slot] = 1
    return tuple(part.flatten(0, 1) for part in (head, relation, tail, is_triple))


def options_of(plan: Plan) -> poptorch.Options:
    options = poptorch.Options().replicationFactor(plan.replicas)
    options.showCompilationProgressBar(False)
    options.Training.accumulationAndReplicationReductionType(poptorch.ReductionType.Sum)
    return options


def wrapped(model: Embedding, optimiser: "torch.optim.Optimizer | None" = None):
    """The model for its replicas: those that hold one shard are as many as groups hold all."""
    options = options_of(model.plan)
    if optimiser is None:
        made = poptorch.inferenceModel(model, options)
    else:
        made = poptorch.trainingModel(model, options, optimiser)
    made.entities.replicaGrouping(
        poptorch.CommGroupType.Orthogonal,
        model.plan.replicas // model.plan.shards,
        poptorch.VariableRetrievalMode.OnePerGroup,
    )
    return made


def grid(width: int) -> torch.Tensor:
    """Triples of a square of width² entities; relations: right, down, two right, down and right."""
    steps = [(1, 0), (0, 1), (2, 0), (1, 1)]
    return torch.tensor(
        [
            (x + width * y, relation, x + dx + width * (y + dy))
            for y in range(width)
            for x in range(width)
            for relation, (dx, dy) in enumerate(steps)
            if x + dx < width and y + dy < width
        ]
    )
