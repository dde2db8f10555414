"""The variable of random seeds."""

from typing import Any

import popxl
from popxl.context import get_current_graph
from popxl.remote_variable import show_transfers
from popxl.tensor_base import make_tensor


def seed_variable(
    seed: int, replica_grouping: "popxl.ReplicaGrouping | None" = None
) -> tuple[Any, popxl.Tensor]:
    """Makes a variable "random_seed" of seeds, and a uint32 tensor (2,) of them for ops.

    Writes to the tensor change the variable when weights are fetched. The program shows a load when
    weights are sent from the host, and a store when they are fetched.

    Args:
        seed: The source of the seeds, one for each replica group; see `popxl.create_seeds`.
        replica_grouping: The groups; by default each replica is a group.

    Returns:
        The variable and the tensor.
    """
    rg = replica_grouping or popxl.gir().replica_grouping(group_size=1)
    data = popxl.create_seeds(seed, replicas=rg.num_groups)
    variable = popxl.variable(data, popxl.uint32, "random_seed", replica_grouping=rg)
    name = f"{variable.name}_loaded"
    loaded = make_tensor(popxl.Tensor, get_current_graph(), name, base=variable, spec=variable.spec)
    show_transfers(loaded, variable.name)
    return variable, loaded
