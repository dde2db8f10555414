"""Quantisation-aware training in a trace: FakeQuantize, observers, and refused modules.

Torch reads their statistics and flags on the host. In a trace, the flags have their values at the
compilation, and the statistics are state of the device like other buffers.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.ao.quantization as Q
from poptorch._impl.inspection.source_lines import user_location
from poptorch._impl.weights import members
from poptorch_core import Error, _torch
from torch.ao.quantization import _learnable_fake_quantize, observer

_LEAST_SCALE = 6.1e-5
_CONVERTED = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized")


def check(model: torch.nn.Module) -> None:
    """Raises poptorch.Error for modules with quantised tensors, which the device lacks."""
    for name, module in members.named_modules(model):
        if type(module).__module__.startswith(_CONVERTED):
            raise Error(
                f"[quantisation] module '{name}' ({type(module).__name__}) computes with integers "
                "of 8 bits, which is not supported. Wrap the model that was prepared for "
                "quantisation-aware training (prepare_qat), before convert(): its FakeQuantize "
                "modules compute the same values in floating point."
            )


def _is_on(flag: torch.Tensor) -> bool:
    """Returns the value of a module's flag at the compilation."""
    return bool(_torch.call_untraced(lambda: flag[0].item()))


def _observed(module: Any, low: torch.Tensor, high: torch.Tensor) -> None:
    """Updates an observer's statistics with the minimum and maximum of a batch."""
    if module.min_val.shape != low.shape:
        raise Error(
            f"[quantisation] {type(module).__name__} has statistics of shape "
            f"{list(module.min_val.shape)} but gets values of shape {list(low.shape)} "
            f"({user_location()}), and a buffer cannot change its shape. Call the model once "
            "on the host before it is wrapped, so that its observers know their channels."
        )
    low, high = low.to(module.min_val.dtype), high.to(module.max_val.dtype)
    before_low, before_high = module.min_val.clone(), module.max_val.clone()
    share = getattr(module, "averaging_constant", None)
    if share is None:
        module.min_val.copy_(torch.minimum(before_low, low))
        module.max_val.copy_(torch.maximum(before_high, high))
        return
    is_first = torch.isinf(before_low) & torch.isinf(before_high)
    for held, before, found in (
        (module.min_val, before_low, low),
        (module.max_val, before_high, high),
    ):
        held.copy_(torch.where(is_first, found, before + share * (found - before)))


