"""Rotary position embeddings, and tables of their angles."""

import numpy as np
import popxl
from popxl import ops


def trig_table(
    max_position: int, rotary_dim: int, base: float = 10_000
) -> tuple[np.ndarray, np.ndarray]:
    """(sin, cos) of position / base^(2 i / rotary_dim): [max_position, rotary_dim / 2] float32.

    ValueError for an odd rotary_dim.
    """
    if rotary_dim % 2:
        raise ValueError(f"rotary_dim must be even but is {rotary_dim}.")
    frequencies = base ** (-np.arange(0, rotary_dim, 2) / rotary_dim)
    angles = np.arange(max_position)[:, None] * frequencies
    return np.sin(angles).astype(np.float32), np.cos(angles).astype(np.float32)


def trig_table_constant(
    max_position: int,
    rotary_dim: int,
    base: float = 10_000,
    dtype: popxl.dtype = popxl.float16,
) -> tuple[popxl.Tensor, popxl.Tensor]:
    """`trig_table` as constants of the current graph."""
    sin, cos = trig_table(max_position, rotary_dim, base)
    return popxl.constant(sin, dtype, "sin"), popxl.constant(cos, dtype, "cos")


def rotary_pos_embed(x: popxl.Tensor, sin: popxl.Tensor, cos: popxl.Tensor) -> popxl.Tensor:
    """Each pair of neighbours (2 i, 2 i + 1) of the last axis turned by its angle.

    x: [..., sequence, size]. sin, cos: [sequence, rotary_dim / 2] (`trig_tables`); what is behind
    rotary_dim stays. ValueError when they do not fit.
    """
    half = sin.shape[-1]
    rest = x.shape[-1] - 2 * half
    if sin.shape != cos.shape or sin.shape[0] != x.shape[-2] or rest < 0:
        raise ValueError(f"Angles {sin.shape}, {cos.shape} do not fit {x!r}.")
    turned = ops.slice(x, 0, 2 * half, 1, -1) if rest else x
    lead = x.shape[:-1]
    pairs = ops.reshape(turned, (*lead, half, 2))
    parts = ops.split(pairs, 2, axis=-1)
    even, odd = (ops.reshape(p, (*lead, half)) for p in parts)
    new = [even * cos - odd * sin, even * sin + odd * cos]
    joined = ops.concat([ops.reshape(t, (*lead, half, 1)) for t in new], axis=-1)
    out = ops.reshape(joined, (*lead, 2 * half))
    if not rest:
        return out
    return ops.concat([out, ops.slice(x, 2 * half, x.shape[-1], 1, -1)], axis=-1)
