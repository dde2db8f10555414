"""What a piece of a report's advice is, and how its figures are written."""

from dataclasses import dataclass
from typing import Any

Data = dict[str, Any]

_UNITS = ("KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True)
class Advice:
    """kind: the rule. page: where the report shows it. text: a sentence with the figure. cure: an
    imperative. figure: in `unit`. ipu: which, or -1. loss: the share of a run's time that it costs,
    for the order; 1 and more where nothing runs."""

    kind: str
    page: str
    text: str
    cure: str
    figure: float
    unit: str
    ipu: int = -1
    loss: float = 0.0


def size(count: float) -> str:
    """Of bytes, in three digits and the units of the pages (`bytes` in format.js)."""
    if count < 1024:
        return f"{count:.0f} B"
    value, unit = count / 1024, 0
    while value >= 999.5 and unit + 1 < len(_UNITS):
        value, unit = value / 1024, unit + 1
    places = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:,.{places}f} {_UNITS[unit]}"


def percent(share: float) -> str:
    """Of a whole."""
    return f"{100 * share:.0f} %"


def is_popxl(data: Data) -> bool:
    """Whether what it advises must be PopXL's to be of use."""
    return data["model"]["kind"] == "popxl"
