"""Seeing what happens, and when."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import popxl
from popxl import ops


@contextmanager
def timer(title: str = "Time taken", logger: "object | None" = None) -> Iterator[None]:
    """Prints, or logs by `logger.info`, how long the block took, in seconds."""
    start = time.perf_counter()
    try:
        yield
    finally:
        text = f"{title}: {time.perf_counter() - start:.2f} s"
        print(text) if logger is None else logger.info(text)  # type: ignore[attr-defined]


def print_text(text: str) -> None:
    """Prints `text` on stderr when the program comes here."""
    ops.print_tensor(popxl.constant(np.zeros((0,), np.float32)), text)
