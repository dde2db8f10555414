"""Runs collectives of long tensors in a model, and prints which results differ from torch's, then
that it is done.
"""

import popdist
import popdist.poptorch
import poptorch
import poptorch.distributed as dist
import torch

LENGTHS = {
    2: (1 << 19, 1 << 20, 3_000_002),
    4: (3_000_004,),
}  # MiB and more, by the number of instances


class Long(torch.nn.Module):
    def forward(self, x):
        whole = dist.all_reduce(x)
        part = dist.reduce_scatter(x, "sum", 1)
        over = dist.all_reduce(x + x)  # its operand is dead: the result reuses its memory
        return whole, part, dist.all_gather(x), dist.all_to_all(x, 1, 0), over


popdist.init()
index, count = popdist.getInstanceIndex(), popdist.getNumInstances()
for length in LENGTHS[count]:
    made = torch.Generator().manual_seed(length)
    inputs = [torch.randn(1, length, generator=made) for _ in range(count)]
    total = sum(inputs[1:], start=inputs[0].clone())  # in the order of replicas
    expected = {
        "all_reduce": total,
        "reduce_scatter": total.chunk(count, 1)[index],
        "all_gather": torch.cat(inputs),
        "all_to_all": torch.cat([x.chunk(count, 1)[index] for x in inputs]),
        "all_reduce over its operand": total * 2,
    }
    model = poptorch.inferenceModel(Long(), popdist.poptorch.Options())
    for step in range(3):  # again in the same memory
        results = model(inputs[index] * 2**step)
        for (name, values), result in zip(expected.items(), results, strict=True):
            if not torch.equal(values * 2**step, result):
                print(f"{name} of {length}, step {step}: {values * 2**step} is {result}")
print("done", flush=True)
