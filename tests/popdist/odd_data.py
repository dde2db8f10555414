"""A program of several instances whose collectives have data of every type and layout; it prints
"passed".
"""

import numpy as np
import popdist
import torch
from popdist import collectives

popdist.init()
i, n = popdist.getInstanceIndex(), popdist.getNumInstances()
last = n - 1
z = torch.tensor([1 + 2j, 3.0])

# Views: lazily negated, of one element with a stride, transposed, expanded, channels last.
assert collectives.broadcast(z.conj(), last).tolist() == [1 - 2j, 3]
assert collectives.all_reduce(z.conj()).tolist() == [n * (1 - 2j), 3 * n]
assert collectives.all_gather(z.conj().imag[:1]).tolist() == [-2.0] * n
assert collectives.all_gather(torch.full((1, 5), float(i))[:, 0]).tolist() == [
    *map(float, range(n))
]
assert collectives.all_gather(np.arange(10)[9::-3][:1] + i).tolist() == [9 + k for k in range(n)]
grid = torch.arange(6.0).reshape(2, 3)
assert torch.equal(collectives.all_reduce(grid.t()), n * grid.t())
assert collectives.all_gather(torch.tensor(1.0).expand(2)).tolist() == [1.0] * 2 * n
image = torch.arange(8.0).reshape(1, 2, 2, 2).to(memory_format=torch.channels_last)
assert torch.equal(collectives.broadcast(image + i, 0), image)
assert collectives.all_reduce(torch.ones(2, requires_grad=True)).tolist() == [n, n]

# Types for which torch lacks arithmetic, and means of types that overflow in a sum.
bits = torch.tensor([False, i > 0])
assert collectives.all_reduce(bits).tolist() == [False, n > 1]
assert collectives.all_reduce(bits, "min").tolist() == [False, False]
assert collectives.all_reduce(torch.tensor([200], dtype=torch.uint8), "mean").tolist() == [200]
assert collectives.all_reduce(torch.ones(2).to(torch.float8_e4m3fn)).float().tolist() == [n, n]
for kind in ("u1", "u2", "u4", "i2", "f2", "f8", ">f4", ">i8"):
    array = np.array([3 + i], kind)
    summed = collectives.all_reduce(array)
    assert (summed.dtype, summed.tolist()) == (array.dtype, [3 * n + sum(range(n))])
for array in (np.array(["a", "bcd"]), np.array(["2020-01-01"], "M8[D]"), np.array([1.5], "g"),
              np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]), np.array(7.0)):  # fmt: skip
    other = array if i == last else np.zeros_like(array)
    found = collectives.broadcast(other, last)
    assert (found.dtype, found.shape, found.tolist()) == (array.dtype, array.shape, array.tolist())

# Python's numbers are arrays without dimensions.
assert collectives.all_reduce(1.5, "mean") == 1.5 and collectives.broadcast(i, last) == last
assert collectives.all_gather(float(i)).tolist() == [*map(float, range(n))]


def refused(error, text, call, *arguments):
    """The call fails on every instance before anything is sent: the next collective works."""
    try:
        call(*arguments)
    except error as raised:
        assert text in str(raised), raised
    else:
        raise AssertionError(text)
    popdist.synchronize()


gather, reduce = collectives.all_gather, collectives.all_reduce
refused(TypeError, "max is not defined for torch.complex64", reduce, z, "max")
refused(TypeError, "mean is not defined for torch.bool", reduce, bits, "mean")
refused(TypeError, "that is sparse_coo: pass a dense one", reduce, torch.eye(2).to_sparse())
refused(TypeError, "Python objects", gather, np.array([None]))
if n > 1:
    refused(popdist.together.Error, "dimensions: the limit is 16", gather, torch.ones([1] * 20))
refused(ValueError, "broadcast(root=9)", collectives.broadcast, bits, 9)
print("passed")
