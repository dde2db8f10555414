"""poptorch.ctc_beam_search_decoder: finds the likeliest paths through class probabilities."""

import torch
from poptorch import _native
from poptorch_core import Error


def ctc_beam_search_decoder(
    probs: torch.Tensor,
    lengths: torch.Tensor,
    blank: int = 0,
    beam_width: int = 100,
    top_paths: int = 1,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Decodes the output of a network trained with CTC loss by prefix beam search.

    No gradient passes through.

    Args:
        probs: Log probabilities [time, batch, classes].
        lengths: The lengths of the sequences, integers [batch].
        blank: The class of the blank.
        beam_width: The number of prefixes that the search keeps.
        top_paths: The number of paths to return, at most `beam_width`.

    Returns:
        Log probabilities [batch, top_paths], lengths [batch, top_paths] and paths
        [batch, top_paths, time], best first. A path is filled with blanks after its length. Missing
        paths have length 0 and log probability -infinity.

    Raises:
        poptorch.Error: An argument is not a tensor of the right shape and dtype, or `top_paths` is
            larger than `beam_width`.
    """
    for name, value in (("probs", probs), ("lengths", lengths)):
        if not isinstance(value, torch.Tensor):
            raise Error(f"ctc_beam_search_decoder: {name} must be a torch.tensor argument.")
    if probs.dim() != 3:
        raise Error(
            "Input probablities tensor must be rank-3 for ctc_beam_search_decoder, [time, batch, "
            f"classes], but is {list(probs.shape)}."
        )
    if lengths.is_floating_point() or lengths.is_complex():
        raise Error(f"ctc_beam_search_decoder: lengths must be integers but are {lengths.dtype}.")
    return _native.call_own("ctc_beam_search", probs, lengths, blank, beam_width, top_paths)
