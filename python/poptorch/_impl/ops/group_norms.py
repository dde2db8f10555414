"""The assignment of channels to the groups of a group norm."""

import contextlib
from collections.abc import Iterator
from unittest import mock

import torch
from poptorch.options import Options

OPTION = "groupNormStridedChannelGrouping"


@contextlib.contextmanager
def grouped(options: Options) -> Iterator[None]:
    """Sets the groups of group norms in the body.

    Channel c belongs to group c mod G with the session option OPTION, else to group c // (C / G).
    """
    if not options._Popart.options.get(OPTION):
        yield
        return
    plain = torch.group_norm

    def strided(
        input: torch.Tensor,
        num_groups: int,
        weight: torch.Tensor | None = None,
        bias: torch.Tensor | None = None,
        eps: float = 1e-5,
        cudnn_enabled: bool = True,
    ) -> torch.Tensor:
        """Applies torch.group_norm to reordered channels of the input [N, C, ...]."""
        width = input.shape[1] // num_groups
        apart = input.unflatten(1, (width, num_groups)).transpose(1, 2).flatten(1, 2)
        normal = plain(apart, num_groups, None, None, eps, cudnn_enabled)
        y = normal.unflatten(1, (num_groups, width)).transpose(1, 2).flatten(1, 2)
        channels = (-1,) + (1,) * (input.dim() - 2)
        if weight is not None:
            y = y * weight.to(y.dtype).view(channels)
        return y if bias is None else y + bias.to(y.dtype).view(channels)

    with mock.patch.object(torch, "group_norm", strided):
        yield
