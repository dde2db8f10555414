"""Small things that programs of popxl_addons use."""

from collections import OrderedDict

from popxl.ops import print_tensor
from popxl_addons.utils.debug import print_text, timer
from popxl_addons.utils.weights import WeightsDict, seed_variable, write_variables_pb

__all__ = [
    "OrderedDict",
    "WeightsDict",
    "print_tensor",
    "print_text",
    "seed_variable",
    "timer",
    "write_variables_pb",
]
