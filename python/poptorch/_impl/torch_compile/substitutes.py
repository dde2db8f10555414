"""Functions that replace ops of AOTAutograd's graphs, so that the device's own kernels run.

These ops of torch exist for the host: they return what its backward kernels need. Gradients of
convolutions, norms and attention are taken from the forward op again, as in a training wrapper.
"""

from collections.abc import Callable, Sequence
from functools import cache

import torch
import torch.nn.functional as F

_aten = torch.ops.aten


@cache
def substitutes() -> dict[Callable, Callable]:
    """Returns the functions by op. Torch's decompositions cover gradients of single ops."""
    from torch import _decomp

    simple = {
        op: found
        for op, found in _decomp.decomposition_table.items()
        if "backward" in str(op) or getattr(op, "overloadpacket", None) in _DECOMPOSED
    }
    return {**simple, **{getattr(_aten, name).default: f for name, f in _BY_NAME.items()}}


def _gradients(
    forward: Callable[..., torch.Tensor],
    inputs: Sequence[torch.Tensor | None],
    wanted: Sequence[bool],
    seed: torch.Tensor,
) -> tuple[torch.Tensor | None, ...]:
    """Returns the gradients of forward(*inputs) for the wanted inputs, None for the others."""
    leaves = [None if value is None else value.detach() for value in inputs]
    chosen = {n: leaf for n, leaf in enumerate(leaves) if leaf is not None and wanted[n]}
    with torch.enable_grad():
        for leaf in chosen.values():
            leaf.requires_grad_()
        found = torch.autograd.grad(forward(*leaves), list(chosen.values()), seed)
    by_input = dict(zip(chosen, found, strict=True))
    return tuple(map(by_input.get, range(len(inputs))))


def _convolution_backward(
    seed, value, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups,
    output_mask,
):  # fmt: skip
    settings = (stride, padding, dilation, transposed, output_padding, groups)

    def forward(value, weight):
        return _aten.convolution(value, weight, None, *settings)

    of_bias = seed.sum([0, *range(2, seed.dim())]) if output_mask[2] else None
    return *_gradients(forward, (value, weight), output_mask, seed), of_bias


def _batch_norm_backward(
    seed, value, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask
):
    def forward(value, weight, bias):
        mean, var = (None, None) if train else (running_mean, running_var)
        return F.batch_norm(value, mean, var, weight, bias, train, 0.0, eps)

    bias = None if weight is None else torch.zeros_like(weight, device="ipu")
    return _gradients(forward, (value, weight, bias), output_mask, seed)


def _batch_norm(value, weight, bias, running_mean, running_var, training, momentum, eps):
    means = (running_mean.clone(), running_var.clone())
    written = _aten.native_batch_norm(value, weight, bias, *means, training, momentum, eps)
    return *written, *means


def _attention(query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    result = F.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=attn_mask,
        dropout_p=dropout_p,
        is_causal=is_causal,
        scale=scale,
    )
    # The second result is for torch's backward op, which does not run here.
    return result, query.new_zeros(query.shape[:-1], dtype=torch.float32)


def _attention_backward(
    seed, query, key, value, out, logsumexp, dropout_p, is_causal, *, attn_mask=None, scale=None
):
    def forward(query, key, value):
        masks = {"attn_mask": attn_mask, "scale": scale}
        return _attention(query, key, value, dropout_p, is_causal, **masks)[0]

    return _gradients(forward, (query, key, value), (True, True, True), seed)


def _embedding_bag_backward(
    seed, indices, offsets, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq,
    mode, sparse, per_sample_weights, padding_idx=-1,
):  # fmt: skip
    def forward(weight):
        return F.embedding_bag(
            indices,
            weight,
            offsets,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=("sum", "mean")[mode],
            per_sample_weights=per_sample_weights,
            include_last_offset=offsets.shape[0] > seed.shape[0],
            padding_idx=None if padding_idx < 0 else padding_idx,
        )

    # Gradients of sums and means do not depend on the weight's values.
    weight = seed.new_zeros((num_weights, seed.shape[1]))
    return _gradients(forward, (weight,), (True,), seed)[0]


def _select_scatter(value, source, dim, index):
    result = value.clone()
    result.select(dim, index).copy_(source)
    return result


def _select_backward(seed, sizes, dim, index):
    return _select_scatter(seed.new_zeros(sizes), seed, dim, index)


def _slice_backward(seed, sizes, dim, start, end, step):
    return _slice_scatter(seed.new_zeros(sizes), seed, dim, start, end, step)


def _slice_scatter(value, source, dim=0, start=None, end=None, step=1):
    result = value.clone()
    _aten.slice(result, dim, start, end, step).copy_(source)
    return result


_DECOMPOSED = {
    _aten.native_group_norm,
    _aten.nll_loss2d_forward,
    _aten.nll_loss_forward,
}
_BY_NAME: dict[str, Callable] = {
    # Results of attention and inputs of the graph may have other strides on the device.
    "view": torch.reshape,
    "lift_fresh_copy": torch.clone,
    "_unsafe_index_put": _aten.index_put,
    "select_backward": _select_backward,
    "slice_backward": _slice_backward,
    "select_scatter": _select_scatter,
    "slice_scatter": _slice_scatter,
    "_embedding_bag_backward": _embedding_bag_backward,
    "convolution_backward": _convolution_backward,
    "native_batch_norm_backward": _batch_norm_backward,
    "_native_batch_norm_legit_functional": _batch_norm,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
}
