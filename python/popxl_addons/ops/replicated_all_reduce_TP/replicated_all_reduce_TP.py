"""All-reduces for layers that are spread over replicas; forward or backward may be an identity.

Common argument:
    group: The replicas that share a layer; by default all.
"""

from typing import TypeAlias

import popxl
from popxl.ops.build import OpBuild, emit_in, with_gradient
from popxl.ops.collectives import collective_attrs

Group: TypeAlias = "popxl.ReplicaGrouping | None"
_NAME = "replicated_all_reduce_TP_out"


def reduced(t: popxl.Tensor, op: str, group: Group, way: str, name: str) -> popxl.Tensor:
    """Reduces `t` ("forward"), its gradient ("backward"), or "both"; the other is unchanged."""
    attrs = collective_attrs(op, group)
    reduce = lambda g, v: [emit_in(g, "all_reduce", v[0], **attrs)]  # noqa: E731
    copy = lambda g, v: [emit_in(g, "identity", v[0])]  # noqa: E731
    b = OpBuild("ReplicatedAllReduce", t)
    ways = {"forward": (reduce, copy), "backward": (copy, reduce), "both": (reduce, reduce)}
    out = b.output(with_gradient(b, [t], *ways[way])[0], name)
    b.done()
    return out


def replicated_all_reduce_identical_inputs(
    t: popxl.Tensor, op: str = "add", group: Group = None
) -> popxl.Tensor:
    """Returns `t`, which is equal on all replicas of the group; `op` reduces the gradients.

    It is for the input of a layer whose outputs are spread over replicas.
    """
    return reduced(t, op, group, "backward", _NAME)


def replicated_all_reduce_identical_grad_inputs(
    t: popxl.Tensor, op: str = "add", group: Group = None
) -> popxl.Tensor:
    """Reduces `t` over the group by `op`; the gradient, equal on all replicas, is unchanged.

    It is for the output of a layer whose inputs are spread over replicas.
    """
    return reduced(t, op, group, "forward", _NAME)


def replicated_all_reduce(t: popxl.Tensor, op: str = "add", group: Group = None) -> popxl.Tensor:
    """Reduces `t` and its gradients over the group."""
    return reduced(t, op, group, "both", _NAME)
