"""The structure of a piece of advice in a report, and the format of its figures."""

from dataclasses import dataclass
from typing import Any

Data = dict[str, Any]

_UNITS = ("KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True)
class Advice:
    """A piece of advice.

    Attributes:
        kind: The rule.
        page: The page of the report that shows it.
        text: A sentence with the figure.
        cure: Advice, in the imperative.
        figure: The figure, in `unit`.
        unit: The unit of the figure.
        ipu: The IPU that it is about, or -1.
        loss: The share of a run's time that it costs, for sorting. 1 or more if the program cannot
            run.
    """

    kind: str
    page: str
    text: str
    cure: str
    figure: float
    unit: str
    ipu: int = -1
    loss: float = 0.0


def size(count: float) -> str:
    """Formats a number of bytes with three digits and a unit, as `bytes` in format.js does."""
    if count < 1024:
        return f"{count:.0f} B"
    value, unit = count / 1024, 0
    while value >= 999.5 and unit + 1 < len(_UNITS):
        value, unit = value / 1024, unit + 1
    places = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:,.{places}f} {_UNITS[unit]}"


def percent(share: float) -> str:
    """Formats a share of a whole as per cent."""
    return f"{100 * share:.0f} %"


def is_popxl(data: Data) -> bool:
    """Returns whether the program is one of PopXL, so that the advice must name PopXL's means."""
    return data["model"]["kind"] == "popxl"
