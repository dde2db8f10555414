"""PopXL programs of R replicas, by name: the values that they leave in variables and return.

Each is called within the main graph with x of shape (WIDTH,), which differs between replicas, and
returns (variables, tensors).
"""

import numpy as np
import popxl
import popxl_addons as addons
from popxl import ops
from popxl.ops import collectives
from popxl_addons import named_replica_grouping as groupings

WIDTH = 6
CASES = {}


def for_replicas(least):
    """Registers a program for a multiple of `count` replicas."""

    def add(build):
        CASES[build.__name__] = (least, build)
        return build

    return add


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def by_group(rg):
    return numbers(*((rg.num_groups,) if rg.num_groups > 1 else ()), WIDTH)


def summed_into(rg, x, mode="one_per_group"):
    v = popxl.variable(by_group(rg), replica_grouping=rg, retrieval_mode=mode)
    ops.add_(v, collectives.replicated_all_reduce(x, "mean", rg if rg.is_const else rg.const_rg))
    return v


@for_replicas(2)
def groups_of_one(x):
    v = summed_into(popxl.gir().replica_grouping(group_size=1), x)
    return [v], [v + 1.0]


@for_replicas(2)
def one_group(x):
    return [summed_into(popxl.gir().replica_grouping(), x)], []


@for_replicas(2)
def replicas_that_differ_in_a_group(x):
    """A group's value is that of its first replica, on every instance."""
    rgs = [popxl.gir().replica_grouping(group_size=size) for size in (None, 2)]
    variables = [popxl.variable(by_group(rg), replica_grouping=rg) for rg in rgs]
    for v in variables:
        ops.add_(v, x)
    return variables, []


@for_replicas(2)
def all_replicas(x):
    rgs = [popxl.gir().replica_grouping(group_size=size) for size in (None, 2, 1)]
    variables = [summed_into(rg, x, "all_replicas") for rg in rgs]
    ops.add_(variables[0], x)
    return variables, []


