"""knowledge_graph.py over replicas agrees with the same in one process that has the whole table."""

import pytest
import torch
from knowledge_graph import (
    Plan,
    Ranking,
    Training,
    gathered,
    grid,
    margin_losses,
    place,
    spread,
    wrapped,
)

WIDTH = 8
TRIPLES = grid(WIDTH)
PLANS = {
    "2 shards": Plan(WIDTH**2, 4, replicas=2, shards=2, slots=24),
    "4 shards": Plan(WIDTH**2, 4, replicas=4, shards=4, slots=16),
    "8 shards": Plan(WIDTH**2, 4, replicas=8, shards=8, negatives=2),
    "4 shards twice": Plan(WIDTH**2, 4, replicas=8, shards=4),
}


def tables(plan):
    torch.manual_seed(7)
    return torch.randn(plan.entities, plan.size), torch.randn(plan.relations, plan.size)


class Step:
    """The triples and the other entities of a step."""

    def __init__(self, plan, generator):
        chosen = torch.randperm(len(TRIPLES), generator=generator)[:48]
        self.triples = TRIPLES[chosen]
        rows = plan.entities // plan.shards
        shape = (plan.replicas, plan.negatives)
        self.rows = torch.randint(rows, shape, generator=generator, dtype=torch.int)
        shard = torch.arange(plan.replicas)[:, None] % plan.shards
        self.negatives = self.rows.long() * plan.shards + shard  # by replica

    def inputs(self, plan):
        return *place(plan, self.triples), self.rows.flatten()


def plain_loss(plan, entities, relations, step):
    """Computes the loss with the whole table: each group of replicas has separate triples."""
    groups = plan.replicas // plan.shards
    losses = []
    for group in range(groups):
        head, relation, tail = step.triples[group::groups].T
        others = step.negatives.reshape(groups, -1)[group]
        query = entities[head] + relations[relation]
        losses.append(margin_losses(plan, query, entities[tail], entities[others]))
    norm = entities[step.negatives].square().sum().sqrt()
    return torch.cat(losses).mean() + plan.penalty * norm


CLOSE = {"rtol": 1e-4, "atol": 1e-4}
# The large eps is for gradients near zero: they differ by rounding, which Adam would amplify.
OPTIMISERS = {"SGD": {"lr": 0.5}, "Adam": {"lr": 0.02, "eps": 1e-3}}


@pytest.mark.parametrize("kind", OPTIMISERS)
@pytest.mark.parametrize("name", PLANS)
def test_training_is_that_of_one_process(name, kind):
    plan = PLANS[name]
    entities, relations = (torch.nn.Parameter(table) for table in tables(plan))
    numbers = OPTIMISERS[kind]
    plain = getattr(torch.optim, kind)([entities, relations], **numbers)
    model = Training(plan, *tables(plan))
    made = wrapped(model, getattr(torch.optim, kind)(model.parameters(), **numbers))
    generator = torch.Generator().manual_seed(3)
    for _ in range(5):
        step = Step(plan, generator)
        whole, _ = made(*step.inputs(plan))
        plain.zero_grad()
        loss = plain_loss(plan, entities, relations, step)
        loss.backward()
        plain.step()
        torch.testing.assert_close(whole, loss.detach().repeat(plan.replicas), **CLOSE)
    torch.testing.assert_close(gathered(model.entities.detach()), entities.detach(), **CLOSE)
    torch.testing.assert_close(model.relations.detach(), relations.detach(), **CLOSE)


def ranks_of_one_process(entities, relations, triples):
    head, relation, tail = triples.T
    query = entities[head] + relations[relation]
    distances = (query[:, None] - entities).abs().sum(-1)
    limits = distances.gather(1, tail[:, None])
    return (distances <= limits + 1e-4).sum(1)


@pytest.mark.parametrize("name", PLANS)
def test_ranks_are_those_of_one_process(name):
    plan = PLANS[name]
    triples = TRIPLES[torch.randperm(len(TRIPLES))[:48]]
    head, relation, tail, is_triple = place(plan, triples)
    found = wrapped(Ranking(plan, *tables(plan)))(head, relation, tail)
    expected = ranks_of_one_process(*tables(plan), triples)
    assert sorted(found[is_triple > 0].tolist()) == sorted(expected.tolist())


@pytest.mark.shared
def test_it_learns_the_grid():
    plan = PLANS["4 shards"]
    model = Training(plan, *tables(plan))
    made = wrapped(model, torch.optim.Adam(model.parameters(), lr=0.05))
    generator = torch.Generator().manual_seed(3)
    for _ in range(300):
        made(*Step(plan, generator).inputs(plan))
    before = ranks_of_one_process(*tables(plan), TRIPLES).float()
    entities, relations = gathered(model.entities.detach()), model.relations.detach()
    after = ranks_of_one_process(entities, relations, TRIPLES).float()
    assert before.mean() > 20 and after.mean() < 4


def test_entities_are_where_they_are_looked_for():
    table = torch.arange(12.0).reshape(6, 2)
    assert torch.equal(spread(table, 3)[4 % 3, 4 // 3], table[4])
    assert torch.equal(gathered(spread(table, 3)), table)
    with pytest.raises(ValueError, match="More than 1 triples from shard 0 to 1"):
        place(Plan(4, 1, replicas=2, shards=2, slots=1), torch.tensor([(0, 0, 1), (2, 0, 3)]))
