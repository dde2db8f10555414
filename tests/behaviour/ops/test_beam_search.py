"""poptorch.ctc_beam_search_decoder agrees with an enumeration of all alignments and a search in
Python.
"""

import itertools
import math

import poptorch
import pytest
import torch


def collapsed(alignment, blank):
    """Returns the path of an alignment: removes repetitions, then blanks."""
    return tuple(c for c, _ in itertools.groupby(alignment) if c != blank)


def every_path(log_probs, blank):
    """Returns all paths of one sequence [time, classes] with log probabilities, best first."""
    time, classes = log_probs.shape
    found = {}
    for alignment in itertools.product(range(classes), repeat=time):
        score = sum(log_probs[t, c].item() for t, c in enumerate(alignment))
        path = collapsed(alignment, blank)
        found[path] = found.get(path, 0.0) + math.exp(score)
    return sorted(((math.log(p), path) for path, p in found.items()), reverse=True)


def searched(log_probs, blank, width):
    """Prefix beam search for one sequence, with probabilities in dictionaries."""
    beam = {(): (1.0, 0.0)}  # of alignments that end in a blank, and of others
    for scores in log_probs.double().exp().tolist():
        grown = {}
        for path, (blanks, others) in beam.items():
            for c, p in enumerate(scores):
                after = path if c == blank else (*path, c)
                if c == blank:
                    ways = [(after, (blanks + others) * p, 0.0)]
                elif path and path[-1] == c:
                    ways = [(path, 0.0, others * p), (after, 0.0, blanks * p)]
                else:
                    ways = [(after, 0.0, (blanks + others) * p)]
                for to, b, o in ways:
                    known = grown.get(to, (0.0, 0.0))
                    grown[to] = known[0] + b, known[1] + o
        best = sorted(grown, key=lambda path: -sum(grown[path]))[:width]
        beam = {path: grown[path] for path in best}
    return sorted(((math.log(sum(p)), path) for path, p in beam.items()), reverse=True)


def check(found, expected, blank, tolerance=1e-5):
    """found: the three results; expected: a list of (score, path) for each sequence."""
    scores, lengths, paths = found
    assert lengths.dtype == paths.dtype == torch.int32
    for b, ranked in enumerate(expected):
        for k in range(scores.shape[1]):
            score, path = ranked[k] if k < len(ranked) else (-math.inf, ())
            assert scores[b, k].item() == pytest.approx(score, rel=tolerance, abs=tolerance)
            assert lengths[b, k] == len(path)
            rest = [blank] * (paths.shape[2] - len(path))
            assert paths[b, k].tolist() == [*path, *rest]


def inputs(time, batch, classes):
    return torch.randn(time, batch, classes).mul(2).log_softmax(-1)


def model(**keywords):
    return poptorch.inferenceModel(
        lambda probs, lengths: poptorch.ctc_beam_search_decoder(probs, lengths, **keywords)
    )


# The batch is the second dimension: placement configurations that divide micro-batches would divide
# time.
@pytest.mark.parametrize("blank", [0, 2])
def test_a_wide_beam_finds_the_best_of_all_paths(blank):
    x, lengths = inputs(5, 3, 3), torch.tensor([5, 3, 4])
    keywords = {"blank": blank, "beam_width": 400, "top_paths": 6}
    expected = [every_path(x[:length, b], blank) for b, length in enumerate(lengths.tolist())]
    check(model(**keywords)(x, lengths), expected, blank)
    check(poptorch.ctc_beam_search_decoder(x, lengths, **keywords), expected, blank)


@pytest.mark.parametrize("width", [1, 3, 10])
def test_a_narrow_beam_forgets_what_is_unlikely(width):
    x, lengths = inputs(14, 2, 5), torch.tensor([14, 9])
    expected = [searched(x[:length, b], 0, width) for b, length in enumerate(lengths.tolist())]
    found = model(beam_width=width, top_paths=width)(x, lengths)
    check(found, expected, 0)
    assert width > 1 or expected[0][0] != searched(x[:, 0], 0, 50)[0]


