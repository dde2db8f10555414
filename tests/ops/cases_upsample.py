"""Cases of ops that enlarge or reduce images."""

import torch.nn.functional as F
from op_case import case

LINE, IMAGE, VOLUME = (2, 3, 5), (2, 3, 4, 5), (1, 2, 3, 4, 2)


def resized(mode, corners=None, **sizes):
    return lambda x: F.interpolate(x, mode=mode, align_corners=corners, **sizes)


CASES = [
    case("nearest", resized("nearest", size=(6, 3)), IMAGE),
    case("nearest_by_factor", resized("nearest", scale_factor=1.5), IMAGE),
    case("linear", resized("linear", False, size=8), LINE),
    case("linear_smaller", resized("linear", False, size=2), LINE),
    case("linear_to_corners", resized("linear", True, size=9), LINE),
    case("bilinear", resized("bilinear", False, scale_factor=2), IMAGE),
    case("bilinear_by_two_factors", resized("bilinear", False, scale_factor=(1.3, 0.7)), IMAGE),
    case("bilinear_to_corners", resized("bilinear", True, size=(1, 9)), IMAGE),
    case("trilinear", resized("trilinear", False, size=(5, 4, 3)), VOLUME),
    case("bicubic", resized("bicubic", False, scale_factor=2), IMAGE),
    case("bicubic_to_corners", resized("bicubic", True, size=(7, 3)), IMAGE),
]
