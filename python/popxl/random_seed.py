"""Seeds on the host."""

import numpy as np


def uint64_to_two_uint32(x: int) -> tuple[int, int]:
    """The high and the low 32 bits."""
    return int(x) >> 32, int(x) & 0xFFFFFFFF


def two_uint32_to_uint64(x: tuple[int, int]) -> int:
    """The number of these high and low 32 bits."""
    return int(x[0]) << 32 | int(x[1])


def create_seeds(
    seed: int,
    offset: int = 0,
    batches_per_step: int = 1,
    gradient_accumulation_factor: int = 1,
    replicas: int = 1,
) -> np.ndarray:
    """Seeds for `ops` that draw random numbers, drawn by NumPy's default_rng(seed + offset).

    Returns uint32 of shape (batches_per_step, gradient_accumulation_factor, replicas, 2), without
    dimensions of size 1.
    """
    rng = np.random.default_rng(seed + offset)
    shape = (batches_per_step, gradient_accumulation_factor, replicas)
    drawn = rng.integers(0, np.iinfo(np.uint64).max, shape, dtype=np.uint64)
    words = np.stack([drawn >> np.uint64(32), drawn & np.uint64(0xFFFFFFFF)], axis=-1)
    return words.astype(np.uint32).squeeze()
