"""Trains from a checkpoint, if there is one, and writes another after every step.

`restarted_program.py FOLDER KILLS`: each instance has a separate file, and all continue from the
last step that all have written. FOLDER/<instance>.end.pt has the weights and losses. KILLS says in
which start which instance kills itself in which step, as `instance:step,instance:step`.
"""

import os
import signal
import sys
from pathlib import Path

import popdist
import popdist.poptorch
import poptorch
import torch
from popdist import collectives

STEPS = 8
folder = Path(sys.argv[1])
kills = [tuple(map(int, kill.split(":"))) for kill in sys.argv[2].split(",") if kill]
attempt = int(os.environ.get("POPDIST_RESTART_COUNT", "0"))


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x):
        y = torch.nn.functional.dropout(self.layer(x), 0.25)
        return poptorch.identity_loss((y**2).mean(), reduction="none")


def checkpoint(step):
    return folder / f"{popdist.getInstanceIndex()}.{step}.pt"


popdist.init()
torch.manual_seed(0)
model = Network()
options = popdist.poptorch.Options().randomSeed(7)
optimizer = poptorch.optim.Adam(model.parameters(), lr=0.01)
training = poptorch.trainingModel(model, options, optimizer)
data = torch.utils.data.TensorDataset(torch.randn(32, 8))
loader = poptorch.DataLoader(
    options, data, batch_size=2, shuffle=True, auto_distributed_partitioning="by_replica"
)
own = max((step for step in range(STEPS + 1) if checkpoint(step).exists()), default=0)
step = int(collectives.all_reduce(torch.tensor(own), "min"))
losses = []
if step:
    kept = poptorch.load_checkpoint(checkpoint(step), training, optimizer, loader=loader)
    losses = kept.extra["losses"]
print(f"begins at step {step}", flush=True)
while step < STEPS:
    for (x,) in loader:
        if attempt < len(kills) and kills[attempt] == (popdist.getInstanceIndex(), step):
            os.kill(os.getpid(), signal.SIGKILL)
        losses.append(training(x).mean().item())
        step += 1
        poptorch.save_checkpoint(
            checkpoint(step), training, optimizer, step=step, loader=loader,
            extra={"losses": losses},
        )  # fmt: skip
        if step == STEPS:
            break
torch.save(
    {"losses": torch.tensor(losses), **model.state_dict()},
    folder / f"{popdist.getInstanceIndex()}.end.pt",
)
