"""Advice on what does not fit: into an IPU, a group of its tiles, or Streaming Memory."""

import math
from collections.abc import Iterator

from poptorch_core.reports.advice_form import Advice, Data, is_popxl, size

_LEAST_IO_TILES, _MOST_IO_TILES = 32, 192
_GROUPS = {"compute": "tiles that compute", "io": "tiles for I/O"}


def ipus(data: Data) -> Iterator[Advice]:
    """An IPU needs more than it has."""
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
    """As many of them, from the first on, as save that much."""
    sentences, saved = [], 0
    for remedy in remedies:
        if saved >= over:
            break
        text = remedy["text"]
        sentences.append(f"{text[:1].upper()}{text[1:]}. It saves {size(remedy['saving'])}.")
        saved += remedy["saving"]
    if saved < over:
        sentences.append(f"{'Then put' if sentences else 'Put'} blocks of it on another IPU.")
    return " ".join(sentences)


def tile_groups(data: Data) -> Iterator[Advice]:
    """Tiles that are set apart for I/O hold what they transfer, and the others all the rest."""
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
                f"Set {count} tiles apart: {set_to}."
                if fits
                else "Let less of it overlap with computation, or put blocks on another IPU.",
                needed - capacity,
                "bytes",
                ipu,
                loss=1 + needed / capacity,
            )


def streaming(data: Data) -> Iterator[Advice]:
    """What is kept off the chips needs more than they have beside them."""
    memory = data["memory"]["streaming"]
    needed, capacity = memory["needed"], memory["capacity"]
    if needed > capacity:
        fewer = (
            "Keep fewer rows in remote buffers, or variables on the chip."
            if is_popxl(data)
            else "Keep more of it on the chip (options.TensorLocations), or let replicas share it: "
            "useReplicatedTensorSharding(True)."
        )
        yield Advice(
            "streaming_full",
            "memory",
            f"Streaming Memory would hold {size(needed)} but has {size(capacity)}: "
            f"{size(needed - capacity)} too much.",
            fewer,
            needed - capacity,
            "bytes",
            loss=1 + needed / max(capacity, 1),  # the first IPUs have none
        )
