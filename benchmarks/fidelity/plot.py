"""Plots the microbenchmarks: published points, the cost model's curves, and the residuals."""

from pathlib import Path

from .exchange import exchange_points
from .micro import WITHIN, share_within
from .products import convolution_points, product_points

IMAGE = Path(__file__).parents[2] / "docs" / "images" / "microbenchmarks.svg"


def _series(points, key, x):
    """Returns points by the key of their sizes, as (x, published, ours) in the order of x."""
    found: dict[str, list] = {}
    for point in points:
        row = (point.sizes[x], point.published, point.predicted())
        found.setdefault(key(point), []).append(row)
    return {name: sorted(rows) for name, rows in found.items()}


def _product_name(point):
    return f"{point.sizes['inner']:,}"


def _convolution_name(point):
    sizes = point.sizes
    groups = f", {sizes['groups']} groups" if sizes["groups"] > 1 else ""
    return (
        f"{sizes['taps_x']}×{sizes['taps_y']}, {sizes['width']}², "
        f"{sizes['inner'] * sizes['groups']}→{sizes['outer'] * sizes['groups']}{groups}"
    )


def _draw_rates(axes, series, title, x_label):
    """Draws published points as markers and ours as lines."""
    for index, (name, rows) in enumerate(series.items()):
        sizes, published, ours = zip(*rows, strict=True)
        color = f"C{index}"
        axes.plot(sizes, ours, color=color, linewidth=1, label=name)
        axes.plot(sizes, published, "o", color=color, markersize=4)
    axes.set(xscale="log", yscale="log", title=title, xlabel=x_label, ylabel="TFLOP/s")
    axes.set_xscale("log", base=2)
    axes.legend(fontsize=6)


def _draw_exchange(axes):
    points = exchange_points()
    places = range(len(points))
    axes.barh(places, [point.predicted / point.published for point in points], color="C0")
    axes.set_yticks(places, [point.name for point in points], fontsize=6)
    axes.axvspan(1 - WITHIN, 1 + WITHIN, color="0.85", zorder=0)
    axes.invert_yaxis()
    axes.set(title="Exchange and links, GC2", xlabel="ours ÷ published")


def _draw_residuals(axes, families):
    """Draws each point's ratio over the published figure."""
    axes.axhspan(1 - WITHIN, 1 + WITHIN, color="0.85", zorder=0)
    for name, rows in families.items():
        share = share_within([("", "", published, ours) for _, published, ours in rows])
        axes.plot(
            [published for _, published, _ in rows],
            [ours / published for _, published, ours in rows],
            "o", markersize=3, label=f"{name}: {share:.0%} of {len(rows)} within {WITHIN:.0%}",
        )  # fmt: skip
    axes.set(xscale="log", yscale="log", title="Residuals", xlabel="published TFLOP/s",
             ylabel="ours ÷ published", ylim=(0.2, 20))  # fmt: skip
    axes.legend(fontsize=6)


def write_plot(path: Path = IMAGE) -> None:
    """Writes the plot as an SVG."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update(
        {"svg.hashsalt": "microbenchmarks", "svg.fonttype": "none", "font.size": 8}
    )
    from matplotlib import pyplot

    products, convolutions = product_points(), convolution_points()
    half = _series([p for p in products if p.half], _product_name, "width")
    single = _series([p for p in products if not p.half], _product_name, "width")
    images = _series(convolutions, _convolution_name, "batch")
    figure, axes = pyplot.subplots(3, 2, figsize=(9, 10), layout="constrained")
    columns = "columns; a curve for each size of the square matrix"
    _draw_rates(axes[0, 0], half, "Products in float16, GC200", columns)
    _draw_rates(axes[0, 1], single, "Products in float32, GC200", columns)
    plain = {name: rows for name, rows in images.items() if "groups" not in name}
    grouped = {name: rows for name, rows in images.items() if "groups" in name}
    _draw_rates(axes[1, 0], plain, "Convolutions in float16, GC2", "batch")
    _draw_rates(axes[1, 1], grouped, "Grouped convolutions in float16, GC2", "batch")
    _draw_exchange(axes[2, 0])
    families = {"products in float16": half, "products in float32": single,
                "convolutions": plain, "grouped convolutions": grouped}  # fmt: skip
    _draw_residuals(axes[2, 1], {name: sum(some.values(), []) for name, some in families.items()})
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
