"""A DataLoader continues from the position of another equal DataLoader, bit-identical to an
undisturbed run.
"""

import copy
import io
import random

import numpy
import poptorch
import pytest
import torch


class Augmented(torch.utils.data.Dataset):
    """Each item draws from all three generators."""

    def __init__(self, rows=22):
        self.rows = rows

    def __len__(self):
        return self.rows

    def __getitem__(self, index):
        return torch.tensor([float(index), torch.rand(()), random.random(), numpy.random.rand()])


class Stream(torch.utils.data.IterableDataset):
    """Shuffles with Python's generator first, and draws with torch's during the epoch."""

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        rows = list(range(22)) if info is None else list(range(info.id, 22, info.num_workers))
        random.shuffle(rows)
        for row in rows:
            yield torch.tensor([float(row), torch.rand(())])


class Lazy(torch.utils.data.Sampler):
    """Draws index by index from the program's random numbers, and counts its epochs."""

    def __init__(self, rows):
        self.rows, self.epoch = rows, 0

    def __len__(self):
        return self.rows

    def __iter__(self):
        self.epoch += 1
        for _ in range(self.rows):
            yield (int(torch.randint(self.rows, ())) + self.epoch) % self.rows


class Own(Lazy):
    """Has state_dict and load_state_dict."""

    def __init__(self, rows):
        super().__init__(rows)
        self._counts = {"begun": 0}

    def state_dict(self):
        return self._counts

    def load_state_dict(self, state):
        self._counts = state

    def __iter__(self):
        self._counts["begun"] += 1
        order = torch.Generator().manual_seed(self._counts["begun"])
        return iter(torch.randperm(self.rows, generator=order).tolist())


class Holding(Lazy):
    """Draws from one generator of each kind, which it holds."""

    def __init__(self, rows):
        super().__init__(rows)
        self.a, self.b = torch.Generator().manual_seed(1), random.Random(2)
        self.c, self.d = numpy.random.default_rng(3), numpy.random.RandomState(4)

    def __iter__(self):
        for _ in range(self.rows):
            number = int(torch.randint(9, (), generator=self.a)) + self.b.randrange(9)
            yield (number + int(self.c.integers(9)) + self.d.randint(9)) % self.rows


def options(iterations=1):
    return poptorch.Options().deviceIterations(iterations)


def of_two_processes():
    made = options(2).randomSeed(4)
    made.Distributed.configureProcessId(1, 2)
    return made


def generator():
    return torch.Generator().manual_seed(11)


# Each makes new arguments of a loader.
CASES = {
    "in order": lambda: {},
    "shuffled": lambda: {"shuffle": True},
    "own generator": lambda: {"shuffle": True, "generator": generator()},
    "two workers": lambda: {"shuffle": True, "num_workers": 2},
    "new workers": lambda: {"shuffle": True, "num_workers": 2, "persistent_workers": False},
    "worker's generator": lambda: {"shuffle": True, "num_workers": 2, "generator": generator()},
    "rest": lambda: {"shuffle": True, "drop_last": False},
    "lazy": lambda: {"sampler": Lazy(22), "num_workers": 2},
    "lazy, alone": lambda: {"sampler": Lazy(22)},
    "own state": lambda: {"sampler": Own(22), "num_workers": 2},
    "holding": lambda: {"sampler": Holding(22)},
    "subset": lambda: {"sampler": torch.utils.data.SubsetRandomSampler(range(3, 22))},
    "weighted": lambda: {"sampler": torch.utils.data.WeightedRandomSampler([1.0] * 22, 22)},
    "replaced": lambda: {
        "sampler": torch.utils.data.RandomSampler(range(22), True, 40, generator())
    },
    "batches": lambda: {
        "batch_size": 1,
        "batch_sampler": torch.utils.data.BatchSampler(Lazy(22), 2, False),
    },
    "no batching": lambda: {"batch_size": None, "shuffle": True, "drop_last": False},
    "stream": lambda: {"dataset": Stream()},
    "streams": lambda: {"dataset": Stream(), "num_workers": 2},
    "shared out": lambda: {"shuffle": True, "options": of_two_processes(), "batch_size": 1},
}
ASYNCHRONOUS = ["shuffled", "two workers", "rest", "lazy, alone", "own state", "streams",
                "batches", "shared out", "holding"]  # fmt: skip
REBATCHED = [("two workers", 1), ("rest", 3), ("stream", 3)]
LOADERS = (
    [("Sync", case, None) for case in CASES]
    + [("Async", case, None) for case in ASYNCHRONOUS]
    + [("AsyncRebatched", case, size) for case, size in REBATCHED]
)


