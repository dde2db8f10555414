"""Pools of random shape agree with windows cut by NumPy, in which padding is NaN."""

import itertools
import warnings

import numpy as np
import popxl
import pytest
from popxl import ops
from program import run_graph


def laid_out(x, apart, low, high):
    """Returns x with its elements `apart` from each other, NaN between and around them, and spare
    room."""
    sizes = [(n - 1) * d + 1 for n, d in zip(x.shape[2:], apart, strict=True)]
    full = np.full((*x.shape[:2], *sizes), np.nan)
    full[(..., *[slice(None, None, d) for d in apart])] = x
    around = [(a, b + 20) for a, b in zip(low, high, strict=True)]
    return np.pad(full, [(0, 0), (0, 0), *around], constant_values=np.nan), sizes


def windows(n, kernel, stride, dilation, low, high, ceil_mode):
    """Returns where windows begin, as ONNX and torch count them."""
    span, room = (kernel - 1) * dilation + 1, n + low + high
    last = room - span + (stride - 1 if ceil_mode else 0)
    return [i for i in range(0, last + 1, stride) if not ceil_mode or i < n + low]


def pooled(x, reduce, empty, kernel, stride, low, high, dilation, apart, ceil_mode):
    full, sizes = laid_out(x, apart, low, high)
    forms = zip(sizes, kernel, stride, dilation, low, high, strict=True)
    starts = [windows(*form, ceil_mode) for form in forms]
    out = np.zeros((*x.shape[:2], *map(len, starts)))
    for place in itertools.product(*[range(len(s)) for s in starts]):
        cut = [
            slice(s[i], s[i] + (k - 1) * d + 1, d)
            for s, i, k, d in zip(starts, place, kernel, dilation, strict=True)
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of windows with padding alone
            value = reduce(full[(..., *cut)].reshape(*x.shape[:2], -1), -1)
        out[(..., *place)] = np.where(np.isnan(value), empty, value)
    return out


@pytest.mark.parametrize("seed", range(24))
def test_pools_take_windows_of_any_form(seed):
    rng = np.random.default_rng(seed)
    rank = rng.integers(1, 4)

    def draw(low, high):
        return tuple(rng.integers(low, high, rank).tolist())

    kernel, stride, dilation = draw(1, 4), draw(1, 4), draw(1, 3)
    low = tuple(int(rng.integers(0, k)) for k in kernel)
    high = low if seed % 2 else tuple(int(rng.integers(0, k)) for k in kernel)
    apart = draw(1, 4) if seed % 3 else (1,) * rank
    x = rng.normal(size=(2, 2, *draw(5, 7))).astype(np.float32)
    form = (kernel, stride, low, high, dilation, apart, bool(seed % 4 == 0))

    def both(t: popxl.Tensor):
        arguments = (kernel, stride, (*low, *high), None, dilation, apart, "not_set", form[-1])
        return ops.average_pool(t, *arguments), ops.max_pool(t, *arguments)

    mean, greatest = run_graph(both, x)
    np.testing.assert_allclose(mean, pooled(x, np.nanmean, 0, *form), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(greatest, pooled(x, np.nanmax, -np.inf, *form))
