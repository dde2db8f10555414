"""All-reduces for layers that are spread over replicas: identities one way.

group: replicas that share a layer; all of them by default.
"""

from typing import TypeAlias

import popxl
from popxl.ops.build import OpBuild, emit_in, with_gradient
from popxl.ops.collectives import collective_attrs

Group: TypeAlias = "popxl.ReplicaGrouping | None"
_NAME = "replicated_all_reduce_TP_out"


def reduced(t: popxl.Tensor, op: str, group: Group, way: str, name: str) -> popxl.Tensor:
    """`t` reduced "forward", its gradient "backward", or "both"; the other passes as it is."""
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
    """`t`, which is the same on all replicas of the group; the gradients are reduced by `op`.

    For the input of a layer whose outputs are spread over replicas.
    """
    return reduced(t, op, group, "backward", _NAME)


def replicated_all_reduce_identical_grad_inputs(
    t: popxl.Tensor, op: str = "add", group: Group = None
) -> popxl.Tensor:
    """`t` reduced over the group by `op`; the gradient, the same everywhere, passes as it is.

    For the output of a layer whose inputs are spread over replicas.
    """
    return reduced(t, op, group, "forward", _NAME)


def replicated_all_reduce(t: popxl.Tensor, op: str = "add", group: Group = None) -> popxl.Tensor:
    """`t` reduced over the group, and so are the gradients."""
    return reduced(t, op, group, "both", _NAME)
