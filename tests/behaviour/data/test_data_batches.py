"""Tests batches of a user's sampler and of rebatching workers, and epochs that are broken off."""

import os
import re
import subprocess
import sys

import poptorch
import pytest
import torch
from test_data import Numbers, _labels, _options


class Packs:
    """Batches of several sizes; no batch_size."""

    def __iter__(self):
        return iter([[0, 1, 2], [3], [4, 5], [6], [7, 8]])

    def __len__(self):
        return 5


collated = []


def collate(items):
    collated.append(len(items))
    return torch.utils.data.default_collate(items)


@pytest.mark.shared
@pytest.mark.parametrize("mode", ["Sync", "Async"])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("drop_last", [True, False])
def test_batches_of_a_sampler_may_differ_in_size(drop_last, workers, mode):
    loader = poptorch.DataLoader(
        _options(2),
        Numbers(9),
        batch_sampler=Packs(),
        drop_last=drop_last,
        num_workers=workers,
        collate_fn=collate,
        mode=poptorch.DataLoaderMode[mode],
    )
    expected = [[0, 1, 2, 3], [4, 5, 6]] + ([] if drop_last else [[7, 8]])
    collated.clear()
    for _ in range(2):
        assert _labels(loader) == expected
    assert len(loader) == len(expected) and loader.combinedBatchSize == 2
    assert collated == ([] if workers or mode == "Async" else [3, 1, 2, 1, 2] * 2)
    loader.terminate()


class Held:
    def __init__(self, rows):
        self.rows = rows


class HeldParser(poptorch.ICustomArgParser):
    def yieldTensors(self, struct):
        yield struct.rows

    def reconstruct(self, original_structure, tensor_iterator):
        return Held(next(tensor_iterator))


def test_types_with_a_parser_are_put_together():
    poptorch.registerCustomArgParser(Held, HeldParser())
    try:
        loader = poptorch.DataLoader(
            _options(2),
            Numbers(9),
            batch_sampler=Packs(),
            collate_fn=lambda items: Held(torch.stack([row for row, _ in items])),
        )
        assert [held.rows[:, 0].tolist() for held in loader] == [[0, 1, 2, 3], [4, 5, 6]]
    finally:
        poptorch.registerCustomArgParser(Held, None)


@pytest.mark.shared
@pytest.mark.parametrize(("size", "workers"), [(None, 4), (3, 3)])
def test_batches_of_rebatching_workers(size, workers):
    loader = poptorch.DataLoader(
        _options(2),
        Numbers(8),
        batch_size=2,
        mode=poptorch.DataLoaderMode.AsyncRebatched,
        rebatched_worker_size=size,
    )
    assert loader.batch_size == workers
    loader.terminate()


@pytest.mark.shared
def test_a_broken_off_epoch_begins_again():
    loaders = [
        poptorch.DataLoader(_options(), Numbers(4000), mode=poptorch.DataLoaderMode.Async)
        for _ in range(2)
    ]
    for loader in loaders:
        batches = iter(loader)
        assert iter(batches) is batches
        for taken in (1, 3, 2):
            for number, (_, labels) in enumerate(loader):
                assert labels.tolist() == [number]
                if number == taken:
                    break
        assert [int(next(batches)[1]) for _ in range(2)] == [3, 4]
        assert next(iter(loader))[1].tolist() == [0]
    for loader in loaders:
        loader.terminate()


class Endless(torch.utils.data.IterableDataset):
    def __iter__(self):
        number = 0
        while True:
            yield torch.tensor([number])
            number += 1


@pytest.mark.shared
def test_what_never_ends_begins_again():
    accessor = poptorch.AsynchronousDataAccessor(Endless(), rebatched_size=2)
    for _ in range(2):
        assert [next(iter(accessor)).tolist(), next(accessor).tolist()] == [[0, 1], [2, 3]]
    accessor.terminate()


LOGGED = """
import poptorch, torch
if __name__ == "__main__":
    accessor = poptorch.AsynchronousDataAccessor([torch.ones(1)] * 2)
    list(accessor)
    print(accessor._process.pid, flush=True)
    accessor.terminate()
"""


@pytest.mark.shared
def test_processes_are_logged(tmp_path):
    (tmp_path / "program.py").write_text(LOGGED)
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path), "POPTORCH_LOG_LEVEL": "DEBUG"}
    ran = subprocess.run(
        [sys.executable, tmp_path / "program.py"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.search(r"\[debug\] AsynchronousDataAccessor parent process: \d+\n", ran.stderr)
    assert f"AsynchronousDataAccessor worker process: {ran.stdout}" in ran.stderr
    assert "[debug] AsynchronousDataAccessor worker: clean exit" in ran.stderr


class Reordered(Numbers):
    """Its items are dicts with the keys in another order each time."""

    def __getitem__(self, index):
        parts = [("a", torch.tensor([float(index)])), ("b", torch.tensor([index + 100.0]))]
        return dict(parts[:: -1 if index % 4 > 1 else 1])


class Three(torch.utils.data.Sampler):
    """A sampler of batches of two."""

    def __init__(self):
        pass

    def __iter__(self):
        return iter([[0, 1], [2, 3], [4, 5], [6, 7]])


@pytest.mark.shared
@pytest.mark.parametrize("mode", ["Sync", "Async", "AsyncRebatched"])
@pytest.mark.parametrize("arguments", [{"batch_size": 2}, {"batch_sampler": Three()}])
def test_keys_in_another_order_are_not_exchanged(mode, arguments):
    if mode == "AsyncRebatched" and "batch_sampler" in arguments:
        arguments = {"batch_size": 1}
    loader = poptorch.DataLoader(
        _options(2), Reordered(8), mode=poptorch.DataLoaderMode[mode], **arguments
    )
    found = [(row["a"].clone(), row["b"].clone()) for row in loader]
    assert torch.cat([a for a, _ in found]).flatten().tolist() == list(range(8))
    assert all(torch.equal(a + 100, b) for a, b in found)
    loader.terminate()


class Objects(Numbers):
    """Its items are objects, of which number 2 has another attribute that is not a tensor."""

    def __getitem__(self, index):
        if index == len(self):
            raise IndexError
        made = Held(torch.tensor([float(index)]))
        made.kind = "other" if index == self.other else "kind"
        return made


@pytest.mark.shared
def test_objects_keep_their_attributes_and_must_agree():
    items = Objects(4)
    items.other = None
    accessor = poptorch.AsynchronousDataAccessor(items)
    assert [(held.rows.item(), held.kind) for held in accessor] == [(i, "kind") for i in range(4)]
    accessor.terminate()
    items.other = 2
    accessor = poptorch.AsynchronousDataAccessor(items)
    text = "Value mismatch for item.kind: expected 'kind' but got 'other'. All items of a data set"
    with pytest.raises(AssertionError, match=text):
        list(accessor)
