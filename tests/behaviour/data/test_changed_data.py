"""Loaders notice what the program changes between epochs: samplers, data sets, attributes."""

import changing_data
import poptorch
import pytest
import torch
from torch.utils.data.distributed import DistributedSampler

MODES = {
    "sync": {},
    "workers": {"num_workers": 2},
    "async": {"mode": poptorch.DataLoaderMode.Async},
    "rebatched": {"mode": poptorch.DataLoaderMode.AsyncRebatched, "rebatched_worker_size": 2},
    "async workers": {
        "mode": poptorch.DataLoaderMode.Async,
        "num_workers": 1,
        "async_options": {"sharing_strategy": poptorch.SharingStrategy.Fork},
    },
}


def epoch(loader):
    return [batch.flatten().tolist() for batch in map(torch.clone, loader)]


def loader_of(data, mode="async", **arguments):
    arguments = {"batch_size": 4, **MODES[mode], **arguments}
    return poptorch.DataLoader(poptorch.Options(), data, **arguments)


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


def check(mode, make, changes):
    """Compares the epochs with those of a Sync loader without workers, which is eager torch's."""
    torch.manual_seed(7)
    expected, change_expected = make("sync")
    wanted = []
    for step in range(len(changes)):
        torch.manual_seed(step)
        change_expected(step)
        wanted.append(epoch(expected))
    torch.manual_seed(7)
    loader, change = make(mode)
    got = []
    for step in range(len(changes)):
        torch.manual_seed(step)
        change(step)
        got.append(epoch(loader))
    loader.terminate()
    assert got == wanted
    assert len({str(one) for one in got}) == len(set(changes))


def test_set_epoch_of_a_distributed_sampler(mode):
    epochs = (0, 1, 2, 2, 5)

    def make(mode):
        data = changing_data.Rows()
        sampler = DistributedSampler(data, num_replicas=2, rank=1, seed=3)
        loader = loader_of(data, mode, sampler=sampler, batch_size=2)
        return loader, lambda step: sampler.set_epoch(epochs[step])

    check(mode, make, epochs)


def test_weights_of_a_sampler(mode):
    chosen = (1, 3, 3, 6)

    def make(mode):
        data = changing_data.Rows()
        sampler = torch.utils.data.WeightedRandomSampler([1.0] * 8, 8)

        def change(step):
            if step % 2:
                sampler.weights.zero_()[chosen[step]] = 1.0
            else:
                sampler.weights = torch.eye(8, dtype=torch.float64)[chosen[step]]

        return loader_of(data, mode, sampler=sampler), change

    check(mode, make, chosen)


def changed(data, what, value):
    if what == "scale":
        data.scale = value
    elif what == "nested list":
        data.offsets["all"].append(value)
    elif what == "tensor":
        data.table.fill_(value)
    elif what == "array":
        data.array[3] = value
    elif what == "slot":
        data.inner.transform.amount = value
    elif what == "object":
        data.inner.transform = changing_data.Adding(value)
    else:
        data.history.append(value)


KINDS = ["scale", "nested list", "tensor", "array", "slot", "object", "deque"]


@pytest.mark.shared
@pytest.mark.parametrize("what", KINDS)
def test_attributes_of_a_data_set(what, mode):
    values = (0.5, 2.0, 4.0)

    def make(mode):
        data = changing_data.Rows()
        return loader_of(data, mode), lambda step: changed(data, what, values[step])

    check(mode, make, values)


@pytest.mark.parametrize("mode", ["workers", "async"])
def test_a_function_with_attributes(mode):
    def make(mode):
        collate = changing_data.Collating()
        loader = loader_of(changing_data.Rows(), mode, collate_fn=collate)
        return loader, lambda step: setattr(collate, "factor", step + 1.0)

    check(mode, make, (1, 2, 3))


