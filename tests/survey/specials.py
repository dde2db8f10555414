"""Special inputs that samples rarely contain: ties, kinks, zeros and the ends of the number range.

Each function makes another list of tensors from a sample's list; None if it has nothing to change.
"""

import torch

# Values where element-wise functions have kinks, poles, ends of domains and changes of formula.
POINTS = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 6.0, 20.0, -20.0)
EXTREMES = (float("inf"), float("-inf"), float("nan"), 1e30, -1e30, 1e-30, 100.0, -100.0, 300.0)

# Values of their samples must stay as they are: probabilities, special matrices.
KEPT = ("linalg", "cholesky", "lu_", "lu", "geqrf", "ormqr", "svd", "qr", "pinverse", "logdet",
    "triangular_solve", "matrix_exp", "bernoulli", "multinomial", "normal", "ctc_loss",
    "lobpcg", "pca_lowrank", "svd_lowrank", "histogramdd", "histogram", "histc", "block_diag",
    "grid_sample", "fractional", "inverse", "det", "slogdet", "sparse", "ormqr", "orgqr",
    "householder", "tensorinv", "tensorsolve", "masked.", "to_sparse", "stft", "istft",
    "binary_cross_entropy", "cdist", "polygamma", "zeta", "upsample", "interpolate",
    "ldexp")  # fmt: skip
LARGEST = 4096


def _is_kept(name: str, tensors) -> bool:
    words = name.removeprefix("nn.functional.")
    if any(words.startswith(kept) for kept in KEPT):
        return True
    floats = [t for t in tensors if t.is_floating_point()]
    largest = max((t.numel() for t in floats), default=0)
    return not 0 < largest <= LARGEST


def _changed(name: str, tensors, change):
    if _is_kept(name, tensors):
        return None
    return [change(i, t) if t.is_floating_point() else t.clone() for i, t in enumerate(tensors)]


def _pattern(values, offset: int, like: torch.Tensor) -> torch.Tensor:
    table = torch.tensor(values, dtype=torch.float64)
    # This stride gives every pair of values over two operands.
    index = (torch.arange(like.numel()) * (1 + offset) + offset) % len(values)
    return table[index].reshape(like.shape).to(like.dtype)


def rounded(name, tensors):
    """Rounds to integers: ties among neighbours, and kinks at integers."""
    return _changed(name, tensors, lambda _, t: t.round())


def equal(name, tensors):
    """Makes all values of each tensor equal."""
    return _changed(name, tensors, lambda _, t: torch.full_like(t, 2.0))


def zeros(name, tensors):
    """Makes all values zero."""
    return _changed(name, tensors, lambda _, t: torch.zeros_like(t))


def points(name, tensors):
    """Takes values at kinks, in all pairs."""
    return _changed(name, tensors, lambda i, t: _pattern(POINTS, 2 * i, t))


def extremes(name, tensors):
    """Takes infinities, NaN, and values whose squares leave the range."""
    return _changed(name, tensors, lambda i, t: _pattern(EXTREMES, 2 * i + 1, t))


SPECIALS = {f.__name__: f for f in (rounded, equal, zeros, points, extremes)}
