"""Groupings of replicas by instances and by the links between them."""

import popxl


def get_instance_replica_grouping(
    replicas: "int | None" = None, instances: int = 1
) -> popxl.ReplicaGrouping:
    """The replicas of each instance (process) as a group; one instance runs them all here.

    replicas: by default those of the current Ir. ValueError: the instances do not share evenly.
    """
    ir = popxl.gir()
    count = ir.replication_factor if replicas is None else replicas
    if count % instances:
        raise ValueError(f"{count} replicas cannot be shared by {instances} instances evenly.")
    return ir.replica_grouping(group_size=count // instances)


def get_ild_replica_grouping(replica_grouping: popxl.ReplicaGrouping) -> popxl.ReplicaGrouping:
    """The part of each group whose replicas are linked directly: all of it on the emulator."""
    return replica_grouping