@for_replicas(4)
def stride_and_group_of_four(x):
    replicas = popxl.gir().replication_factor
    strided = popxl.gir().replica_grouping(stride=replicas // 4, group_size=4)
    return [summed_into(strided, x), summed_into(strided.transpose(), x)], []


@for_replicas(4)
def irregular_groups(x):
    replicas = popxl.gir().replication_factor
    pattern = [0, 1, 1, 0]
    assignment = [4 * (r // 4) // 2 + pattern[r % 4] for r in range(replicas)]
    rg = popxl.gir().replica_grouping_from_assignments(assignment)
    return [summed_into(rg, x), summed_into(rg, x, "all_replicas")], []


def sharded(x, mode="one_per_group", **how):
    """Shards are gathered, summed with x, and scattered again."""
    rg = how.get("replica_grouping", popxl.gir().replica_grouping())
    v, shard = popxl.replica_sharded_variable(by_group(rg), retrieval_mode=mode, **how)
    over = how.get("shard_over", rg.group_size)
    within = popxl.gir().replica_grouping(rg.stride, over)
    scattered = collectives.replicated_reduce_scatter(x, "add", within, True)
    ops.add_(shard, scattered)
    return v, collectives.replicated_all_gather(shard, group=within)


@for_replicas(2)
def shards_over_all(x):
    v, whole = sharded(x)
    return [v], [whole]


@for_replicas(4)
def shards_over_two(x):
    strided = popxl.gir().replica_grouping(2)
    made = [sharded(x, mode, shard_over=2) for mode in ("one_per_group", "all_replicas")]
    made.append(sharded(x, replica_grouping=strided))
    return [v for v, _ in made], [whole for _, whole in made]


@for_replicas(2)
def remote_variables(x):
    variables = []
    for size in (None, 1):
        rg = popxl.gir().replica_grouping(group_size=size)
        for mode in ("one_per_group", "all_replicas"):
            buffer = popxl.remote_buffer((WIDTH,), popxl.float32, 2)
            variables.append(popxl.remote_variable(
                by_group(rg), buffer, 1, replica_grouping=rg, retrieval_mode=mode
            ))  # fmt: skip
            ops.remote_store(buffer, 1, ops.remote_load(buffer, 1) + x)
    buffer = popxl.replica_sharded_buffer((WIDTH,), popxl.float16)
    halves = numbers(WIDTH).astype(np.float16)
    variables.append(popxl.remote_replica_sharded_variable(halves, buffer))
    shard = ops.remote_load(buffer, 0)
    ops.remote_store(buffer, 0, shard * 2.0)
    return variables, [collectives.replicated_all_gather(shard)]


@for_replicas(2)
def other_types(x):
    """Has float16, integers and float8 per replica, in state and in a remote buffer."""
    own, variables = popxl.gir().replica_grouping(group_size=1), []
    data = np.round(numbers(popxl.gir().replication_factor, WIDTH) * 8)
    for dtype in (popxl.float16, popxl.int32, popxl.uint8):
        v = popxl.variable(np.abs(data), dtype, replica_grouping=own)
        ops.add_(v, ops.cast(ops.abs(x * 9.0), dtype))
        variables.append(v)
    buffer = popxl.remote_buffer((WIDTH,), popxl.float8_143)
    more = {"replica_grouping": own, "log2_scale": 0, "nan_on_overflow": False}
    variables.append(popxl.remote_variable(data, buffer, dtype=popxl.float8_143, **more))
    halves = ops.cast(x, popxl.float16)
    ops.remote_store(buffer, 0, ops.pow2scale_cast_to_fp8(halves, 1, popxl.float8_143))
    return variables, []


@for_replicas(4)
def every_collective(x):
    made = []
    replicas = popxl.gir().replication_factor
    for rg in (None, popxl.gir().replica_grouping(group_size=2),
               popxl.gir().replica_grouping(stride=replicas // 2, group_size=2)):  # fmt: skip
        made += [collectives.replicated_all_reduce(x, op, rg) for op in ("add", "mean", "max")]
        made += [collectives.replicated_all_gather(x, 0, rg)]
        made += [collectives.replicated_reduce_scatter(x, "add", rg)]
        made += [collectives.replica_sharded_slice(x, rg)]
    return [], made


@for_replicas(2)
def random_masks(x):
    seed = popxl.constant(np.array([7, 5], np.uint32))
    return [], [ops.dropout(x, seed, 0.5), ops.random_normal(seed, (WIDTH,))]


@for_replicas(4)
def scattered_within_and_summed_across(x):
    """Reduces tensors cut over pairs over the other replicas, directly and in three parts.

    Scatter within an instance, sum across instances and gather within must equal the direct sum. x
    holds integers, so that any order gives the same bits.
    """
    whole = ops.cast(ops.cast(x * 8.0, popxl.int32), popxl.float32)
    everywhere, here = popxl.gir().replication_factor, popxl.gir().instance_replication_factor
    others = popxl.gir().replica_grouping(stride=2)
    plain = collectives.replicated_all_reduce(whole, "add", others)
    if not groupings.is_cross_instance(others) or here == 1:
        return [], [plain, plain]
    within = groupings.get_instance_replica_grouping(others)
    across = popxl.gir().replica_grouping(stride=here, group_size=everywhere // here)
    assert within.group_size == here // 2
    part = collectives.replicated_reduce_scatter(whole, "add", within)
    part = collectives.replicated_all_reduce(part, "add", across)
    return [], [plain, ops.slice(collectives.replicated_all_gather(part, 0, within), 0, WIDTH)]


class Layer(addons.Module):
    def build(self, x, target):
        w = self.add_variable_input("w", lambda: numbers(WIDTH, WIDTH), popxl.float32)
        error = x @ w - target
        return ops.mean(error * error)


@for_replicas(2)
def trained(x):
    """Data parallel: gradients are averaged over all replicas."""
    rows = ops.reshape(x, (1, WIDTH))
    facts, graph = Layer().create_graph(rows, rows)
    backward = addons.autodiff(graph, grads_required=[graph.args.w])
    w = facts.init()
    call = graph.bind(w).call_with_info(rows, rows)
    (gradient,) = backward.call(1.0, args=backward.grad_graph_info.inputs_dict(call))
    gradient = collectives.replicated_all_reduce(gradient, "mean")
    ops.scaled_add_(w.w, gradient, b=-0.1)
    return [w.w], [call.outputs[0]]