def _observe(module: Any, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        _observed(module, *torch.aminmax(x.detach()))
    return x


def _observe_channels(module: Any, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        rows = x.detach().movedim(module.ch_axis, 0).flatten(1)
        _observed(module, *torch.aminmax(rows, dim=1))
    return x


def _refuse_histogram(module: Any, _x: torch.Tensor) -> torch.Tensor:
    raise Error(
        f"[quantisation] {type(module).__name__} is not supported ({user_location()}): the bins of "
        "its histogram depend on values. Use MovingAverageMinMaxObserver."
    )


def _parameters_of_range(
    module: Any, low: torch.Tensor, high: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Computes scale and zero point like torch's observers."""
    least, most = module.quant_min, module.quant_max
    low, high = torch.atleast_1d(low), torch.atleast_1d(high)
    below, above = low.clamp(max=0), high.clamp(min=0)
    zero_point = torch.zeros_like(low, dtype=torch.int32)
    if module.qscheme in (torch.per_tensor_symmetric, torch.per_channel_symmetric):
        scale = torch.maximum(-below, above) / (float(most - least) / 2)
        scale = scale.clamp(min=_smallest(module))
        if module.dtype in (torch.quint8, torch.uint8):
            middle = (least + most) // 2 if module.has_customized_qrange else 128
            zero_point = torch.full_like(zero_point, middle)
        elif module.dtype == torch.uint16:
            zero_point = torch.full_like(zero_point, 2**15)
    elif module.qscheme == torch.per_channel_affine_float_qparams:
        scale = (high - low) / float(most - least)
        scale = torch.where(scale > _smallest(module), scale, torch.ones_like(scale))
        return scale, -low / scale
    else:
        scale = ((above - below) / float(most - least)).clamp(min=_smallest(module))
        zero_point = least - torch.round(below / scale).to(torch.int32)
        zero_point = zero_point.clamp(least, most)
    return scale, zero_point


def _smallest(module: Any) -> float:
    return float(_torch.call_untraced(lambda: module.eps.reshape(-1)[0].item()))


def _fused_parameters(module: Any, symmetric: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Computes scale and zero point like torch's fused observer."""
    least, most = module.quant_min, module.quant_max
    low = torch.atleast_1d(module.min_val).clamp(max=0)
    high = torch.atleast_1d(module.max_val).clamp(min=0)
    around_zero = (low < 0) & (high > 0)
    if symmetric:
        half = (most - least) // 2
        widest = torch.maximum((low / -(half + 1)).abs(), (high / half).abs())
        low = torch.where(around_zero, widest * -(half + 1), low)
        high = torch.where(around_zero, widest * half, high)
    scale = (high - low) / (most - least)
    scale = torch.where(scale == 0, torch.full_like(scale, 0.1), scale)
    small = scale < _LEAST_SCALE
    span = _LEAST_SCALE * (most - least)
    wide_low = torch.where(high == 0, torch.full_like(low, -span), low * (_LEAST_SCALE / scale))
    wide_high = torch.where(low == 0, torch.full_like(high, span), high * (_LEAST_SCALE / scale))
    low = torch.where(small & (low != 0), wide_low, low)
    high = torch.where(small & (high != 0), wide_high, high)
    scale = scale.clamp(min=_LEAST_SCALE)
    from_low, from_high = least - low / scale, most - high / scale
    low_is_nearer = abs(least) - (low / scale).abs() < abs(most) - (high / scale).abs()
    zero_point = torch.where(low_is_nearer, from_low, from_high)
    if symmetric:
        middle = torch.full_like(zero_point, (least + most) / 2)
        zero_point = torch.where(around_zero, middle, zero_point)
    return scale, zero_point.clamp(least, most).round().to(torch.int32)


def _fake_quantised(module: Any, x: torch.Tensor) -> torch.Tensor:
    """Replaces forward of FakeQuantize and of its fused variant."""
    inside = module.activation_post_process
    fused = isinstance(module, Q.FusedMovingAvgObsFakeQuantize)
    if _is_on(module.observer_enabled):
        with torch.no_grad():
            inside(x.detach())
            symmetric = fused and module.is_symmetric_quant
            parameters = (
                _fused_parameters(inside, symmetric) if fused else inside.calculate_qparams()
            )
            for held, found in zip((module.scale, module.zero_point), parameters, strict=True):
                if held.shape != found.shape:
                    raise Error(
                        f"[quantisation] {type(module).__name__} has a scale of shape "
                        f"{list(held.shape)} for {list(found.shape)} channels ({user_location()}). "
                        "Call the model once on the host before it is wrapped."
                    )
                held.copy_(found)
    if not _is_on(module.fake_quant_enabled):
        return x
    limits = (inside.quant_min, inside.quant_max)
    if module.is_per_channel:
        return torch.fake_quantize_per_channel_affine(
            x, module.scale, module.zero_point, module.ch_axis, *limits
        )
    return torch.fake_quantize_per_tensor_affine(x, module.scale, module.zero_point, *limits)


def _learnt(module: Any, x: torch.Tensor) -> torch.Tensor:
    """Replaces _LearnableFakeQuantize.forward."""
    symmetric = module.qscheme in (torch.per_channel_symmetric, torch.per_tensor_symmetric)
    with torch.no_grad():
        if _is_on(module.static_enabled):
            module.activation_post_process(x.detach())
            scale, zero_point = module.activation_post_process.calculate_qparams()
            module.scale.copy_(scale)
            module.zero_point.copy_(zero_point.to(module.zero_point.dtype))
        else:
            module.scale.clamp_(min=_smallest(module))
        if _is_on(module.fake_quant_enabled) and symmetric:
            module.zero_point.zero_()
    if not _is_on(module.fake_quant_enabled):
        return x
    factor = 1.0 / (x.numel() * module.quant_max) ** 0.5 if module.use_grad_scaling else 1.0
    limits = (module.quant_min, module.quant_max, factor)
    if module.qscheme in (torch.per_channel_symmetric, torch.per_channel_affine):
        return torch._fake_quantize_learnable_per_channel_affine(
            x, module.scale, module.zero_point, module.ch_axis, *limits
        )
    return torch._fake_quantize_learnable_per_tensor_affine(
        x, module.scale, module.zero_point, *limits
    )


# (holder, name, replacement)
REPLACEMENTS: list[tuple[Any, str, Callable]] = [
    (Q.FakeQuantize, "forward", _fake_quantised),
    (Q.FusedMovingAvgObsFakeQuantize, "forward", _fake_quantised),
    (_learnable_fake_quantize._LearnableFakeQuantize, "forward", _learnt),
    (observer.MinMaxObserver, "forward", _observe),
    (observer.MovingAverageMinMaxObserver, "forward", _observe),
    (observer.PerChannelMinMaxObserver, "forward", _observe_channels),
    (observer.MovingAveragePerChannelMinMaxObserver, "forward", _observe_channels),
    (observer.HistogramObserver, "forward", _refuse_histogram),
    (observer.UniformQuantizationObserverBase, "_calculate_qparams", _parameters_of_range),
]
