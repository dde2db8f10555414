"""A program of several instances that calls horovod and mpi4py as public programs do."""

import horovod.torch as hvd  # before popdist
import numpy as np
import popdist
import torch
from mpi4py import MPI

popdist.init()
hvd.init()
i, n = hvd.rank(), hvd.size()
assert (hvd.local_rank(), hvd.local_size(), hvd.is_initialized()) == (i, n, True)
assert n == popdist.getNumInstances() > 1

given = torch.tensor([1.0, i], dtype=torch.float16)
mean = hvd.allreduce(given)
assert mean.dtype == given.dtype and mean.tolist() == [1.0, (n - 1) / 2] and given[1] == i
assert hvd.allreduce(torch.tensor(2), average=True).item() == 2
assert hvd.allreduce(torch.tensor(i), average=False).item() == n * (n - 1) / 2
assert hvd.allreduce(torch.tensor(float(i)), op=hvd.Sum).item() == n * (n - 1) / 2
grouped = hvd.grouped_allreduce([torch.ones(2), torch.tensor([i])], op=hvd.Sum)
assert [each.tolist() for each in grouped] == [[n, n], [n * (n - 1) // 2]]
assert hvd.allgather(torch.full((i + 1,), float(i))).tolist() == [
    float(k) for k in range(n) for _ in range(k + 1)
]  # fmt: skip
own = torch.tensor([i])
assert hvd.broadcast(own, root_rank=1).item() == 1 and own.item() == i
torch.manual_seed(i)
model = torch.nn.Linear(2, 2)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
weights = hvd.allgather(model.weight.detach()[None])
assert (weights == weights[0]).all()
assert not model.weight.is_leaf or model.weight.requires_grad
hvd.broadcast_parameters(list(model.named_parameters()))

world = MPI.COMM_WORLD
assert (world.Get_rank(), world.Get_size(), world.rank, world.size) == (i, n, i, n)
for dtype in (np.float32, np.int64, np.uint16, np.complex64, bool):
    array = np.full((2, 3), i, dtype)
    world.Bcast(array, root=1)
    assert (array == np.full((2, 3), 1, dtype)).all()
everybody = np.empty((n, 2), np.float32)
world.Allgather(np.array([i, 2 * i], np.float32), everybody)
assert everybody.tolist() == [[k, 2 * k] for k in range(n)]
for value in (
    1,
    np.int64(7),
    np.float32(0.5),
    2.5,
    "text",
    [1, [None]],
    {"a": (1, 2), 3: {"tuple": True}},
    None,
):
    assert world.bcast(value if i == 0 else None, root=0) == value
world.Barrier()
world.barrier()
print("passed")
