"""Cases of PopTorch's own ops that compose others."""

import poptorch
from op_case import case

MODES = poptorch.MatMulSerializationMode


def _serialized(mode, factor=0, keep_precision=False):
    return lambda a, b: poptorch.serializedMatMul(a, b, mode, factor, keep_precision)


CASES = [
    case("serialized_input_channels", _serialized(MODES.InputChannels, 2), (4, 6), (6, 3)),
    case("serialized_reducing_dim", _serialized(MODES.ReducingDim, 3, True), (2, 4, 6), (6, 3)),
    case("serialized_output_channels", _serialized(MODES.OutputChannels, 3), (4, 6), (2, 6, 3)),
    case("serialized_disabled", _serialized(MODES.Disabled), (4, 6), (6, 3)),
]
