"""Cases of element-wise ops: 1 Ki, 64 Ki and 4 Mi elements."""

import torch
import torch.nn.functional as F

from benchmarks.ops.case import FLOATS, Input, bools, case, normal, within

SHAPES = ((32, 32), (64, 1024), (1024, 4096))
NUMBERS = (*FLOATS, torch.int32)
INTS = (torch.int32,)


def each(make, *others) -> list[list[Input]]:
    """Operands of the three shapes."""
    return [[one(*shape) for one in (make, *others)] for shape in SHAPES]


def between(low: float, high: float):
    return lambda *shape: within(low, high, *shape)


ANY, UNIT, POSITIVE = normal, between(-0.9, 0.9), between(0.1, 3.0)

SMOOTH = {
    "abs": (torch.abs, ANY), "acos": (torch.acos, UNIT), "asin": (torch.asin, UNIT),
    "atan": (torch.atan, ANY), "asinh": (torch.asinh, ANY), "atanh": (torch.atanh, UNIT),
    "acosh": (torch.acosh, between(1.1, 4.0)), "cos": (torch.cos, ANY), "cosh": (torch.cosh, ANY),
    "elu": (F.elu, ANY), "erf": (torch.erf, ANY),
    "erfinv": (torch.erfinv, UNIT), "exp": (torch.exp, ANY), "expm1": (torch.expm1, ANY),
    "leaky_relu": (F.leaky_relu, ANY), "lgamma": (torch.lgamma, POSITIVE),
    "log": (torch.log, POSITIVE), "log10": (torch.log10, POSITIVE),
    "log1p": (torch.log1p, POSITIVE), "log2": (torch.log2, POSITIVE), "neg": (torch.neg, ANY),
    "reciprocal": (torch.reciprocal, POSITIVE),
    "relu": (F.relu, ANY), "rsqrt": (torch.rsqrt, POSITIVE), "sigmoid": (torch.sigmoid, ANY),
    "silu": (F.silu, ANY), "sin": (torch.sin, ANY), "sinh": (torch.sinh, ANY),
    "softplus": (F.softplus, ANY), "sqrt": (torch.sqrt, POSITIVE), "square": (torch.square, ANY),
    "tan": (torch.tan, UNIT), "tanh": (torch.tanh, ANY),
}  # fmt: skip
STEPS = {
    "ceil": torch.ceil, "floor": torch.floor, "isinf": torch.isinf, "isnan": torch.isnan,
    "round": torch.round, "sign": torch.sign, "trunc": torch.trunc,
}  # fmt: skip
COMPARISONS = {name: getattr(torch, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
BITS = {
    "bitwise_and": torch.bitwise_and, "bitwise_or": torch.bitwise_or,
    "bitwise_xor": torch.bitwise_xor,
}  # fmt: skip
LOGIC = {
    "logical_and": torch.logical_and, "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor,
}  # fmt: skip

CASES = [
    *(case(name, function, *each(make), grad="digamma" * (name == "lgamma"))
      for name, (function, make) in SMOOTH.items()),
    *(case(name, function, *each(ANY), gradients=False) for name, function in STEPS.items()),
    *(case(name, function, *each(ANY, ANY), gradients=False, dtypes=NUMBERS)
      for name, function in COMPARISONS.items()),
    *(case(name, function, *each(ANY, ANY), dtypes=INTS) for name, function in BITS.items()),
    *(case(name, function, *each(bools, bools), dtypes=INTS) for name, function in LOGIC.items()),
    case("bitwise_not", torch.bitwise_not, *each(ANY), dtypes=INTS),
    case("logical_not", torch.logical_not, *each(bools), dtypes=INTS),
    case("shift_left", torch.bitwise_left_shift, *each(ANY, between(0, 8)), dtypes=INTS),
    case("shift_right", torch.bitwise_right_shift, *each(ANY, between(0, 8)), dtypes=INTS),
    case("gelu", F.gelu, *each(ANY), grad="gelu_grad"),
    case("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), *each(ANY), rows="gelu",
         grad="gelu_grad"),
    case("add", torch.add, *each(ANY, ANY), dtypes=NUMBERS),
    case("add_row", torch.add, *([normal(a, b), normal(b)] for a, b in SHAPES), rows="add"),
    case("mul_column", torch.mul, *([normal(a, b), normal(a, 1)] for a, b in SHAPES), rows="mul"),
    case("sub", torch.sub, *each(ANY, ANY), dtypes=NUMBERS),
    case("mul", torch.mul, *each(ANY, ANY), dtypes=NUMBERS),
    case("div", torch.div, *each(ANY, POSITIVE)),
    case("atan2", torch.atan2, *each(ANY, ANY)),
    case("pow", torch.pow, *each(POSITIVE, ANY)),
    case("pow_number", lambda x: x**3, *each(ANY), rows="mul"),
    case("maximum", torch.maximum, *each(ANY, ANY), dtypes=NUMBERS),
    case("minimum", torch.minimum, *each(ANY, ANY), dtypes=NUMBERS),
    case("floor_div", torch.floor_divide, *each(ANY, between(1, 9)), gradients=False,
         dtypes=NUMBERS),
    case("fmod", torch.fmod, *each(ANY, between(1, 9)), gradients=False,
         dtypes=NUMBERS),
    case("remainder", torch.remainder, *each(ANY, between(1, 9)), gradients=False,
         dtypes=NUMBERS),
    case("clamp", lambda x: torch.clamp(x, -1, 1), *each(ANY), dtypes=NUMBERS),
    case("select", torch.where, *each(bools, ANY, ANY), dtypes=NUMBERS),
    case("cast_to_half", lambda x: x.half(), *each(ANY), rows="cast", dtypes=(torch.float32,)),
    case("cast_to_bfloat16", lambda x: x.bfloat16(), *each(ANY), rows="cast",
         dtypes=(torch.float32,)),
    case("cast_to_float", lambda x: x.float(), *each(ANY), rows="cast",
         dtypes=(torch.float16, torch.bfloat16, torch.int32)),
    case("cast_to_int", lambda x: x.int(), *each(ANY), rows="cast", gradients=False),
]  # fmt: skip
