"""Prints the microbenchmarks: ours beside the published figures."""

from .exchange import exchange_points
from .products import convolution_points, product_points

WITHIN = 0.2
# Reasons for points that the model misses, by the beginning of their names.
REASONS = {
    "3 × 3, 56², 128 → 128, 32 groups": "groups of 4 channels did not use the matrix units: 0.7 to "
    "2.1 % of the peak, less with a larger batch; 16 channels in a group reach 40 %",
    "1 KiB": "the same table gives 0.17 µs for a message of one word, start included: 1 KiB at the "
    "peak rate takes 0.16 µs, half of the sum",
}


def families():
    """Returns the points of each family by its title, as (name, unit, published, ours)."""
    return {
        "Matrix products (GC200)": _rows(product_points()),
        "Convolutions (GC2)": _rows(convolution_points()),
        "Exchange and links (GC2)": [
            (point.name, point.unit, point.published, point.predicted)
            for point in exchange_points()
        ],
    }


def _rows(points):
    return [(point.name, point.unit, point.published, point.predicted()) for point in points]


def is_within(published, ours):
    """Returns whether our figure is within a fifth of the published one."""
    return abs(ours / published - 1) <= WITHIN


def share_within(rows):
    """Returns the share of points that are within a fifth."""
    return sum(is_within(published, ours) for _, _, published, ours in rows) / len(rows)


def print_micro():
    """Prints every point; returns the share of all that are within a fifth."""
    everything = []
    for title, rows in families().items():
        print(f"{title}\n{'':52}{'published':>10}{'ours':>10}{'ratio':>8}")
        for name, unit, published, ours in rows:
            mark = "" if is_within(published, ours) else "  outside"
            print(f"{name:52}{published:10.3g}{ours:10.3g}{ours / published:8.2f} {unit}{mark}")
        print(f"{share_within(rows):.1%} of {len(rows)} within {WITHIN:.0%}\n")
        everything += rows
    for name, reason in REASONS.items():
        print(f"{name}: {reason}")
    share = share_within(everything)
    print(f"\nAll: {share:.1%} of {len(everything)} within {WITHIN:.0%}")
    return share
