"""Runs the programs of popxl_cases over all replicas.

`popxl_program.py FOLDER REPLICAS [CASE ...]` writes FOLDER/<instance>.npz: outputs and variables of
each case. Without a launcher one process has all replicas.
"""

import sys

import numpy as np
import popdist
import popxl
from popxl import ops
from popxl_cases import CASES, WIDTH, numbers

RUNS = 2


def local(array, ir):
    """Returns the rows of this instance's replicas; a single replica has no dimension."""
    count, first = ir.instance_replication_factor, popdist.getReplicaIndexOffset()
    own = array[:, first : first + count]
    return own[:, 0] if count == 1 else own


def results(build, replicas, transfers=2):
    """Returns results of the last of RUNS, and variables then and after a write and fetch."""
    ir = popxl.Ir("popdist" if popdist.isPopdistEnvSet() else replicas)
    assert ir.replication_factor == replicas
    assert ir.instance_replication_factor == replicas // popdist.getNumInstances()
    ir.num_host_transfers = transfers
    with ir.main_graph, popxl.in_sequence():
        stream = popxl.h2d_stream((WIDTH,), popxl.float32)
        total = popxl.constant(np.zeros(WIDTH, np.float32))
        inputs = [ops.host_load(stream) for _ in range(transfers)]
        back = popxl.d2h_stream((WIDTH,), popxl.float32)
        for x in inputs:
            ops.host_store(back, x)
            total = total + x
        variables, tensors = build(total)
        streams = [popxl.d2h_stream(t.shape, t.dtype) for t in tensors]
        for out, tensor in zip(streams, tensors, strict=True):
            ops.host_store(out, tensor)
    found = {}
    with popxl.Session(ir, "ipu_hw") as session:
        for run in range(RUNS):
            rows = local(numbers(transfers, replicas, WIDTH, seed=run), ir)
            given = session.run({stream: rows})
        assert np.array_equal(given[back], rows)
        shape = session.create_host_outputs()[back].shape
        assert shape[1:-1] == (() if ir.instance_replication_factor == 1 else
                               (ir.instance_replication_factor,))  # fmt: skip
        for i, out in enumerate(streams):
            found[f"output {i}"] = given[out][:1]  # there is one transfer of it
        for i, v in enumerate(variables):
            found[f"variable {i}"] = session.get_tensor_data(v).copy()
            assert v.retrieval_mode == "all_replicas" or found[f"variable {i}"].shape == (
                v.shape_on_host
            )
        plain = [v for v in variables if v.retrieval_mode == "one_per_group"]
        now = {v: session.get_tensor_data(v) for v in plain}
        # numpy has no float8 arithmetic
        session.write_variables_data(
            {v: a.copy() if a.dtype.names else a * 2 for v, a in now.items()}
        )
        session.run({stream: rows})
    for i, v in enumerate(variables):
        found[f"variable {i} at the end"] = session.get_tensor_data(v)
    return found


if __name__ == "__main__":
    folder, number = sys.argv[1], int(sys.argv[2])
    names = sys.argv[3:] or [name for name, (least, _) in CASES.items() if number % least == 0]
    arrays = {}
    for name in names:
        for key, value in results(CASES[name][1], number).items():
            arrays[f"{name}: {key}"] = value
    np.savez(f"{folder}/{popdist.getInstanceIndex()}.npz", **arrays)
