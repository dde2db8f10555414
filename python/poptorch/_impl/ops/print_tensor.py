"""poptorch.ipu_print_tensor: what a tensor holds, on stderr whenever the device comes there."""

import torch
from poptorch import _native
from poptorch_core import Error

_FORMATS = {name: name for name in ("auto", "fixed", "scientific", "none")}


def ipu_print_tensor(
    tensor: torch.Tensor,
    title: str = "",
    print_gradient: bool = True,
    summarise_threshold: int = 1000,
    edge_items: int = 3,
    max_line_width: int = 80,
    digits: int = 4,
    float_format: str = "auto",
    separator: str = ", ",
    open_bracket: str = "(",
    close_bracket: str = ")",
) -> torch.Tensor:
    """The tensor itself, printed on stderr behind its title whenever the device comes here.

    print_gradient: its gradient too, under "<title>_gradient". summarise_threshold: of tensors with
    more elements, only edge_items at both ends of each dimension are shown; 0 shows all.
    max_line_width: longer rows are broken behind separators; 0 never. digits: of a number, before
    and behind the point; 0 leaves numbers unaligned. float_format: "fixed", "scientific", "none"
    (short and unaligned) or "auto", which is fixed unless a number would lose its digits; KeyError
    for others. poptorch.Error for what is no tensor, negative numbers and more than 32 digits.
    On the CPU nothing is printed.
    """
    if not isinstance(tensor, torch.Tensor):
        raise Error("ipu print tensor must take a torch.tensor argument.")
    float_format = _FORMATS[float_format]
    numbers = {
        "summarise_threshold": summarise_threshold,
        "edge_items": edge_items,
        "max_line_width": max_line_width,
        "digits": digits,
    }
    for name, number in numbers.items():
        most = 32 if name == "digits" else 2**31 - 1
        if not isinstance(number, int) or not 0 <= number <= most:
            raise Error(f"[ipu_print_tensor] {name} must be from 0 to {most} but is {number!r}.")
    if not _native.is_tracing():
        return tensor
    brackets = (open_bracket, close_bracket)
    layout = (title, print_gradient, *numbers.values(), float_format, separator, *brackets)
    if tensor.is_complex():  # as pairs
        pairs = _native.call_own("print_tensor", torch.view_as_real(tensor), *layout)
        return torch.view_as_complex(pairs)
    return _native.call_own("print_tensor", tensor, *layout)
