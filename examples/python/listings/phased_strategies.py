"""Listings 4.12 and 4.13: SerialPhasedExecution and ParallelPhasedExecution."""

import poptorch
import torch


class Model(torch.nn.Module):
    """Two columns of layers. The blocks of a row form one phase."""

    def __init__(self, blocks):
        super().__init__()
        self.blocks = blocks
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in blocks)

    def forward(self, x, target):
        columns = [x, x]
        for number, block in enumerate(self.blocks):
            with poptorch.Block(block):
                column = number % 2
                columns[column] = torch.tanh(self.layers[number](columns[column]))
                if number == len(self.blocks) - 1:
                    y = columns[0] + columns[1]
                    return y, torch.nn.functional.mse_loss(y, target)


# Listing 4.12
strategy = poptorch.SerialPhasedExecution(
    poptorch.Phase(poptorch.Stage("A"), poptorch.Stage("A2")),
    poptorch.Phase(poptorch.Stage("B"), poptorch.Stage("B2")),
    poptorch.Phase(poptorch.Stage("C"), poptorch.Stage("C2")),
)

strategy.phase(0).ipus(0, 1)
strategy.phase(1).ipus(0, 1)
strategy.phase(2).ipus(0, 1)

serial = (strategy, ["A", "A2", "B", "B2", "C", "C2"])

# Listing 4.13
strategy = poptorch.ParallelPhasedExecution(
    poptorch.Phase(poptorch.Stage("0"), poptorch.Stage("1")),
    poptorch.Phase(poptorch.Stage("2"), poptorch.Stage("3")),
    poptorch.Phase(poptorch.Stage("4"), poptorch.Stage("5")),
)

strategy.phase(0).ipus(0, 2)
strategy.phase(1).ipus(1, 3)
strategy.phase(2).ipus(0, 2)

parallel = (strategy, ["0", "1", "2", "3", "4", "5"])

losses = []
for strategy, blocks in (serial, parallel):
    torch.manual_seed(0)
    opts = poptorch.Options().setExecutionStrategy(strategy)
    model = poptorch.trainingModel(Model(blocks), opts)
    x, target = torch.randn(2, 8, 4)
    losses.append([model(x, target)[1].item() for _ in range(3)])
    print(f"{type(strategy).__name__}:", losses[-1])
print("equal:", losses[0] == losses[1])
