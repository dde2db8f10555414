"""The error about a broken connection names the worker whose connection closed before the worker
ended.
"""

import multiprocessing
import os

import poptorch
import pytest
import torch
from poptorch._impl.data.worker_exits import FromWorkers

fork = multiprocessing.get_context("fork")


def ends_when_told(told):
    told.recv()
    os._exit(3)


class ClosesFirst:
    """Does as torch's iterator: its worker ends only after a connection to it has broken."""

    def __init__(self):
        told, self.tell = fork.Pipe(duplex=False)
        self._workers = [fork.Process(target=ends_when_told, args=[told])]
        self._workers[0].start()
        self.ours, theirs = fork.Pipe()
        theirs.close()

    def __next__(self):
        self.tell.send(None)
        self.ours.recv()


def test_the_worker_that_broke_a_connection_is_named():
    batches = ClosesFirst()
    with pytest.raises(RuntimeError, match=r"worker \(pid (\d+)\) .*, with code 3\.") as raised:
        next(FromWorkers(batches))
    assert isinstance(raised.value.__cause__, EOFError)
    assert f"(pid {batches._workers[0].pid})" in str(raised.value)


class Offline(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        raise ConnectionResetError("the server of the data has gone")


def test_a_connection_of_the_data_set_is_the_users():
    with pytest.raises(ConnectionResetError, match="the server of the data has gone"):
        next(iter(poptorch.DataLoader(poptorch.Options(), Offline(), num_workers=1)))


class Parents(torch.utils.data.Dataset):
    """Each item is the process that started the worker which loads it."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.tensor([os.getppid()])


@pytest.mark.shared
@pytest.mark.parametrize("strategy", ["ForkServer", "SharedMemory"])
def test_the_worker_of_an_asynchronous_loader_forks_its_workers(strategy):
    """They do not import torch again, unless the program's default start method requires it."""
    loader = poptorch.DataLoader(
        poptorch.Options(),
        Parents(),
        num_workers=1,
        mode=poptorch.DataLoaderMode.Async,
        async_options={"sharing_strategy": poptorch.SharingStrategy[strategy]},
    )
    parents = {int(batch) for batch in loader}
    worker = loader._accessor._process.pid
    loader.terminate()
    assert parents == {worker}
