"""Lists of dtypes for tests of programs."""

from popxl import dtypes
from popxl.dtypes import dtype


def get_all_dtypes() -> list[dtype]:
    """Returns all dtypes except bool."""
    return [t for t in dtypes.ALL if t is not dtypes.bool]


def get_all_int_dtypes(include_signed: bool = True, include_unsigned: bool = True) -> list[dtype]:
    """Returns the signed and unsigned int dtypes, or one kind of them."""
    wanted = {True: include_signed, False: include_unsigned}
    return [t for t in dtypes.ALL if t.is_int and wanted[t.is_signed]]
