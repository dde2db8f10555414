"""TransE on a knowledge graph, with its entities spread over replicas.

A triple (head, relation, tail) is modelled as head + relation ≈ tail. Entity e is row e // shards
of shard e % shards. A triple is computed on the replica that has its head; all_to_all brings the
tails, all_gather the entities to compare with. With more replicas than shards, several replicas
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
    slots: int = 8  # triples per step, from the head's shard to the tail's
    negatives: int = 4  # entities of each shard to which all triples of a step are compared
    margin: float = 4.0
    penalty: float = 0.01

    @property
    def group(self) -> ReplicaGroup:
        """Returns the group of replicas that together hold all shards."""
        return ReplicaGroup(self.shards)


def spread(table: torch.Tensor, shards: int) -> torch.Tensor:
    """Reshapes [entities, size] to [shards, entities / shards, size]."""
    return table.unflatten(0, (-1, shards)).transpose(0, 1).contiguous()


def gathered(shards: torch.Tensor) -> torch.Tensor:
    """Undoes spread()."""
    return shards.transpose(0, 1).flatten(0, 1)


class Embedding(torch.nn.Module):
    """Has a replica's share of the entities, and all relations."""

    def __init__(self, plan: Plan, entities: torch.Tensor, relations: torch.Tensor) -> None:
        super().__init__()
        self.plan = plan
        self.entities = torch.nn.Parameter(spread(entities, plan.shards))
        self.relations = torch.nn.Parameter(relations.clone())

    def looked_up(self, head, relation, tail):
        """Returns head + relation and tail, [shards, slots, size] each; a row has the tails of one
        shard.

        tail: row i has the tails that replica i of the group requests from this one.
        """
        tails = distributed.all_to_all(self.entities[tail], group=self.plan.group)
        return self.entities[head] + self.relations[relation], tails


class Training(Embedding):
    def forward(self, head, relation, tail, is_triple, negative):
        query, tails = self.looked_up(head, relation, tail)
        others = distributed.all_gather(self.entities[negative], group=self.plan.group)
        losses = margin_losses(self.plan, query, tails, others)
        # The losses of all replicas add up to the loss of the step.
        triples = distributed.all_reduce(is_triple.sum())
        norm = distributed.all_reduce(self.entities[negative].square().sum()).sqrt()
        loss = (losses * is_triple).sum() / triples + self.plan.penalty * norm / self.plan.replicas
        whole = distributed.all_reduce(loss.detach())
        return whole, poptorch.identity_loss(loss, "sum")


class Ranking(Embedding):
    """Counts for each triple the entities no farther from head + relation than its tail."""

    def forward(self, head, relation, tail):
        query, tails = self.looked_up(head, relation, tail)
        distance = (query - tails).abs().sum(-1).flatten()
        queries = distributed.all_gather(query.flatten(0, 1), group=self.plan.group)
        limits = distributed.all_gather(distance, group=self.plan.group)
        found = (queries[:, None] - self.entities).abs().sum(-1) <= limits[:, None] + 1e-4
        ranks = distributed.reduce_scatter(found.sum(1).int(), group=self.plan.group)
        return ranks.reshape(head.shape)


def margin_losses(plan, query, tails, others):
    """Returns a loss for each triple: low if it is close and others, above all the nearest, are
    far.

    query, tails: [..., size]; others: [negatives, size]. Returns [...].
    """
    near = (query - tails).abs().sum(-1)
    far = (query[..., None, :] - others).abs().sum(-1)
    weights = torch.softmax(-far.detach(), -1)
    softplus = torch.nn.functional.softplus
    return softplus(near - plan.margin) + (weights * softplus(plan.margin - far)).sum(-1)


def place(plan: Plan, triples: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Returns head, relation, tail, whether there is a triple: [replicas · shards, slots] each.

    triples: [any, 3], dealt to the groups of replicas in turn. ValueError: too few slots.
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
    """Wraps the model for its replicas: each shard is on as many replicas as there are groups."""
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
    """Makes triples of a square of width² entities; relations: right, down, two right, down and
    right."""
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
