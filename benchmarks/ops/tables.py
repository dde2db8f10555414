"""All cases, and the rows of the vocabulary that have none."""

from benchmarks.ops import elementwise, functions, movement, products, reductions, updates

FUNCTIONS = (
    *elementwise.CASES,
    *reductions.CASES,
    *products.CASES,
    *movement.CASES,
    *functions.CASES,
)
CASES = (*FUNCTIONS, *updates.CASES)

_OTHER_IPUS = "moves data to other IPUs or the host: `benchmarks.machines`, `benchmarks.instances`"
_NO_WORK = "does no work in a run"
_POPXL = "is an op of PopXL or of poptorch, without a counterpart in torch"
_REGION = "runs other ops"
_COMPOSED = "torch's function becomes `random_uniform` and `lt`"

# Why a case is slower than eager torch.
SLOW = {
    "norm": "the squares are stored before they are summed, in the cache if they are many",
}

# Why a row is not measured against eager torch.
UNMEASURED = {
    **dict.fromkeys(
        ("all_gather", "all_reduce", "all_to_all", "reduce_scatter", "ipu_copy", "host_load",
         "host_store", "remote_load", "remote_store"),
        _OTHER_IPUS,
    ),
    **dict.fromkeys(
        ("detach", "identity", "identity_loss", "parameter_gradient", "with_history", "variable",
         "constant", "reshape"),
        _NO_WORK,
    ),
    "batch_norm_inference": "becomes `batch_norm_factors` and `scale_shift`",
    "bernoulli": _COMPOSED,
    **dict.fromkeys(("call", "if", "repeat", "custom", "print_tensor"), _REGION),
    **dict.fromkeys(("aten", "aten_vjp", "check_answer", "check_floats", "check_indices"),
                    "calls torch's own kernel, or checks its result"),
    **dict.fromkeys(
        ("ctc_beam_search", "farthest_points", "nearest_points", "roi_align", "roi_align_grad",
         "pow2_scale", "seeded_bits", "random_bits", "stochastic_cast", "increment", "assign",
         "accumulate", "dynamic_slice", "dynamic_update", "random_gamma", "random_binomial",
         "iota"),
        _POPXL,
    ),
}  # fmt: skip
