"""poptorch.fps and poptorch.nearest agree with loops over their definition."""

import math

import poptorch
import pytest
import torch


def sampled(x, ptr, counts, starts):
    """Farthest point sampling with complete tables of distances."""
    chosen = []
    for begin, end, count, start in zip(ptr[:-1], ptr[1:], counts, starts, strict=True):
        table = torch.cdist(x[begin:end].double(), x[begin:end].double())
        own = [start][:count]
        while len(own) < count:
            own.append(int(table[own].min(0).values.argmax()))
        chosen += [begin + i for i in own]
    return chosen


@pytest.mark.parametrize(
    ("ratio", "counts"), [(0.5, [4, 1, 0, 4]), (0.07, [1, 1, 0, 1]), (1.0, [7, 1, 0, 8])]
)
def test_points_far_apart(ratio, counts):
    x, ptr = torch.randn(16, 3), [0, 7, 8, 8, 16]
    expected = sampled(x, ptr, counts, [0] * 4)
    found = poptorch.inferenceModel(lambda x: poptorch.fps(x, ptr, ratio))(x)
    assert found.dtype == torch.int32 and found.tolist() == expected
    eager = poptorch.fps(x, ptr, ratio)
    assert eager.dtype == torch.int32 and eager.tolist() == expected


def test_equal_points_are_chosen_in_order():
    x = torch.tensor([[0.0], [3.0], [3.0], [-3.0], [0.0]])
    model = poptorch.inferenceModel(lambda x: poptorch.fps(x, [0, 5], 0.8))
    assert model(x).tolist() == [0, 1, 3, 0]


def test_counts_are_those_of_float32():
    """Counts as torch_cluster does: 0.07 * 100 is 7 in float32, and more in float64."""
    assert math.ceil(0.07 * 100) == 8
    assert len(poptorch.fps(torch.randn(100, 2), [0, 100], 0.07)) == 7


def test_a_random_start(world):
    """Each run may choose any first point of a group; the rest follows from it."""
    x, ptr = torch.randn(12, 2), [0, 5, 12]
    options = poptorch.Options().randomSeed(3)
    model = poptorch.inferenceModel(lambda x: poptorch.fps(x, ptr, 0.4, True), options)
    for sample in (lambda: model(x), lambda: poptorch.fps(x, ptr, 0.4, random_start=True)):
        firsts = set()
        for _ in range(60 if world is None else 10):
            found = sample().tolist()
            starts = [found[0], found[2] - 5]
            assert found == sampled(x, ptr, [2, 3], starts)
            firsts.add(tuple(starts))
        if world is None:
            assert {a for a, _ in firsts} == set(range(5)) and {b for _, b in firsts} == set(
                range(7)
            )


def neighbours(x, y, batch_x, batch_y):
    found = []
    for point, batch in zip(x, batch_x, strict=True):
        distances = (y - point).double().square().flatten(1).sum(1)
        distances[torch.tensor(batch_y) != batch] = torch.inf
        found.append(int(distances.argmin()))
    return found


BATCH_X, BATCH_Y = [0, 0, 2, 2, 2], [0, 0, 0, 1, 2, 2, 2]
KINDS = {
    "lists": (list, list),
    "tensors": (torch.tensor, torch.tensor),
    "a list and a tensor": (list, lambda b: torch.tensor(b, dtype=torch.int32)),
    "a tensor and a tuple": (torch.tensor, tuple),
}


@pytest.mark.parametrize("kind", KINDS)
def test_nearest_points_of_the_same_batch(kind):
    x, y = torch.randn(5, 3), torch.randn(7, 3)
    batch_x, batch_y = (make(b) for make, b in zip(KINDS[kind], (BATCH_X, BATCH_Y), strict=True))
    expected = neighbours(x, y, BATCH_X, BATCH_Y)

    class Model(torch.nn.Module):
        """Takes tensors as inputs, other values from the model."""

        def forward(self, x, y, *tensors):
            rest = iter(tensors)
            batches = [next(rest) if torch.is_tensor(b) else b for b in (batch_x, batch_y)]
            return poptorch.nearest(x, y, *batches)

    tensors = [b for b in (batch_x, batch_y) if torch.is_tensor(b)]
    found = poptorch.inferenceModel(Model())(x, y, *tensors)
    assert found.dtype == torch.int32 and found.tolist() == expected
    assert poptorch.nearest(x, y, batch_x, batch_y).tolist() == expected


