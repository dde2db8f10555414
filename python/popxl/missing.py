"""The names of PopXL that are not implemented here: asking for one says so.

docs/popxl.md lists them; a test holds both to the same list.
"""

from collections.abc import Callable
from typing import Any

from popxl.errors import unsupported

MISSING: dict[str, tuple[str, ...]] = {
    "popxl": (
        *("TensorStorage", "TensorLocation", "ReplicatedTensorSharding", "TileSet"),
        "typing_",
    ),
    "popxl.ops": (
        *("concat_", "roi_align", "PadType"),
        *("matmul_pow2scaled", "conv_pow2scaled", "conv_transpose_pow2scaled"),
        *("pow2scale_cast_to_fp8", "pow2scale_cast_from_fp8"),
        *("io_tile_copy", "remote_code_load", "code_copy"),
    ),
    "popxl.ops.collectives": (
        *("all_reduce_identical_inputs", "all_reduce_identical_grad_inputs"),
        *("CommGroup", "CommGroupType"),
    ),
    "popxl.transforms": ("decompose_sum", "merge_exchange", "io_tile_exchange"),
}


def refuse(module: str) -> Callable[[str], Any]:
    """A module's `__getattr__`: UnsupportedError for a missing name, else AttributeError."""

    def getattribute(name: str) -> Any:
        if name in MISSING[module]:
            raise unsupported(f"{module}.{name}")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return getattribute
