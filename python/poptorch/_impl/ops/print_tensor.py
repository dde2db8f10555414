"""poptorch.ipu_print_tensor: prints a tensor on stderr whenever the device executes the op."""

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
    """Prints a tensor on stderr, after its title, whenever the device executes the op.

    On the CPU it prints nothing.

    Args:
        tensor: The tensor, of any shape.
        title: The text before the tensor.
        print_gradient: Also prints its gradient, with the title "<title>_gradient".
        summarise_threshold: The number of elements above which only `edge_items` elements at both
            ends of each dimension are shown; 0 shows all.
        edge_items: See summarise_threshold.
        max_line_width: The number of characters above which rows are broken after separators; 0
            never breaks them.
        digits: The digits of a number, before and after the decimal point, at most 32; 0 leaves
            numbers unaligned.
        float_format: "fixed", "scientific", "none" (short and unaligned) or "auto", which is fixed
            unless a number would lose digits.
        separator: The text between elements.
        open_bracket: The text before each dimension.
        close_bracket: The text after each dimension.

    Returns:
        The tensor.

    Raises:
        KeyError: `float_format` is unknown.
        poptorch.Error: `tensor` is not a tensor, or a number is negative or too large.
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
