"""Tests poptorch.DataLoader and AsynchronousDataAccessor: batches, epochs, nested structures,
killed workers.
"""

import collections
import os
import select
import signal
import subprocess
import sys
import threading

import poptorch
import poptorch.testing
import pytest
import torch


class Numbers(torch.utils.data.Dataset):
    """Item i is (i as a float tensor, i as a label)."""

    def __init__(self, count, fails_at=None):
        self.count, self.fails_at = count, fails_at

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index == self.fails_at:
            raise ValueError("item is broken")
        return torch.full((2,), float(index)), index


class Counting(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(torch.arange(10.0))


class Dictionaries:
    def __len__(self):
        return 3

    def __iter__(self):
        return ({"a": torch.full((2,), i), "b": torch.tensor([i])} for i in (0.0, 1.0, 2.0))


class Slow:
    """Never delivers its second item."""

    def __iter__(self):
        yield torch.ones(1)
        threading.Event().wait()


def _options(iterations=1, replicas=1, accumulation=1):
    options = poptorch.Options()
    options.deviceIterations(iterations)
    options.replicationFactor(replicas)
    options.Training.gradientAccumulation(accumulation)
    return options


def _labels(loader):
    return [labels.tolist() for _, labels in loader]


def test_combined_batches_hold_what_one_step_consumes():
    options = _options(iterations=2, replicas=2, accumulation=3)
    loader = poptorch.DataLoader(options, Numbers(50), batch_size=2)
    assert loader.combinedBatchSize == 24
    assert _labels(loader) == [list(range(24)), list(range(24, 48))]
    assert len(loader) == 2


def test_the_options_are_frozen():
    options = _options()
    poptorch.DataLoader(options, Numbers(4))
    with pytest.raises(AttributeError, match="Can't modify frozen Options"):
        options.deviceIterations(2)


def test_leftover_rows_are_kept_on_request_and_warned_about(capfd):
    loader = poptorch.DataLoader(_options(2), Numbers(7), batch_size=2, drop_last=False)
    assert _labels(loader) == [[0, 1, 2, 3], [4, 5, 6]]
    text = (
        "The number of elements in the dataset (7) is not divisible by the number of elements "
        "processed per step (4) and drop_last=False. The last tensor will have a batch size of 3."
    )
    assert text in capfd.readouterr().err


def test_shuffling_gives_every_item_once():
    loader = poptorch.DataLoader(_options(), Numbers(12), batch_size=4, shuffle=True)
    assert sorted(sum(_labels(loader), [])) == list(range(12))


def test_a_batch_sampler_yields_micro_batches():
    sampler = torch.utils.data.BatchSampler(range(10), 2, False)
    loader = poptorch.DataLoader(_options(2), Numbers(10), batch_sampler=sampler)
    assert _labels(loader) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert loader.batch_sampler is sampler and loader.combinedBatchSize == 4
    text = "`batch_sampler` option is mutually exclusive with "
    with pytest.raises(poptorch.Error, match=text + "batch_size, shuffle."):
        poptorch.DataLoader(_options(), Numbers(10), batch_size=2, batch_sampler=sampler)
    options = _options()
    options.Distributed.configureProcessId(0, 2)
    with pytest.raises(poptorch.Error, match=text + "auto_distributed_partitioning=True."):
        poptorch.DataLoader(options, Numbers(10), batch_sampler=sampler)


@pytest.mark.parametrize("processes", [2, 3])
def test_processes_share_a_data_set_without_overlap(processes):
    seen = []
    for process in range(processes):
        options = _options(2)
        options.Distributed.configureProcessId(process, processes)
        seen += sum(_labels(poptorch.DataLoader(options, Numbers(24))), [])
    assert sorted(seen) == list(range(24))


def test_shuffling_over_processes_is_global_and_needs_a_seed():
    options = _options()
    options.Distributed.configureProcessId(0, 2)
    with pytest.raises(AssertionError, match="randomSeed"):
        poptorch.DataLoader(options, Numbers(8), shuffle=True)
    epochs = []
    for process in range(2):
        options = _options()
        options.randomSeed(0)
        options.Distributed.configureProcessId(process, 2)
        loader = poptorch.DataLoader(options, Numbers(8), shuffle=True)
        epochs.append([sum(_labels(loader), []), sum(_labels(loader), [])])
    for epoch in range(2):
        assert sorted(epochs[0][epoch] + epochs[1][epoch]) == list(range(8))
    assert epochs[0][0] != epochs[0][1]


@pytest.mark.shared
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("mode", [poptorch.DataLoaderMode.Sync, poptorch.DataLoaderMode.Async])
def test_global_shuffles_differ_by_epoch_and_agree_between_processes(workers, mode):
    epochs = []
    for process in range(2):
        options = _options().randomSeed(7)
        options.Distributed.configureProcessId(process, 2)
        loader = poptorch.DataLoader(
            options, Numbers(10), batch_size=2, shuffle=True, num_workers=workers, mode=mode
        )
        epochs.append([sum(_labels(loader), []) for _ in range(3)])
        loader.terminate()
    first = torch.Generator().manual_seed(7)
    for epoch, (mine, others) in enumerate(zip(*epochs, strict=True)):
        order = torch.randperm(10, generator=first).tolist()
        # Two items are left over: alternately the first and the last.
        assert mine + others == (order[:8] if epoch % 2 else order[2:])


def test_iterable_data_sets_are_not_partitioned():
    options = _options()
    options.Distributed.configureProcessId(0, 2)
    with pytest.raises(AssertionError, match="auto_distributed_partitioning not supported for"):
        poptorch.DataLoader(options, Counting())


@pytest.mark.shared
@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("mode", ["Sync", "Async", "AsyncRebatched"])
def test_all_modes_give_the_same_batches_every_epoch(mode, drop_last):
    loader = poptorch.DataLoader(
        _options(2),
        Numbers(11),
        batch_size=2,
        drop_last=drop_last,
        mode=poptorch.DataLoaderMode[mode],
    )
    expected = [[0, 1, 2, 3], [4, 5, 6, 7]] + ([] if drop_last else [[8, 9, 10]])
    for _ in range(3):
        assert _labels(loader) == expected
    assert len(loader) == len(expected)
    loader.terminate()


def test_rebatched_workers_load_no_more_than_a_combined_batch():
    with pytest.raises(AssertionError, match="rebatched_worker_size"):
        poptorch.DataLoader(
            _options(),
            Numbers(8),
            batch_size=2,
            mode=poptorch.DataLoaderMode.AsyncRebatched,
            rebatched_worker_size=3,
        )


Pair = collections.namedtuple("Pair", "left right")


class Nested(Numbers):
    def __getitem__(self, index):
        value = torch.full((2,), float(index))
        return {"a": value, "b": (Pair(value + 1, index), [value * 2])}


@pytest.mark.shared
@pytest.mark.parametrize("mode", ["Async", "AsyncRebatched"])
def test_structures_may_be_nested(mode):
    loaders = [
        poptorch.DataLoader(_options(), Nested(6), batch_size=3, mode=poptorch.DataLoaderMode[m])
        for m in (mode, "Sync")
    ]
    for ours, plain in zip(*loaders, strict=True):
        assert list(ours) == ["a", "b"] and type(ours["b"][0]) is Pair
        assert poptorch.testing.allclose(plain["a"], ours["a"])
        for one, other in zip(ours["b"][0], plain["b"][0], strict=True):
            assert torch.equal(one, other)
        assert torch.equal(ours["b"][1][0], plain["b"][1][0])
    loaders[0].terminate()


@pytest.mark.shared
def test_items_that_hold_no_tensors_are_an_error(capfd):
    with pytest.raises(poptorch.Error, match="worker thread failed to start"):
        poptorch.AsynchronousDataAccessor([(torch.ones(1), "label")])
    text = r"Tensor at index 1 is not a torch tensor \(<class 'str'>\)\."
    with pytest.raises(AssertionError, match=text):
        poptorch.AsynchronousDataAccessor(
            [{"a": torch.ones(1), "b": ["label"]}], sharing_strategy=poptorch.SharingStrategy.Fork
        )
    assert "ItemsError: Tensor at index 1" in capfd.readouterr().err


@pytest.mark.shared
def test_the_accessor_keeps_the_structure_of_items():
    accessor = poptorch.AsynchronousDataAccessor(Dictionaries())
    items = [{key: tensor.clone() for key, tensor in item.items()} for item in accessor]
    assert [item["b"].item() for item in items] == [0.0, 1.0, 2.0]
    assert items[2]["a"].tolist() == [2.0, 2.0]
    assert len(accessor) == 3
    accessor.terminate()


@pytest.mark.parametrize(
    ("dataset", "why"), [([], "The Dataset is empty"), (Numbers(3, fails_at=0), "item is broken")]
)
def test_a_data_set_that_cannot_start_is_an_error(dataset, why, capfd):
    text = r"AsynchronousDataAccessor worker thread failed to start \(Check above for details\)"
    with pytest.raises(poptorch.Error, match=f"{text}.*{why}"):
        poptorch.AsynchronousDataAccessor(dataset, sharing_strategy=poptorch.SharingStrategy.Fork)
    written = capfd.readouterr().err
    assert "Traceback" in written and f"ValueError: {why}" in written


def test_a_data_set_that_cannot_be_pickled_is_an_error():
    class Local(Numbers):
        pass

    with pytest.raises(poptorch.Error, match="worker thread failed to start .*cannot be sent"):
        poptorch.AsynchronousDataAccessor(Local(3))


def test_sizes_and_modes_are_checked(capfd):
    with pytest.raises(AssertionError, match="buffer_size must be 1 or more but is 0"):
        poptorch.AsynchronousDataAccessor([torch.ones(1)], buffer_size=0)
    with pytest.raises(AssertionError, match="must be a member of poptorch.DataLoaderMode, not 1"):
        poptorch.DataLoader(_options(), Numbers(4), mode=1)
    assert len(poptorch.DataLoader(_options(2), Numbers(7), batch_size=4)) == 0
    assert "has 7 rows, but a step takes 8: the loader is empty" in capfd.readouterr().err


def test_rebatched_size_is_checked():
    with pytest.raises(AssertionError, match="rebatched_size must be None or greater than 1"):
        poptorch.AsynchronousDataAccessor([torch.ones(1)], rebatched_size=1)


@pytest.mark.shared
def test_a_loader_has_one_accessor():
    loader = poptorch.DataLoader(_options(), Numbers(4), mode=poptorch.DataLoaderMode.Async)
    with pytest.raises(poptorch.Error, match="already has an AsynchronousDataAccessor"):
        poptorch.AsynchronousDataAccessor(loader)
    loader.terminate()


@pytest.mark.nightly
@pytest.mark.signals
def test_a_killed_worker_is_an_error():
    accessor = poptorch.AsynchronousDataAccessor(Slow())
    items = iter(accessor)
    next(items)
    os.kill(accessor._process.pid, signal.SIGKILL)
    with pytest.raises(AssertionError, match="in the data fetcher: exit code -9"):
        next(items)  # it would wait for ever
    accessor.terminate()


@pytest.mark.shared
def test_an_item_that_fails_says_why():
    loader = poptorch.DataLoader(_options(), Numbers(6, fails_at=3), batch_size=1)
    accessor = poptorch.AsynchronousDataAccessor(loader)
    with pytest.raises(AssertionError, match="An error occurred in the data fetcher: .*is broken"):
        list(accessor)
    accessor.terminate()


def test_rows_left_over_need_rebatching():
    loader = poptorch.DataLoader(_options(), Numbers(6), batch_size=4, drop_last=False)
    text = "The 'drop_last=False' option from the DataLoader only works if 'rebatched_size' is "
    with pytest.raises(AssertionError, match=f"{text}specified too."):
        poptorch.AsynchronousDataAccessor(loader)


ENDLESS = """
import os, signal, sys
import poptorch, torch

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, index):
        return torch.ones(1000)

if __name__ == "__main__":
    strategy = {"sharing_strategy": poptorch.SharingStrategy[STRATEGY]}
    loader = poptorch.DataLoader(
        poptorch.Options(), Rows(), mode=poptorch.DataLoaderMode.Async, async_options=strategy
    )
    print(loader._accessor._process.pid, flush=True)
    sys.stdin.readline()
    while True:
        for number, _ in enumerate(loader):
            if number == 50:
                os.killpg(0, signal.SIGINT)  # as a terminal does
"""


@pytest.mark.nightly
@pytest.mark.signals
@pytest.mark.parametrize("strategy", poptorch.SharingStrategy.__members__)
def test_an_interrupt_ends_the_worker_and_leaves_no_memory(tmp_path, strategy):
    program = tmp_path / "program.py"
    program.write_text(ENDLESS.replace("STRATEGY", repr(strategy)))
    shared = set(os.listdir("/dev/shm"))
    running = subprocess.Popen(
        [sys.executable, program],
        env={**os.environ, "PYTHONPATH": ":".join(p for p in sys.path if p)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell may start background processes with interrupts ignored; a terminal's processes
        # receive them.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        worker = os.pidfd_open(int(running.stdout.readline()))
        written = running.communicate("go on\n")[1]
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
    assert running.returncode != 0 and "KeyboardInterrupt" in written
    assert select.select([worker], [], [])[0]  # it ends sooner or later
    os.close(worker)
    assert {
        name for name in set(os.listdir("/dev/shm")) - shared if str(running.pid) in name
    } == set()
