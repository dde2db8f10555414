"""Writes and reads files of PopXL sessions in several instances: `popxl_files.py FOLDER REPLICAS`.

It trains with memory-mapped and other variables, and writes FOLDER/saved, and
FOLDER/loaded.<instance>.npz of a new session that has read FOLDER/saved. Without a launcher one
process has all replicas.
"""

import sys
from pathlib import Path

import numpy as np
import popdist
import popxl
import popxl_addons as addons
from popxl import ops

folder, replicas = Path(sys.argv[1]), int(sys.argv[2])
drawn = np.random.default_rng(3)


def session():
    """Makes two variables for groups of two, one sharded and memory-mapped; one without file."""
    ir = popxl.Ir("popdist" if popdist.isPopdistEnvSet() else replicas)
    with ir.main_graph, popxl.in_sequence():
        pairs = ir.replica_grouping(group_size=2)
        uniform = lambda: drawn.uniform(-1, 1, 4).astype(np.float32)  # noqa: E731
        plain = addons.VariableFactory(uniform, name="plain", replica_grouping=pairs)
        mapped = addons.VariableFactory(uniform, name="mapped")
        grouped = addons.VariableFactory(uniform, name="grouped", replica_grouping=pairs)
        p, m = plain.create_tensor(), mapped.create_tensor(memmap_dir=folder / "maps")
        g = grouped.create_tensor(memmap_dir=folder / "maps")
        x = popxl.h2d_stream((4,), popxl.float32, "x")
        loaded = ops.host_load(x)
        for v in (p, m, g):
            ops.add_(v, ops.collectives.replicated_all_reduce(
                loaded, "mean", None if v is m else pairs
            ))  # fmt: skip
    state = addons.NamedTensors.from_dict({"plain": p, "mapped": m, "grouped": g})
    made = addons.TaskSession([x], [], state, ir=ir, device_desc="ipu_hw")
    made.x = x
    return made


def rows(ir, seed):
    whole = np.random.default_rng(seed).uniform(-1, 1, (replicas, 4)).astype(np.float32)
    count, first = ir.instance_replication_factor, popdist.getReplicaIndexOffset()
    return whole[first] if count == 1 else whole[first : first + count]


with session() as first:
    for step in range(3):
        first.run({first.x: rows(first.ir, step)})
    first.save_checkpoint(folder / "old")
    first.run({first.x: rows(first.ir, 3)})
    first.save_checkpoint(folder / "saved")
assert not (folder / "old").exists() and (folder / "saved").is_dir()
second = session()
assert second.session_state == {"steps": 0}
second.load_checkpoint(folder / "saved")
assert second.session_state == {"steps": 4}
with second:
    second.run({second.x: rows(second.ir, 4)})
data = second.get_named_tensors_data().to_dict()
np.savez(folder / f"loaded.{popdist.getInstanceIndex()}.npz", **data)
