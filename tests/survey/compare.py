"""Decides whether a result equals eager torch's.

Integers and booleans must be bit-identical. Floats of element-wise operators must be within two
units in the last place, or within 1e-6 of max(1, |x|) if that is more; other floats within the
tolerance of torch.testing. A result that is further off still counts as equal if its error against
float64 is at most twice eager's greatest, or a few units in the last place of the tensor's greatest
element: sums cancel.
"""

import torch

NARROWED = {
    torch.int64: torch.int32,
    torch.float64: torch.float32,
    torch.complex128: torch.complex64,
}
# torch.testing's own: relative, absolute.
TOLERANCES = {
    torch.float32: (1.3e-6, 1e-5),
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.complex64: (1.3e-6, 1e-5),
}


def _parts(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _allowed(expected: torch.Tensor, dtype: torch.dtype, is_elementwise: bool) -> torch.Tensor:
    size = expected.abs()
    if is_elementwise:
        unit = torch.finfo(dtype).eps * size.clamp(min=torch.finfo(dtype).tiny)
        least = 1e-6 if dtype in (torch.float32, torch.complex64) else torch.finfo(dtype).eps / 512
        return torch.maximum(2 * unit, least * size.clamp(min=1.0))
    relative, absolute = TOLERANCES[dtype]
    return absolute + relative * size


def _apart(ours, eager, dtype, is_elementwise):
    """Returns a mask of elements that differ by more than is allowed. All are float64."""
    same = (ours == eager) | (ours.isnan() & eager.isnan())
    if not is_elementwise:  # the order of a sum decides between infinity and nan
        same |= ~ours.isfinite() & ~eager.isfinite()
    near = (ours - eager).abs() <= _allowed(eager, dtype, is_elementwise)
    return ~(same | (near & ours.isfinite() & eager.isfinite()))


def _of_greatest(dtype):
    """Returns an error relative to the greatest element: four units for float16, whose sums round
    often."""
    halves = dtype in (torch.float16, torch.bfloat16)
    return 4 * torch.finfo(dtype).eps if halves else TOLERANCES[dtype][0]


def _no_further(ours, eager, exact, dtype, apart):
    """Returns whether ours is at least as near to `exact` as eager's worst where the two differ."""
    rounded = exact.to(dtype).double()
    right = (ours == rounded) | (ours.isnan() & rounded.isnan())
    ours_off = (ours - exact).abs().nan_to_num(nan=float("inf"))
    eager_off = (eager - exact).abs().nan_to_num(nan=float("inf"))
    worst = 2 * torch.where(eager_off.isfinite(), eager_off, 0.0).max()
    greatest = torch.where(exact.isfinite(), exact.abs(), 0.0).max()
    nearer = ours_off <= torch.maximum(worst, _of_greatest(dtype) * greatest)
    return bool((right | nearer)[apart].all())


def difference(
    ours: torch.Tensor,
    eager: torch.Tensor,
    exact: torch.Tensor | None = None,
    is_elementwise: bool = False,
    precision: torch.dtype | None = None,
) -> str | None:
    """Returns what is wrong about `ours`, or None. `exact`: the same of float64 inputs.

    `precision`: of the computation, where it is coarser than that of the tensors.
    """
    dtype = NARROWED.get(eager.dtype, eager.dtype)
    if ours.dtype not in (dtype, eager.dtype):
        return f"dtype {ours.dtype}, eager {eager.dtype}"
    if ours.shape != eager.shape:
        return f"shape {list(ours.shape)}, eager {list(eager.shape)}"
    if not (eager.is_floating_point() or eager.is_complex()):
        if torch.equal(ours.long(), eager.long()):
            return None
        where = (ours.long() != eager.long()).nonzero()[0].tolist()
        return f"{ours[tuple(where)].item()} at {where}, eager {eager[tuple(where)].item()}"
    mine, theirs = _parts(ours.detach()).double(), _parts(eager.detach()).double()
    apart = _apart(mine, theirs, precision or dtype, is_elementwise)
    if not apart.any():
        return None
    if exact is not None and exact.shape == eager.shape:
        true = _parts(exact.detach()).double()
        if true.shape == mine.shape and _no_further(
            mine, theirs, true, precision or ours.dtype, apart
        ):
            return None
    where = tuple(apart.nonzero()[0].tolist())
    count = int(apart.sum())
    return f"{mine[where]:.9g} at {list(where)}, eager {theirs[where]:.9g} ({count} such)"