def test_nearest_points_of_all():
    x, y = torch.randn(5, 2), torch.randn(7, 2)
    model = poptorch.inferenceModel(poptorch.nearest)
    assert model(x, y).tolist() == neighbours(x, y, [0] * 5, [0] * 7)


def test_nearest_numbers():
    x, y = torch.tensor([0.2, 5.0, -1.0]), torch.tensor([0.0, 0.0, 4.0, 6.0])
    model = poptorch.inferenceModel(lambda x, y: poptorch.nearest(x, y, batch_y=[0, 0, 0, 0]))
    assert model(x, y).tolist() == [0, 2, 0]
    mixed = poptorch.inferenceModel(lambda x, y: poptorch.nearest(x.half(), y))
    assert mixed(x, y).tolist() == [0, 2, 0]


class Pooled(torch.nn.Module):
    """Features of some points, chosen by fps and spread to all by nearest."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 4)

    def forward(self, x):
        features = self.layer(x)
        chosen = poptorch.fps(x, [0, len(x)], 0.25).long()
        spread = features[chosen][poptorch.nearest(x, x[chosen]).long()]
        return spread, poptorch.identity_loss(spread.square(), "mean")


def test_they_stand_in_a_network_that_trains():
    network, x = Pooled(), torch.randn(16, 3)
    eager = Pooled()
    eager.load_state_dict(network.state_dict())
    model = poptorch.trainingModel(network, optimizer=torch.optim.SGD(network.parameters(), lr=0.5))
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        y, loss = eager(x)
        loss.backward()
        optimizer.step()
        torch.testing.assert_close(model(x)[0], y.detach())
    torch.testing.assert_close(network.layer.weight.detach(), eager.layer.weight.detach())


X, Y = torch.zeros(4, 2), torch.zeros(3, 2)
REFUSED = {
    "borders": (lambda: poptorch.fps(X, torch.tensor([0, 4])), "`ptr` must be a list of integers."),
    "floats": (lambda: poptorch.fps(X, [0, 4.0]), "`ptr` must be a list of integers."),
    "ratio": (lambda: poptorch.fps(X, [0, 4], 1), "`ratio` must be of float type."),
    "too much": (lambda: poptorch.fps(X, [0, 4], 1.5), "`ratio` must be above 0 and at most 1"),
    "end": (lambda: poptorch.fps(X, [0, 3]), r"`ptr` must ascend from 0 to .* 4, but is \[0, 3\]"),
    "start": (lambda: poptorch.fps(X, [0, 4], 0.5, 1), "`random_start` must be of bool type."),
    "rank": (lambda: poptorch.fps(X[0], [0, 2]), "`src` must be a torch.tensor of rank 2"),
    "no points": (lambda: poptorch.nearest(X, [1]), "`y` must be a torch.tensor of rank 2"),
    "dimensions": (lambda: poptorch.nearest(X, Y[:, :1]), "same number of dimensions a point"),
    "batches": (lambda: poptorch.nearest(X, Y, [0, 0, 0]), "`batch_x` has 3 numbers for 4 points"),
    "order": (lambda: poptorch.nearest(X, Y, [0, 0, 0, 0], [1, 0, 0]), "`batch_y` must ascend"),
    "kind": (lambda: poptorch.nearest(X, Y, [0.0] * 4), "`batch_x` must be a list or a tensor of"),
    "half": (lambda: poptorch.nearest(X, Y, X[:, 0]), "`batch_x` must be a list or a tensor of"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case):
    call, text = REFUSED[case]
    with pytest.raises(poptorch.Error, match=text):
        call()


def test_a_batch_that_is_missing_ends_the_run():
    text = "batch 3 of row 1 of x has no row in y"
    batches = torch.tensor([0, 3, 3, 3]), torch.tensor([0, 0, 1])
    with pytest.raises(poptorch.Error, match=text):
        poptorch.nearest(X, Y, *batches)
    with pytest.raises(poptorch.Error, match=text):
        poptorch.inferenceModel(poptorch.nearest)(X, Y, *batches)
