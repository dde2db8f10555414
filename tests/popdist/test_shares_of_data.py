"""poptorch.DataLoader loads those elements in each process that a plain version of the rules
selects.
"""

import popdist.poptorch
import poptorch
import pytest
import torch
from hypothesis import given, settings, strategies as st
from poptorch_core import Error

BY_REPLICA = "by_replica"


class Numbers(torch.utils.data.Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        assert 0 <= index < self.n
        return index


def options_of(process=0, count=1, replicas=1, iterations=1, accumulation=1):
    options = poptorch.Options().replicationFactor(replicas).deviceIterations(iterations)
    options.Training.gradientAccumulation(accumulation)
    options.outputMode(poptorch.OutputMode.All)
    options.Distributed.configureProcessId(process, count)
    return options.randomSeed(5)


def epochs(options, n, batch, times=1, **arguments):
    loader = poptorch.DataLoader(options, Numbers(n), batch_size=batch, **arguments)
    found = [[batch.tolist() for batch in loader] for _ in range(times)]
    assert all(len(loader) == len(epoch) for epoch in found)
    return found


def rows(epoch):
    return [row for batch in epoch for row in batch]


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 60), st.integers(1, 4), st.integers(1, 5), st.booleans(), st.booleans())
def test_shares(n, count, batch, drop_last, shuffle):
    generator = torch.Generator().manual_seed(5)
    orders = [torch.randperm(n, generator=generator).tolist() for _ in range(3)]
    share = batch * (n // (batch * count))
    for process in range(count if count > 1 else 0):
        arguments = {"drop_last": drop_last, "shuffle": shuffle, "times": 3}
        options = options_of(process, count)
        if (share if drop_last else n // count) == 0:
            with pytest.raises(Error, match=f"{n} elements are too few for {count} processes"):
                epochs(options, n, batch, **arguments)
            continue
        for number, found in enumerate(epochs(options, n, batch, **arguments)):
            if drop_last:
                start, length = process * share, share
                if shuffle and number % 2 == 0:
                    start += n % share
            else:
                length = n // count + (process < n % count)
                start = process * (n // count) + min(process, n % count)
            order = orders[number] if shuffle else range(n)
            assert rows(found) == list(order[start : start + length])
            assert len(set(rows(found))) == length


def test_the_printed_example():
    """n 50,000, b 32, N 4: 390 steps of 32 rows; with two replicas each, 195 of 64."""
    for replicas, steps in ((1, 390), (2, 195)):
        loader = poptorch.DataLoader(options_of(0, 4, replicas), Numbers(50000), batch_size=32)
        assert len(loader) == steps and len(next(iter(loader))) == 32 * replicas


@pytest.mark.shared
@settings(deadline=None, max_examples=40)
@given(st.sampled_from([1, 2, 4]), st.integers(1, 2), st.integers(1, 2), st.integers(1, 3),
       st.integers(0, 7), st.booleans())  # fmt: skip
def test_by_replica_every_replica_has_its_rows_of_one_process(
    count, iterations, accumulation, batch, more, shuffle
):
    replicas = 4
    n = 3 * batch * replicas * iterations * accumulation + more
    arguments = {"shuffle": shuffle, "auto_distributed_partitioning": BY_REPLICA, "times": 2}
    alone = epochs(options_of(0, 1, replicas, iterations, accumulation), n, batch, **arguments)
    local = replicas // count
    for process in range(count):
        options = options_of(process, count, local, iterations, accumulation)
        found = epochs(options, n, batch, **arguments)
        for epoch, whole in zip(found, alone, strict=True):
            for step, step_of_all in zip(epoch, whole, strict=True):
                blocks = torch.tensor(step_of_all).view(-1, replicas, batch)
                mine = blocks[:, process * local : (process + 1) * local].reshape(-1)
                assert step == mine.tolist()
                cut = popdist.poptorch.local_rows(torch.tensor(step_of_all), options)
                assert cut.tolist() == step


def test_by_replica_without_shuffling_is_a_plain_loader_of_one_process():
    plain = epochs(options_of(0, 1, 4), 50, 3)
    assert epochs(options_of(0, 1, 4), 50, 3, auto_distributed_partitioning=BY_REPLICA) == plain


def test_a_position_continues_on_another_number_of_processes():
    def loader(process, count):
        return poptorch.DataLoader(
            options_of(process, count, 4 // count),
            Numbers(60),
            batch_size=2,
            shuffle=True,
            auto_distributed_partitioning=BY_REPLICA,
        )

    alone = loader(0, 1)
    steps = [batch.tolist() for _ in range(2) for batch in alone]
    before = loader(0, 1)
    batches = iter(before)
    assert [next(batches).tolist() for _ in range(3)] == steps[:3]
    position = before.state_dict()
    loaders = [loader(process, 2) for process in range(2)]
    for each in loaders:
        each.load_state_dict(position)
    found = []
    for _ in range(2):
        for parts in zip(*loaders, strict=True):
            pairs = [part.view(-1, 2, 2) for part in parts]
            found.append(torch.cat(pairs, 1).reshape(-1).tolist())
    assert found == steps[3:]


def test_what_by_replica_refuses():
    arguments = {"batch_size": 2, "auto_distributed_partitioning": BY_REPLICA}
    with pytest.raises(Error, match="15 elements are not a multiple of the 4 of a step of all 2"):
        poptorch.DataLoader(options_of(0, 2), Numbers(15), drop_last=False, **arguments)
    with pytest.raises(Error, match="3 elements are fewer than the 4"):
        poptorch.DataLoader(options_of(0, 2), Numbers(3), **arguments)
    with pytest.raises(ValueError, match="choose True, False or 'by_replica'"):
        poptorch.DataLoader(options_of(), Numbers(9), auto_distributed_partitioning="by replica")
    with pytest.raises(Error, match="7 rows cannot be shared by 2 processes"):
        popdist.poptorch.local_rows(torch.arange(7), options_of(0, 2))


def test_rows_by_replica_of_groups_that_reach_across_processes_are_refused():
    """In one process of four replicas, 0 and 2 share rows; in two processes they are apart."""
    options = options_of(0, 2, 2).inputReplicaGrouping(2, poptorch.CommGroupType.Orthogonal)
    with pytest.raises(Error, match="an input group would have replicas in several"):
        popdist.poptorch.local_rows(torch.arange(4), options)
    with pytest.raises(Error, match="Use CommGroupType.Consecutive"):
        poptorch.DataLoader(options, Numbers(9), auto_distributed_partitioning=BY_REPLICA)
    assert len(poptorch.DataLoader(options, Numbers(9))) == 4  # a share needs no replicas
    neighbours = options_of(1, 2, 2).inputReplicaGrouping(2, poptorch.CommGroupType.Consecutive)
    assert popdist.poptorch.local_rows(torch.arange(4), neighbours).tolist() == [2, 3]


class Endless(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(range(6))


def test_iterable_data_is_not_shared_out():
    for way in (True, BY_REPLICA):
        with pytest.raises(AssertionError, match="not supported for IterableDataset"):
            poptorch.DataLoader(options_of(0, 2), Endless(), auto_distributed_partitioning=way)
    loader = poptorch.DataLoader(options_of(1, 2), Endless(), batch_size=2,
                                 auto_distributed_partitioning=False)  # fmt: skip
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize("count, way", [(2, True), (2, BY_REPLICA), (1, BY_REPLICA)])
def test_shuffled_shares_need_a_seed(count, way):
    options = poptorch.Options()
    options.Distributed.configureProcessId(0, count)
    with pytest.raises(AssertionError, match=r"call options.randomSeed\(seed\)"):
        poptorch.DataLoader(options, Numbers(8), shuffle=True, auto_distributed_partitioning=way)


def test_without_batches_there_are_no_shares():
    with pytest.raises(AssertionError, match="needs a batch_size"):
        poptorch.DataLoader(options_of(0, 2), Numbers(8), batch_size=None)
    loader = poptorch.DataLoader(options_of(0, 2), Numbers(3), batch_size=None,
                                 auto_distributed_partitioning=False)  # fmt: skip
    assert list(loader) == [0, 1, 2]
