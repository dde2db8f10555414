"""Rotary position embeddings, and tables of their angles."""

from typing import Any

import numpy as np
import popxl
from popxl import ops


def trig_tables(
    seq_len: int, rotary_dim: int, base: float = 10_000, np_dtype: Any = "float32"
) -> tuple[np.ndarray, np.ndarray]:
    """Returns (sin, cos) of position / base^(2 i / rotary_dim): [seq_len, rotary_dim / 2].

    Raises:
        ValueError: rotary_dim is odd.
    """
    if rotary_dim % 2:
        raise ValueError(f"rotary_dim must be even but is {rotary_dim}.")
    frequencies = base ** (-np.arange(0, rotary_dim, 2) / rotary_dim)
    angles = np.arange(seq_len)[:, None] * frequencies
    return np.sin(angles).astype(np_dtype), np.cos(angles).astype(np_dtype)


def trig_table_constants(
    seq_len: int,
    rotary_dim: int,
    base: float = 10_000,
    dtype: popxl.dtype = popxl.float32,
) -> tuple[popxl.Tensor, popxl.Tensor]:
    """Returns `trig_tables` as constants of the current graph."""
    sin, cos = trig_tables(seq_len, rotary_dim, base)
    return popxl.constant(sin, dtype, "sin"), popxl.constant(cos, dtype, "cos")


def rotary_pos_embed(
    t: popxl.Tensor, sin: popxl.Tensor, cos: popxl.Tensor, rotary_dim: "int | None" = None
) -> popxl.Tensor:
    """Rotates each pair of neighbours (2 i, 2 i + 1) of the last axis by its angle.

    Args:
        t: [..., sequence, size].
        sin: [sequence, rotary_dim / 2], from `trig_tables`.
        cos: [sequence, rotary_dim / 2], from `trig_tables`.
        rotary_dim: The number of rotated elements; by default twice the columns of sin. The other
            elements are unchanged.

    Raises:
        ValueError: The shapes do not fit.
    """
    half = sin.shape[-1]
    rest = t.shape[-1] - 2 * half
    wrong = rotary_dim is not None and rotary_dim != 2 * half
    if wrong or sin.shape != cos.shape or sin.shape[0] != t.shape[-2] or rest < 0:
        raise ValueError(f"Angles {sin.shape}, {cos.shape} do not fit {t!r}, {rotary_dim=}.")
    turned = ops.slice(t, 0, 2 * half, 1, -1) if rest else t
    lead = t.shape[:-1]
    pairs = ops.reshape(turned, (*lead, half, 2))
    parts = ops.split(pairs, 2, axis=-1)
    even, odd = (ops.reshape(p, (*lead, half)) for p in parts)
    new = [even * cos - odd * sin, even * sin + odd * cos]
    joined = ops.concat([ops.reshape(x, (*lead, half, 1)) for x in new], axis=-1)
    out = ops.reshape(joined, (*lead, 2 * half))
    if not rest:
        return out
    return ops.concat([out, ops.slice(t, 2 * half, t.shape[-1], 1, -1)], axis=-1)
