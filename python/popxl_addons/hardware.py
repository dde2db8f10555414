"""Settings for hardware, accepted and without effect on the emulator."""

from collections.abc import Mapping

import popxl


def set_available_memory_proportion_by_ipu(ir: popxl.Ir, proportions: "list[float]") -> None:
    """How much of each IPU's memory products may take, 0 to 1. ValueError beyond."""
    if any(not 0 <= p <= 1 for p in proportions):
        raise ValueError(f"Proportions of memory are 0 to 1 but got {proportions}.")


def enable_fc_pass(ir: popxl.Ir, options: "Mapping[str, str] | None" = None) -> None:
    """Plans products of forward and backward passes together."""


def disable_fc_pass(ir: popxl.Ir, options: "Mapping[str, str] | None" = None) -> None:
    """Plans each product by itself."""
