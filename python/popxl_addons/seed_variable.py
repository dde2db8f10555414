"""The variable of random seeds."""

from typing import Any

import popxl
from popxl.context import get_current_graph
from popxl.remote_variable import show_transfers
from popxl.tensor_base import make_tensor


def seed_variable(
    seed: int, replica_grouping: "popxl.ReplicaGrouping | None" = None
) -> tuple[Any, popxl.Tensor]:
    """A variable "random_seed" of seeds, and the tensor, uint32 (2,), by which ops have them.

    What is written into the tensor is the variable's when weights go to the host; the program shows
    a load when they come from there, and a store. seed: what the
    seeds, one for each replica group, are drawn from; see `popxl.create_seeds`. replica_grouping:
    by default each replica is a group.
    """
    rg = replica_grouping or popxl.gir().replica_grouping(group_size=1)
    data = popxl.create_seeds(seed, replicas=rg.num_groups)
    variable = popxl.variable(data, popxl.uint32, "random_seed", replica_grouping=rg)
    name = f"{variable.name}_loaded"
    loaded = make_tensor(popxl.Tensor, get_current_graph(), name, base=variable, spec=variable.spec)
    show_transfers(loaded, variable.name)
    return variable, loaded
