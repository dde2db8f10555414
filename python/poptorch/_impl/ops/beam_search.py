"""poptorch.ctc_beam_search_decoder: the likeliest paths through the classes' probabilities."""

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
    """Decodes what a network trained with CTC loss gives, by prefix beam search.

    probs: log probabilities [time, batch, classes]. lengths: of the sequences, ints [batch].
    Gives log probabilities [batch, top_paths], lengths [batch, top_paths] and paths
    [batch, top_paths, time], best first: a path counts up to its length, behind it is the blank.
    Where there are fewer paths than asked for, the rest has no length and the log probability
    -infinity. beam_width: how many prefixes are followed. No gradient passes through.
    Raises poptorch.Error for what are no tensors of these shapes, and more paths than the beam.
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