def loader(mode, case, worker_size=None, seed=5):
    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed)
    arguments = {"options": options(2), "dataset": Augmented(), "batch_size": 2, **CASES[case]()}
    if mode != "Sync":
        # Fork starts fast, but its process shares no state with this one.
        arguments["async_options"] = {"sharing_strategy": poptorch.SharingStrategy.Fork}
    return poptorch.DataLoader(
        **arguments, mode=poptorch.DataLoaderMode[mode], rebatched_worker_size=worker_size
    )


def state(loader):
    """Returns the state as read from a file, with the program's random numbers."""
    from poptorch._impl.data import host_rng

    file = io.BytesIO()
    torch.save({"loader": loader.state_dict(), "random": host_rng.current()}, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def go_on(loader, saved):
    from poptorch._impl.data import host_rng

    loader.load_state_dict(saved["loader"])
    host_rng.restore(saved["random"])


def work():
    """Draws random numbers as a program does between batches."""
    return torch.rand(()), random.random()


def epochs(loader, count):
    """Returns the batches of the epochs, and the program's numbers, as one list; None ends an
    epoch."""
    found = []
    for _ in range(count):
        for batch in loader:
            found.append((batch.clone(), work()))
        found.append(None)
    return found


def same(ours, theirs):
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert torch.equal(one[0], other[0]) and one[1] == other[1]


@pytest.mark.shared
@pytest.mark.parametrize(("mode", "case", "worker_size"), LOADERS)
def test_a_position_gives_the_batches_that_would_have_come(mode, case, worker_size):
    undisturbed = loader(mode, case, worker_size)
    whole = epochs(undisturbed, 3)
    undisturbed.terminate()
    per_epoch = whole.index(None)
    assert per_epoch >= 3
    saved = {}  # by the length of the part of `whole` before it
    saving = loader(mode, case, worker_size)
    saved[0] = state(saving)
    seen = 0
    for _ in range(2):
        for _ in saving:
            work()
            seen += 1
            saved[seen] = state(saving)
        seen += 1
        saved[seen] = state(saving)
    saving.terminate()
    assert seen == 2 * per_epoch + 2
    other = loader(mode, case, worker_size, seed=6)
    points = sorted(saved) if mode == "Sync" else [0, 1, per_epoch, per_epoch + 1, seen - 2]
    for point in points:
        go_on(other, copy.deepcopy(saved[point]))
        left = whole[point:]
        same(epochs(other, left.count(None)), left)
    other.terminate()


@pytest.mark.shared
@pytest.mark.parametrize("mode", ["Sync", "Async"])
def test_positions_may_be_taken_of_what_goes_on_from_a_position(mode):
    undisturbed = loader(mode, "shuffled")
    whole = epochs(undisturbed, 2)
    undisturbed.terminate()
    found, loads = [], loader(mode, "shuffled")
    while found.count(None) < 2:
        batches = iter(loads)  # the epoch continues while this exists
        batch = next(batches, None)
        found.append(None if batch is None else (batch.clone(), work()))
        saved = state(loads)
        loads.terminate()
        loads = loader(mode, "shuffled", seed=6)
        go_on(loads, saved)
    loads.terminate()
    same(found, whole)


def test_an_epoch_that_was_left_is_over():
    runs = []
    for resumes in (False, True):
        loads = loader("Sync", "own generator")
        next(iter(loads))
        if resumes:
            saved = state(loads)
            loads = loader("Sync", "own generator", seed=9)
            go_on(loads, saved)
        runs.append(epochs(loads, 2))
    same(*runs)


@pytest.mark.shared
def test_batches_do_not_depend_on_the_number_of_workers():
    def sums(workers, persistent):
        torch.manual_seed(1)
        loads = poptorch.DataLoader(
            options(2), Augmented(), 2, True, workers, persistent_workers=persistent
        )
        return [batch.clone() for _ in range(2) for batch in loads]

    one = sums(1, True)
    for workers, persistent in ((2, True), (2, False), (3, True)):
        assert all(map(torch.equal, one, sums(workers, persistent)))


def test_the_order_is_torchs():
    torch.manual_seed(3)
    theirs = [b for _ in range(2) for b in torch.utils.data.DataLoader(range(9), 3, shuffle=True)]
    torch.manual_seed(3)
    loads = poptorch.DataLoader(options(), range(9), 3, shuffle=True)
    ours = [batch for _ in range(2) for batch in loads]
    assert all(map(torch.equal, ours, theirs))


def test_an_asynchronous_order_depends_on_the_programs_seed():
    orders = []
    for seed in (1, 1, 2):
        loads = loader("Async", "shuffled", seed=seed)
        orders.append(torch.cat([batch.clone() for batch in loads]))
        loads.terminate()
    assert torch.equal(orders[0], orders[1]) and not torch.equal(orders[0], orders[2])


def test_left_out_batches_of_a_map_are_not_loaded():
    class Counting(Augmented):
        loaded = 0

        def __getitem__(self, index):
            Counting.loaded += 1
            return super().__getitem__(index)

    loads = poptorch.DataLoader(options(2), Counting(), 2)
    batches = iter(loads)
    for _ in range(3):
        next(batches)
    saved, Counting.loaded = loads.state_dict(), 0
    loads.load_state_dict(saved)
    assert len(list(loads)) == 2 and Counting.loaded == 8


@pytest.mark.shared
def test_an_accessor_takes_a_loader_that_was_used():
    loads = poptorch.DataLoader(options(2), Augmented(), 2)
    batches = iter(loads)
    next(batches)
    accessor = poptorch.AsynchronousDataAccessor(loads)
    assert len(list(accessor)) == 5
    accessor.terminate()


def test_two_iterators_of_a_loader_are_two_epochs():
    loads = loader("Sync", "shuffled")
    first = iter(loads)
    next(first)
    saved = state(loads)
    expected = [batch[:, 0] for batch in first]
    go_on(loads, saved)
    left, new = iter(loads), iter(loads)
    assert len(list(new)) == 5
    assert all(map(torch.equal, expected, [batch[:, 0] for batch in left]))


REFUSED = {
    "in_order": (lambda: {"num_workers": 1, "in_order": False}, "in_order=False cannot be saved"),
    "iterator": (lambda: {"sampler": iter(range(22))}, "range_iterator is an iterator"),
}


@pytest.mark.shared
@pytest.mark.parametrize("mode", ["Sync", "Async"])
@pytest.mark.parametrize("name", REFUSED)
def test_loaders_whose_position_says_too_little(name, mode):
    arguments, text = REFUSED[name]
    if mode == "Async":
        strategy = {"sharing_strategy": poptorch.SharingStrategy.Fork}
        plain, arguments = arguments, lambda: {**plain(), "async_options": strategy}
    loads = poptorch.DataLoader(
        options(), Augmented(), 2, mode=poptorch.DataLoaderMode[mode], **arguments()
    )
    assert len(list(loads)) == 11  # they load as before
    with pytest.raises(poptorch.Error, match=text):
        loads.state_dict()
    loads.terminate()


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"dataset": Augmented(23)}, "rows of the data set is 23, but was 22"),
        ({"batch_size": 3}, "combinedBatchSize is 6, but was 4"),
        ({"drop_last": False}, "drop_last is False, but was True"),
        ({"num_workers": 2}, "num_workers is 1, but was 0"),
        (
            {"shuffle": False},
            "had a RandomSampler as sampler sampler .* but now has a SequentialSampler",
        ),
    ],
)
def test_positions_of_other_loaders_are_refused(changed, text):
    arguments = {"dataset": Augmented(), "batch_size": 2, "shuffle": True}
    saved = poptorch.DataLoader(options(2), **arguments).state_dict()
    other = poptorch.DataLoader(options(2), **{**arguments, **changed})
    with pytest.raises(poptorch.Error, match=text):
        other.load_state_dict(saved)


@pytest.mark.parametrize(
    "broken",
    [None, {}, {"pass": {}}, {"taken": -1}, {"taken": "x"}, {"next": None}],
)
def test_what_is_no_position_is_refused(broken):
    loads = poptorch.DataLoader(options(), Augmented(), 2)
    if broken:
        broken = {**loads.state_dict(), **broken}
    with pytest.raises(poptorch.Error, match="not a position of a poptorch.DataLoader"):
        loads.load_state_dict(broken)


class Changing(Lazy):
    """An order whose state cannot be read."""

    begun = 0

    def __iter__(self):
        Changing.begun += 1
        return iter([(Changing.begun + i) % self.rows for i in range(self.rows)])


def test_an_order_that_cannot_be_had_again_is_noticed():
    loads = poptorch.DataLoader(options(), Augmented(), 2, sampler=Changing(22))
    next(iter(loads))
    batches = iter(loads)
    next(batches)
    loads.load_state_dict(loads.state_dict())
    with pytest.raises(poptorch.Error, match="Changing does not give the order of the pass"):
        next(iter(loads))
