"""All-reduces for layers that are spread over replicas: identities one way.

group: replicas that share a layer; all of them by default.
"""

from typing import TypeAlias

import popxl
from popxl.ops.build import OpBuild, emit_in, with_gradient
from popxl.ops.collectives import collective_attrs

Group: TypeAlias = "popxl.ReplicaGrouping | None"


def _one_way(t: popxl.Tensor, op: str, group: Group, forward_reduces: bool) -> popxl.Tensor:
    attrs = collective_attrs(op, group)
    reduce = lambda g, v: [emit_in(g, "all_reduce", v[0], **attrs)]  # noqa: E731
    copy = lambda g, v: [emit_in(g, "identity", v[0])]  # noqa: E731
    b = OpBuild("ReplicatedAllReduce", t)
    ways = (reduce, copy) if forward_reduces else (copy, reduce)
    out = b.output(with_gradient(b, [t], *ways)[0], f"{t.name}_all_reduce")
    b.done()
    return out


def replicated_all_reduce_identical_inputs(
    t: popxl.Tensor, op: str = "add", group: Group = None
) -> popxl.Tensor:
    """`t`, which is the same on all replicas of the group; the gradients are reduced by `op`.

    For the input of a layer whose outputs are spread over replicas.
    """
    return _one_way(t, op, group, False)


def replicated_all_reduce_identical_grad_inputs(
    t: popxl.Tensor, op: str = "add", group: Group = None
) -> popxl.Tensor:
    """`t` reduced over the group by `op`; the gradient, the same everywhere, passes as it is.

    For the output of a layer whose inputs are spread over replicas.
    """
    return _one_way(t, op, group, True)


def replicated_all_reduce(t: popxl.Tensor, op: str = "add", group: Group = None) -> popxl.Tensor:
    """`t` reduced over the group, and so are the gradients."""
    return popxl.ops.collectives.replicated_all_reduce(t, op, group)
