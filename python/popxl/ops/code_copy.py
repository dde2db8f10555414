"""Code in remote memory: `remote_code_load` is in `ops.data`; stores raise, as in PopXL."""

from popxl.ops.data import remote_code_load

__all__ = ["remote_code_load", "remote_code_store"]


def remote_code_store(graph: object, destination: str) -> None:
    """Raises NotImplementedError, as in PopXL."""
    raise NotImplementedError("Code cannot be stored: it is in remote memory from the start.")