@pytest.mark.parametrize("mode", ["workers", "async"])
def test_an_iterable_data_set(mode):
    def make(mode):
        data = changing_data.Stream()
        workers = {"num_workers": 1} if mode == "workers" else {}
        return loader_of(data, mode, **workers), lambda step: setattr(data, "first", step)

    check(mode, make, (0, 1, 2))


def test_items_of_another_shape():
    def make(mode):
        data = changing_data.Sized()
        return loader_of(data, mode), lambda step: setattr(data, "width", step + 1)

    check("async", make, (1, 2, 3))


def test_what_a_sampler_counts_in_the_worker_continues():
    firsts = (0, 0, 4, 4, 1)

    def make(mode):
        data = changing_data.Rows()
        sampler = changing_data.Counting(data)
        loader = loader_of(data, mode, sampler=sampler)
        return loader, lambda step: setattr(sampler, "first", firsts[step])

    check("async", make, range(5))


def test_a_shuffled_order_continues_when_the_data_change():
    torch.manual_seed(7)
    loader = loader_of(changing_data.Rows(), shuffle=True)
    expected = [epoch(loader) for _ in range(4)]
    loader.terminate()
    torch.manual_seed(7)
    data = changing_data.Rows()
    loader = loader_of(data, shuffle=True)
    for step, wanted in enumerate(expected):
        data.scale = step + 1.0
        assert epoch(loader) == [[v * data.scale for v in batch] for batch in wanted]
    loader.terminate()


def test_an_epoch_that_is_broken_off(mode):
    data = changing_data.Rows()
    loader = loader_of(data, mode)
    for step in range(3):
        data.scale = step + 1.0
        assert next(iter(loader)).flatten().tolist() == [row * data.scale for row in range(4)]
    loader.terminate()


def test_a_position_and_a_changed_sampler():
    def made():
        data = changing_data.Rows()
        sampler = DistributedSampler(data, num_replicas=1, rank=0)
        return sampler, loader_of(data, sampler=sampler, batch_size=2)

    sampler, loader = made()
    epoch(loader)
    sampler.set_epoch(1)
    items = iter(loader)
    first = next(items).flatten().tolist()
    position = loader.state_dict()
    rest = [next(items).flatten().tolist() for _ in range(3)]
    assert next(items, None) is None
    sampler.set_epoch(2)
    following = epoch(loader)
    loader.terminate()

    sampler, loader = made()
    loader.load_state_dict(position)
    sampler.set_epoch(1)
    assert epoch(loader) == rest and first not in rest
    sampler.set_epoch(2)
    assert epoch(loader) == following
    loader.terminate()


def test_an_accessor_of_a_users_loader():
    data = changing_data.Rows()
    sampler = DistributedSampler(data, num_replicas=1, rank=0)
    plain = torch.utils.data.DataLoader(data, batch_size=4, sampler=sampler)
    accessor = poptorch.AsynchronousDataAccessor(plain)
    for step in range(3):
        sampler.set_epoch(step)
        data.scale = step + 1.0
        assert epoch(accessor) == epoch(plain)
    accessor.terminate()


def test_data_that_cannot_be_pickled():
    data = changing_data.Rows()
    data.function = lambda value: value  # not picklable: the worker is started again
    strategy = {"sharing_strategy": poptorch.SharingStrategy.Fork}
    loader = loader_of(data, async_options=strategy)
    for step in range(3):
        data.scale = step + 1.0
        assert epoch(loader)[0][1] == data.scale
    loader.terminate()


def test_unchanged_objects_are_not_sent_again(monkeypatch):
    data = changing_data.Rows()
    loader = loader_of(data)
    asked = []
    monkeypatch.setattr(poptorch.AsynchronousDataAccessor, "_renew", lambda *a: asked.append(a))
    data.table.zero_()  # writes the values that it has
    data.offsets = {"all": [0.0]}
    for _ in range(3):
        epoch(loader)
    assert not asked
    loader.terminate()