def test_repetitions_need_a_blank_between():
    sure = torch.full((5, 1, 3), -50.0)
    for t, c in enumerate([1, 1, 0, 1, 2]):
        sure[t, 0, c] = 0.0
    _, lengths, paths = model()(sure, torch.tensor([5]))
    assert lengths.tolist() == [[3]] and paths[0, 0].tolist() == [1, 1, 2, 0, 0]


def test_fewer_paths_than_asked_for():
    x = inputs(3, 2, 3)
    scores, lengths, paths = model(top_paths=20)(x, torch.tensor([0, 1]))
    assert scores[0, 0] == 0 and scores[0, 1:].isneginf().all()
    check((scores, lengths, paths), [[(0.0, ())], every_path(x[:1, 1], 0)], 0)
    impossible = torch.full((2, 1, 3), -torch.inf)
    scores, _, _ = model()(impossible, torch.tensor([2]))
    assert scores.isneginf().all()


def test_halves_and_other_integers():
    x, lengths = inputs(6, 2, 4).half(), torch.tensor([6, 5], dtype=torch.int16)
    expected = [searched(x[:length, b], 0, 100) for b, length in enumerate(lengths.tolist())]
    found = model(top_paths=3)(x, lengths)
    assert found[0].dtype == torch.float16
    check(found, expected, 0, tolerance=2e-3)


def test_behind_a_network():
    """The inputs of the search are computed, and its results are used."""
    layer = torch.nn.Linear(4, 5)

    def forward(x, lengths):
        scores, sizes, paths = poptorch.ctc_beam_search_decoder(layer(x).log_softmax(-1), lengths)
        return scores.exp(), paths.sum() + sizes

    x, lengths = torch.randn(7, 2, 4), torch.tensor([7, 6])

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x, lengths):
            return forward(x, lengths)

    for ours, eager in zip(
        poptorch.inferenceModel(Network())(x, lengths), forward(x, lengths), strict=True
    ):
        torch.testing.assert_close(ours, eager.to(ours.dtype))


def test_a_search_has_no_gradient():
    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 5)

        def forward(self, x, lengths):
            scores, *_ = poptorch.ctc_beam_search_decoder(self.layer(x), lengths)
            return poptorch.identity_loss(scores, "sum")

    with pytest.raises(poptorch.Error, match="a search is not differentiable"):
        poptorch.trainingModel(Network())(torch.randn(7, 2, 4), torch.tensor([7, 6]))


X, LENGTHS = torch.zeros(3, 2, 4), torch.tensor([3, 3])
REFUSED = {
    "no tensor": (lambda: ([], LENGTHS), "ctc_beam_search_decoder: probs must be a torch.tensor"),
    "no lengths": (lambda: (X, [3, 3]), "ctc_beam_search_decoder: lengths must be a torch.tensor"),
    "rank": (lambda: (X[0], LENGTHS), "Input probablities tensor must be rank-3 for"),
    "no integers": (lambda: (X, LENGTHS.float()), "lengths must be integers but are torch.float32"),
    "other batch": (lambda: (X, LENGTHS[:1]), r"ctc_beam_search\] .*must be \[2\]"),
    "blank": (lambda: (X, LENGTHS, 4), "blank is 4 but there are 4 classes"),
    "paths": (lambda: (X, LENGTHS, 0, 2, 3), "top_paths is 3 but the beam is 2 wide"),
    "no beam": (lambda: (X, LENGTHS, 0, 0), "beam_width"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case):
    arguments, text = REFUSED[case]
    with pytest.raises(poptorch.Error, match=text):
        poptorch.ctc_beam_search_decoder(*arguments())
    with pytest.raises(poptorch.Error, match=text):
        poptorch.inferenceModel(
            lambda x: poptorch.ctc_beam_search_decoder(
                *(a.to(x.device) if isinstance(a, torch.Tensor) else a for a in arguments())
            )
        )(X)


def test_lengths_beyond_time_end_the_run():
    text = r"length 4 of sequence 1 is not in \[0, 3\]. Correct the lengths."
    with pytest.raises(poptorch.Error, match=text):
        model()(X, torch.tensor([3, 4]))
    with pytest.raises(poptorch.Error, match=text):
        poptorch.ctc_beam_search_decoder(X, torch.tensor([3, 4]))
