"""Fits the constants that the cost model marks as fitted, on products and convolutions alone.

`python -m benchmarks.fidelity.fit [--seconds 300]` prints values for poptorch_cpp/target/
constants.cpp. A random search from the present values minimises the mean error, each limited.
"""

import argparse
import math
import random
import time

from poptorch_core import _core

from .products import convolution_points, product_points

LIMIT = 0.5  # of the logarithm of a ratio: points that no constant explains count no more
STEP = 0.15


def error(points, values):
    """Return the mean error, with a penalty for points outside a fifth."""
    total = 0.0
    for point in points:
        off = abs(math.log(point.predicted(values) / point.published))
        total += min(off, LIMIT) + (0.5 if off > math.log(1.2) else 0)
    return total / len(points)


def fit(seconds, seed=1):
    """Return the fitted values and their error."""
    draw = random.Random(seed)
    points = product_points() + convolution_points()
    values = {name: value for name, value, _, _, fitted in _core.cost_constants() if fitted}
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=300)
    fitted, remaining = fit(parser.parse_args().seconds)
    for constant, value in fitted.items():
        print(f"{constant:22} {value:.4g}")
    print(f"error {remaining:.4f}")
