"""Lists of dtypes for tests of programs."""

from popxl import dtypes
from popxl.dtypes import dtype


def get_all_dtypes() -> list[dtype]:
    """All dtypes."""
    return list(dtypes.ALL)


def get_all_int_dtypes() -> list[dtype]:
    """The signed and unsigned ints."""
    return [t for t in dtypes.ALL if t.is_int]
