"""Published microbenchmarks of exchange and links on GC2 (Jia et al.).

A time is in microseconds, a rate in GB/s, a share between 0 and 1.
"""

from dataclasses import dataclass

from poptorch_core import _core

TILES = 1216


@dataclass(frozen=True)
class Exchange:
    """A published figure of moving data, and the model's."""

    name: str
    published: float
    unit: str
    predicted: float


def microseconds(bytes_received: float) -> float:
    """Returns the time in which a tile receives so many bytes."""
    clock = _core.device_figures("ipu1")["clock"]
    return _core.exchange_cycles("ipu1", bytes_received) / clock * 1e6


def rate(bytes_received: float, paired: bool = False) -> float:
    """Returns the GB/s at which a tile receives a message."""
    clock = _core.device_figures("ipu1")["clock"]
    cycles = _core.exchange_cycles("ipu1", bytes_received, paired)
    return bytes_received / cycles * clock / 1e9


def pair_rate() -> float:
    """Returns the GB/s between two IPUs of a card."""
    clock = _core.device_figures("ipu1")["clock"]
    size = 1e9
    return size / _core.pair_cycles("ipu1", size) * clock / 1e9


def link_rate(links: int) -> float:
    """Returns the GB/s over so many of the ten links."""
    clock = _core.device_figures("ipu1")["clock"]
    size = 1e9
    return size / _core.link_cycles("ipu1", size) * clock / 1e9 * links / 10


def exchange_points() -> list[Exchange]:
    """Returns the published points of exchange beside the model's figures."""
    clock = _core.device_figures("ipu1")["clock"]
    peak = rate(1e9)
    link = _core.pair_cycles("ipu1", 4) / clock * 1e6
    points = [
        Exchange("one word, tile to tile, with sync", 0.133, "µs", microseconds(4)),
        Exchange("one word, all tiles to another, with sync", 0.165, "µs", microseconds(4)),
        Exchange("one word to the neighbouring IPU, with sync", 0.575, "µs", link),
        Exchange("large blocks, tile to tile", 6.34, "GB/s", peak),
        Exchange("large blocks, all tiles, each", 6.315, "GB/s", peak),
        Exchange("1 KiB, share of the peak rate", 0.30, "", rate(1024) / peak),
        Exchange("13 KiB, share of the peak rate", 0.90, "", rate(13 * 1024) / peak),
        Exchange("IPU to IPU on a card, 4 links", 55.0, "GB/s", pair_rate()),
        Exchange("IPU to IPU of another card, 2 links", 27.7, "GB/s", link_rate(2)),
        Exchange("broadcast of one word to the IPU", 0.194, "µs", microseconds(4)),
        Exchange("broadcast of 100 KiB to the IPU, each tile", 12.46, "GB/s", rate(102400, True)),
        Exchange("gather of one word from all tiles", 0.835, "µs", microseconds(4 * TILES)),
        Exchange("scatter of one word to all tiles", 0.927, "µs", microseconds(4 * TILES)),
    ]
    for tiles, published in ((76, 0.215), (152, 0.256), (304, 0.355), (608, 0.552)):
        name = f"one word from each of {tiles} tiles to each"
        points.append(Exchange(name, published, "µs", microseconds(4 * tiles)))
    return points
