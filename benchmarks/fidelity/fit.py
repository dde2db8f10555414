"""Fits the constants that the cost model marks as fitted.

`python -m benchmarks.fidelity.fit [--seconds 150]` prints values for products and convolutions,
fitted to their microbenchmarks alone. A random search from the present values minimises the mean
error, each limited.
`python -m benchmarks.fidelity.fit --training` then prints the factor of operations on elements and
the efficiency of Streaming Memory. They minimise the mean absolute logarithm of ratios over the
training rows that are not marked; marked rows are never compiled.
"""

import argparse
import itertools
import math
import random
import time

from poptorch_core import _core

from .products import convolution_points, product_points

LIMIT = 0.5  # of the logarithm of a ratio: points that no constant explains count no more
STEP = 0.15
FACTOR, EFFICIENCY = "element_factor", "streaming_efficiency"
# The factor of the vendor's figures is at least 1; an efficiency is at most 1.
FACTORS = [1 + 0.05 * step for step in range(121)]
EFFICIENCIES = [0.02 * 1.05**step for step in range(81) if 0.02 * 1.05**step <= 1]
ROUNDS = 4


def error(points, values):
    """Returns the mean error, with a penalty for points outside a fifth."""
    total = 0.0
    for point in points:
        off = abs(math.log(point.predicted(values) / point.published))
        total += min(off, LIMIT) + (0.5 if off > math.log(1.2) else 0)
    return total / len(points)


def fit(seconds, seed=1):
    """Returns the fitted values of products and convolutions, and their error."""
    draw = random.Random(seed)
    points = product_points() + convolution_points()
    values = {
        name: value
        for name, value, _, _, fitted in _core.cost_constants()
        if fitted and name not in (FACTOR, EFFICIENCY)
    }
    least = error(points, values)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        tried = dict(values)
        for name in draw.sample(sorted(values), draw.choice((1, 1, 2, 3))):
            tried[name] *= math.exp(draw.gauss(0, STEP))
        found = error(points, tried)
        if found < least:
            least, values = found, tried
    return values, least


def training_times(factor, efficiency):
    """Returns ours ÷ published of the time of a sample, for each row that is not marked."""
    from .predict import predict
    from .rows import rows

    _core.replace_constant(FACTOR, factor)
    _core.replace_constant(EFFICIENCY, efficiency)
    return [1 / predict(row).ratio for row in rows() if not row.marked]


def best_of_grid(times, factor, efficiency):
    """Returns the pair of the grid with the least error, and that error.

    Times at the pair and beside it are continued in a straight line: they are sums of a part in
    proportion to the factor, a part in inverse proportion to the efficiency, and others.
    """
    middle, by_factor, by_efficiency = times

    def error_at(pair):
        steps = (pair[0] / factor - 1) / 0.25, (efficiency / pair[1] - 1) / -0.5
        total = 0.0
        for m, f, e in zip(middle, by_factor, by_efficiency, strict=True):
            total += abs(math.log(max(m + steps[0] * (f - m) + steps[1] * (e - m), 0.01)))
        return total / len(middle)

    best = min(itertools.product(FACTORS, EFFICIENCIES), key=error_at)
    return best, error_at(best)


def fit_training():
    """Returns the factor and the efficiency with the least error found, and that error."""
    pair, found = (2.0, 0.8), []
    for _ in range(ROUNDS):
        middle = training_times(*pair)
        found.append((sum(abs(math.log(time)) for time in middle) / len(middle), pair))
        print(f"{FACTOR} {pair[0]:.4g} {EFFICIENCY} {pair[1]:.4g} error {found[-1][0]:.4f}",
              flush=True)  # fmt: skip
        beside = training_times(1.25 * pair[0], pair[1]), training_times(pair[0], 2 * pair[1])
        pair, _ = best_of_grid((middle, *beside), *pair)
        if any(pair == earlier for _, earlier in found):
            break
    least, pair = min(found)
    return *pair, least


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--training", action="store_true", help="the constants of training rows")
    given = parser.parse_args()
    if given.training:
        best_factor, best_efficiency, remaining = fit_training()
        print(f"{FACTOR:22} {best_factor:.4g}\n{EFFICIENCY:22} {best_efficiency:.4g}")
    else:
        fitted, remaining = fit(given.seconds)
        for constant, value in fitted.items():
            print(f"{constant:22} {value:.4g}")
    print(f"error {remaining:.4f}")
