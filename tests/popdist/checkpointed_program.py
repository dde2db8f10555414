"""Trains over all replicas with shuffled data, and saves a checkpoint or continues from one.

`checkpointed_program.py FOLDER REPLICAS save` writes FOLDER/checkpoint.pt after HALF of STEPS
steps. `checkpointed_program.py FOLDER REPLICAS CHECKPOINT` runs the rest of the steps. Both end
with FOLDER/<instance>.pt, as trained_program.py does.
"""

import sys

import popdist
import poptorch
import torch
from trained_program import ROWS, WIDTH, options_of, state_of, wrapped_of

VARIANT = "adam f32 mean grouped dropout"
STEPS, HALF = 8, 3  # a pass over the data has five

if __name__ == "__main__":
    folder, replicas, checkpoint = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    if popdist.isPopdistEnvSet():
        popdist.init()
    model, wrapped, optimiser = wrapped_of(VARIANT, replicas)
    data = torch.utils.data.TensorDataset(*torch.randn(2, 5 * ROWS * replicas, WIDTH))
    loader = poptorch.DataLoader(wrapped.options, data, batch_size=ROWS, shuffle=True,
                                 auto_distributed_partitioning="by_replica")  # fmt: skip
    made = 0
    if checkpoint != "save":
        torch.manual_seed(1)
        made = poptorch.load_checkpoint(checkpoint, wrapped, optimiser, loader=loader).step
    while made < STEPS:
        for batch in loader:
            outputs, _, _ = wrapped(*batch)
            made += 1
            if made == HALF and checkpoint == "save":
                poptorch.save_checkpoint(f"{folder}/checkpoint.pt", wrapped, optimiser,
                                         step=made, loader=loader)  # fmt: skip
            if made == STEPS:
                break
    found = {"outputs": outputs, **state_of(model, optimiser)}
    torch.save(found, f"{folder}/{options_of(replicas)[1]}.pt")
