"""Makes Cases of the corners and compositions, in float32 and float16."""

from collections.abc import Iterator

import compositions_blocks
import compositions_layers
import compositions_masks
import torch
from corners import CORNERS
from entries import Case

DTYPES = (torch.float32, torch.float16)


def _held(make):
    torch.manual_seed(3)
    return make()


def _composition(name, function, tensors, dtype) -> Case:
    given = [t.to(dtype) if t.is_floating_point() else t.clone() for t in tensors]
    precision = torch.bfloat16 if name in ("mixed precision", "autocast") else None
    return Case(f"{name} {str(dtype)[6:]}", function, given, precision=precision)


def corners() -> Iterator[Case]:
    for name, (function, *tensors) in CORNERS.items():
        yield Case(name, function, [t.clone() for t in tensors])


def compositions() -> Iterator[Case]:
    torch.manual_seed(5)
    x, w = torch.randn(2, 4, 6), torch.randn(6, 6) * 0.5
    mask = torch.tensor([[True, True, True, False], [True, False, True, True]])
    numbers = torch.tensor([[1, 5, 0, 2], [3, 1, 1, 4]])
    for dtype in DTYPES:
        for table, extra in (
            (compositions_masks.XW, ()),
            (compositions_masks.XWM, (mask,)),
            (compositions_masks.XWI, (numbers,)),
            (compositions_layers.XW, ()),
            (compositions_blocks.XW, ()),
        ):
            for name, function in table.items():
                yield _composition(name, function, (x, w, *extra), dtype)
        for name, make in (compositions_layers.LAYERS | compositions_blocks.LAYERS).items():
            layer = _held(make).to(dtype)
            yield Case(f"{name} {str(dtype)[6:]}", layer, [x.to(dtype)], layer)
