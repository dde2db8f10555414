"""Trains on all instances, and pauses after the first step until a file is there.

`stepping_program.py GO [STEPS [DEADLINE]]`: after the first step it prints its process, and
continues when the file GO exists, for STEPS (1) further ones; then it prints a weight. STEPS "for
ever": it prints "steps" after the third one. DEADLINE: seconds that the model's instances wait for
each other, once all have joined.
"""

import os
import sys
import time

import popdist
import popdist.poptorch
import poptorch
import torch


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        return poptorch.identity_loss(self.layer(x) ** 2, "mean")


go = sys.argv[1]
steps = sys.argv[2] if len(sys.argv) > 2 else "1"
popdist.init()
if len(sys.argv) > 3:
    os.environ["POPLAR_ENGINE_OPTIONS"] = f'{{"target.hostSyncTimeout": "{sys.argv[3]}"}}'
torch.manual_seed(0)
network = Network()
options = popdist.poptorch.Options()
model = poptorch.trainingModel(
    network, options, optimizer=poptorch.optim.SGD(network.parameters(), lr=0.1)
)
rows = torch.ones(popdist.getNumLocalReplicas(), 4)
model.compile(rows)
popdist.synchronize()
model(rows)
print(os.getpid(), flush=True)
while not os.path.exists(go):
    time.sleep(0.01)
step = 0
while steps == "for ever":
    model(rows)
    step += 1
    if step == 3:
        print("steps", flush=True)
for _ in range(int(steps)):
    model(rows)
print(float(network.layer.weight.detach()[0, 0]))
