"""Published microbenchmarks of matrix products and convolutions.

Sources: dense products of Graphcore's PopSparse benchmarks (read off a plot; the device is not
named and read as GC200, see docs/machine.md), and Jia et al., "Dissecting the Graphcore IPU via
Microbenchmarking", table 5.5 (GC2, float16).
Figures are TFLOP/s. Rows of that table with gaps are left out.
"""

from dataclasses import dataclass

from poptorch_core import _core

COLUMNS = (4, 16, 64, 256, 1024, 2048, 4096, 8192, 16384)
HALF = {
    1024: (6.2, 20.6, 46, 90, 121, 153, 180, 206, 223),
    2048: (13.1, 45, 83, 134, 166, 201, 212, 229, 235),
    4096: (18.5, 62, 131, 175, 206, 223, 229, 232),
    8192: (21.7, 73, 158, 223, 200, 220, 225),
}
SINGLE = {
    1024: (3.7, 11.1, 21.2, 34.3, 43.6, 49.9, 55.5, 57, 58.5),
    2048: (5.7, 18.0, 34.3, 44.8, 52.6, 57, 58.5, 60),
    4096: (7.1, 22.3, 41, 52.6, 55.5, 57, 58.5),
    8192: (7.7, 24.9, 48.5, 55.5, 54),
}
# (kernel, size, in, out, groups) → TFLOP/s with batch 1, 2, 4 ... 128.
CONVOLUTIONS = {
    (1, 56, 64, 64, 1): (11.9, 18.9, 26.7, 36.8, 46.0, 52.4, 55.9, 59.3),
    (3, 56, 64, 64, 1): (34.4, 45.8, 54.3, 65.2, 70.8, 73.4, 72.0, 66.4),
    (3, 28, 128, 128, 1): (29.8, 38.2, 47.0, 53.9, 56.6, 58.1, 55.9, 62.7),
    (1, 14, 256, 1024, 1): (20.7, 27.1, 34.9, 45.2, 56.5, 60.9, 57.9, 54.7),
    (3, 14, 256, 256, 1): (26.5, 33.0, 41.9, 47.9, 52.7, 52.8, 50.4, 51.5),
    (1, 7, 512, 2048, 1): (21.4, 27.9, 32.8, 42.7, 49.8, 57.7, 55.1, 53.4),
    (3, 56, 128, 128, 32): (0.9, 1.3, 1.6, 1.9, 2.1, 2.6, 0.7, 0.5),
    (3, 14, 512, 512, 32): (10.3, 15.8, 20.6, 33.0, 41.6, 45.7, 45.3, 50.1),
}


@dataclass(frozen=True)
class Point:
    """A published rate, and the shape that reached it."""

    name: str
    device: str
    sizes: dict[str, int]
    half: bool
    published: float
    unit: str = "TFLOP/s"

    def predicted(self, overrides: dict[str, float] | None = None) -> float:
        """Returns the rate of the cost model, with some of its constants replaced."""
        cost = _core.contraction_cost(self.device, self.sizes, self.half, overrides or {})
        cycles = sum(cost[term] for term in ("arithmetic", "vertex", "exchange", "sync"))
        return self.flops / cycles * _core.device_figures(self.device)["clock"] / 1e12

    @property
    def flops(self) -> float:
        flops = 2
        for name, size in self.sizes.items():
            flops *= size if name != "stride" else 1
        return flops


def product_points() -> list[Point]:
    """Returns the points of dense products (m × m) · (m × n)."""
    points = []
    for half, table in ((True, HALF), (False, SINGLE)):
        for m, rates in table.items():
            for n, rate in zip(COLUMNS, rates, strict=False):
                name = f"{m} × {m} × {n} {'float16' if half else 'float32'}"
                sizes = {"width": n, "inner": m, "outer": m}
                points.append(Point(name, "ipu2", sizes, half, rate))
    return points


def convolution_points() -> list[Point]:
    """Returns the points of convolutions."""
    points = []
    for (kernel, size, inner, outer, groups), rates in CONVOLUTIONS.items():
        for power, rate in enumerate(rates):
            batch = 2**power
            shape = f"{kernel} × {kernel}, {size}², {inner} → {outer}"
            name = f"{shape}, {groups} groups, batch {batch}"
            sizes = {
                "groups": groups, "batch": batch, "height": size, "width": size,
                "inner": inner // groups, "outer": outer // groups,
                "taps_y": kernel, "taps_x": kernel,
            }  # fmt: skip
            points.append(Point(name, "ipu1", sizes, True, rate))
    return points
