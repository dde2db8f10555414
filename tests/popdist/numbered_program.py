"""A PopTorch program whose processes are numbered without popdist.

`numbered_program.py torchrun|mpirun|srun|hand|alone [NUMBER COUNT]`: the numbers come from a
launcher's variables or from configureProcessId; alone, one process has all replicas. Prints the
trained weight.
"""

import sys

import popdist
import poptorch
import torch

REPLICAS, ROWS = 2, 4


class Loss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x, target):
        return torch.nn.functional.mse_loss(self.layer(x), target)


if __name__ == "__main__":
    way = sys.argv[1]
    options = poptorch.Options().showCompilationProgressBar(False)
    if way == "torchrun":
        options.Distributed.setEnvVarNames("WORLD_SIZE", "RANK")
    elif way == "srun":
        options.Distributed.setEnvVarNames("SLURM_STEP_NUM_TASKS", "SLURM_PROCID")
    elif way == "hand":
        options.Distributed.configureProcessId(int(sys.argv[2]), int(sys.argv[3]))
    elif way == "alone":
        options.replicationFactor(REPLICAS)
    assert not popdist.isPopdistEnvSet()
    number, count = options.Distributed.processId, options.Distributed.numProcesses
    module = Loss()
    optimizer = poptorch.optim.Adam(module.parameters(), lr=0.1)
    model = poptorch.trainingModel(module, options, optimizer)
    torch.manual_seed(1)
    for _ in range(4):
        batch = torch.randn(REPLICAS * ROWS, 4), torch.randn(REPLICAS * ROWS, 1)
        model(*(part.chunk(count)[number] for part in batch))
    print(number, count, [value.hex() for value in module.layer.weight.flatten().tolist()])
