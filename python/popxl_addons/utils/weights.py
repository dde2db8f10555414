"""Data of variables: collected, written with a bar, and seeds."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import popxl


class WeightsDict(dict):
    """{variable: data}, each once and of the variable's shape on the host (ValueError)."""

    def __init__(self, data: "Mapping[popxl.Tensor, Any] | None" = None) -> None:
        super().__init__()
        self.update(data or {})

    def __setitem__(self, variable: Any, data: Any) -> None:
        if variable in self:
            raise ValueError(f"{variable!r} has data already.")
        if np.shape(data) != variable.shape_on_host:
            raise ValueError(
                f"{variable!r} takes data of shape {variable.shape_on_host} but got "
                f"{np.shape(data)}."
            )
        super().__setitem__(variable, data)

    def update(self, data: Any) -> None:  # type: ignore[override]
        """Adds all of `data`."""
        for variable, array in dict(data).items():
            self[variable] = array


def write_variables_pb(session: popxl.Session, weights: "Mapping[Any, Any]") -> None:
    """`session.write_variables_data(weights)`, one after the other under a progress bar.

    Without tqdm there is no bar.
    """
    items: Any = list(weights.items())
    try:
        from tqdm import tqdm

        items = tqdm(items, desc="Writing variables")
    except ImportError:
        pass
    for variable, data in items:
        session.write_variable_data(variable, data)


def seed_variable(
    seed: int, replica_grouping: "popxl.ReplicaGrouping | None" = None
) -> tuple[Any, np.ndarray]:
    """A variable of seeds, uint32 [2], and its data: one seed for each replica group.

    seed: what they are drawn from; see `popxl.create_seeds`.
    """
    rg = replica_grouping or popxl.gir().replica_grouping()
    data = popxl.create_seeds(seed, replicas=rg.num_groups)
    variable = popxl.variable(data, popxl.uint32, "seed", replica_grouping=rg)
    return variable, data
