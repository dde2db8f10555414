"""Advice on data that does not fit into an IPU, a group of its tiles, or Streaming Memory."""

import math
from collections.abc import Iterator

from poptorch_core.reports.advice_form import Advice, Data, is_popxl, size

_LEAST_IO_TILES, _MOST_IO_TILES = 32, 192
_GROUPS = {"compute": "compute tiles", "io": "IO tiles"}


def ipus(data: Data) -> Iterator[Advice]:
    """Yields advice for each IPU that needs more memory than it has."""
    for ipu, memory in enumerate(data["memory"]["ipus"]):
        needed, capacity = memory["needed"], memory["capacity"]
        if needed <= capacity:
            continue
        yield Advice(
            "does_not_fit",
            "memory",
            f"IPU {ipu} needs {size(needed)} but has {size(capacity)}: "
            f"{size(needed - capacity)} too much.",
            _cure(memory["remedies"], needed - capacity),
            needed - capacity,
            "bytes",
            ipu,
            loss=1 + needed / capacity,
        )


def _cure(remedies: list[Data], over: int) -> str:
    """Returns the first remedies that together save `over` bytes, as sentences."""
    sentences, saved = [], 0
    for remedy in remedies:
        if saved >= over:
            break
        text = remedy["text"]
        sentences.append(f"{text[:1].upper()}{text[1:]}. It saves {size(remedy['saving'])}.")
        saved += remedy["saving"]
    if saved < over:
        sentences.append(f"{'Then move' if sentences else 'Move'} blocks to another IPU.")
    return " ".join(sentences)


def tile_groups(data: Data) -> Iterator[Advice]:
    """Yields advice for compute tiles and IO tiles that need more memory than they have.

    IO tiles hold the data that they transfer; compute tiles hold all other data.
    """
    for ipu, memory in enumerate(data["memory"]["ipus"]):
        for group in memory["tile_groups"]:
            needed, capacity = group["needed"], group["capacity"]
            if needed <= capacity or memory["needed"] > memory["capacity"]:
                continue
            tiles = math.ceil(needed / (capacity / group["tiles"]))
            count = tiles if group["name"] == "io" else data["target"]["tiles"] - tiles
            count = 2 * math.ceil(count / 2) if group["name"] == "io" else 2 * (count // 2)
            fits = _LEAST_IO_TILES <= count <= _MOST_IO_TILES
            option = "session option numIOTiles" if is_popxl(data) else "options.TensorLocations"
            set_to = f"{option} = {count}" if is_popxl(data) else f"{option}.numIOTiles({count})"
            yield Advice(
                "tiles_full",
                "memory",
                f"The {group['tiles']:,} {_GROUPS[group['name']]} of IPU {ipu} need "
                f"{size(needed)} but have {size(capacity)}.",
                f"Reserve {count} IO tiles: {set_to}."
                if fits
                else "Overlap fewer transfers with computation, or move blocks to another IPU.",
                needed - capacity,
                "bytes",
                ipu,
                loss=1 + needed / capacity,
            )


def streaming(data: Data) -> Iterator[Advice]:
    """Yields advice if the data off the chips needs more than Streaming Memory has."""
    memory = data["memory"]["streaming"]
    needed, capacity = memory["needed"], memory["capacity"]
    if needed > capacity:
        fewer = (
            "Use remote buffers with fewer rows, or keep variables on the chip."
            if is_popxl(data)
            else "Keep more tensors on the chip (options.TensorLocations), or divide them among "
            "replicas: useReplicatedTensorSharding(True)."
        )
        yield Advice(
            "streaming_full",
            "memory",
            f"Streaming Memory would hold {size(needed)} but has {size(capacity)}: "
            f"{size(needed - capacity)} too much.",
            fewer,
            needed - capacity,
            "bytes",
            loss=1 + needed / max(capacity, 1),  # Mk1 IPUs have none
        )
