"""A program of several instances that prints the result of each collective as a line of JSON."""

import json
import sys
import threading

import numpy as np
import popdist
import torch
from popdist import collectives

assert not popdist.isBackendInitialized()
popdist.init()
popdist.init()
assert popdist.isBackendInitialized()
i, n = popdist.getInstanceIndex(), popdist.getNumInstances()
found = {}


def note(name, value):
    found[name] = [str(value.dtype), value.tolist()]


note("sum", collectives.all_reduce(torch.tensor([1.0, i], dtype=torch.float64)))
note("mean of ints", collectives.all_reduce(torch.tensor(2 * i + 1), "mean"))
note("scalar of f16", collectives.all_reduce(torch.tensor(0.1, dtype=torch.float16)))
note("min", collectives.all_reduce(torch.tensor([float("nan") if i == n - 1 else 1.0, i]), "min"))
note("max", collectives.all_reduce(np.array([[i, -i]], np.int32), "max"))
# In ascending order: 1e30 absorbs the rest unless the last instance subtracts it first.
terms = [1e30, 1.0] + [0.0] * (n - 2)
terms[-1] += 0.0 if n == 2 else -1e30
note("in order", collectives.all_reduce(torch.tensor([terms[i]], dtype=torch.float32)))
note("empty", collectives.all_reduce(torch.zeros(0, 3)))
note("gather", collectives.all_gather(torch.full((i, 2), i, dtype=torch.int8)))
note("gather scalars", collectives.all_gather(torch.tensor(float(i))))
note("gather arrays", collectives.all_gather(np.array([i > 0])))
before = torch.tensor([[i, 2]], dtype=torch.bfloat16).t()
note("broadcast", collectives.broadcast(before, n - 1))
assert before[0, 0] == i
long = torch.arange(1 << 20, dtype=torch.float32)
assert torch.equal(collectives.all_reduce(long), long * n)
found["bytes"] = collectives.broadcast_bytes(f"from {i}".encode(), 1).decode()

# Reductions by name, from threads that start in another order in each instance.
named = {}


def reduce_named(k):
    named[str(k)] = float(collectives.all_reduce(torch.tensor(float(k * i)), name=f"name {k}"))


threads = [threading.Thread(target=reduce_named, args=((k + i) % 5,)) for k in range(5)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
found["named"] = dict(sorted(named.items()))


def within():
    popdist.synchronize()
    return collectives.all_gather(torch.tensor(i)).tolist()


found["subset"] = popdist.execute_on_instances({0, n - 1}, within)
found["alone"] = popdist.execute_on_instances({0}, within)
popdist.synchronize()
sys.stdout.write(json.dumps(found) + "\n")
