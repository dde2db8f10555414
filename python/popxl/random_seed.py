"""Seeds on the host."""

import numpy as np

MAX_UINT32 = 2**32 - 1
MAX_UINT64 = 2**64 - 1


def _checked(number: int, most: int) -> int:
    if not 0 <= number <= most:
        raise ValueError(f"The number must be from 0 to {most} but is {number}.")
    return int(number)


def uint64_to_two_uint32(num: int) -> tuple[int, int]:
    """Returns the high and the low 32 bits. Raises ValueError unless it is a uint64."""
    num = _checked(num, MAX_UINT64)
    return num >> 32, num & MAX_UINT32


def two_uint32_to_uint64(a: int, b: int) -> int:
    """Returns the number with the high bits a and the low bits b.

    Raises:
        ValueError: One is negative or has more than 32 bits.
    """
    return _checked(a, MAX_UINT32) << 32 | _checked(b, MAX_UINT32)


def create_seeds(
    seed: int,
    offset: int = 0,
    batches_per_step: int = 1,
    gradient_accumulation_factor: int = 1,
    replicas: int = 1,
) -> np.ndarray:
    """Returns seeds for `ops` that draw random numbers, from NumPy's default_rng(seed + offset).

    Args:
        seed: The seed of the generator.
        offset: The number that is added to the seed.
        batches_per_step: The size of the first dimension.
        gradient_accumulation_factor: The size of the second dimension.
        replicas: The size of the third dimension.

    Returns:
        uint32 of shape (batches_per_step, gradient_accumulation_factor, replicas, 2), without
        dimensions of size 1.
    """
    rng = np.random.default_rng(seed + offset)
    shape = (batches_per_step, gradient_accumulation_factor, replicas)
    drawn = rng.integers(0, np.iinfo(np.uint64).max, shape, dtype=np.uint64)
    words = np.stack([drawn >> np.uint64(32), drawn & np.uint64(0xFFFFFFFF)], axis=-1)
    return words.astype(np.uint32).squeeze()
