"""Cases of losses as plain functions, and of recurrent layers."""

import torch
import torch.nn.functional as F
from op_case import bools, case, distinct, ints, simplex, uniform


def _long(function, **options):
    return lambda x, t: function(x, t.long(), **options)


def _ctc(x, targets, input_lengths=(12, 10), target_lengths=(4, 3)):
    return F.ctc_loss(torch.log_softmax(x, 2), targets, input_lengths, target_lengths)


def _lstm(x, h, c, *weights):
    y, h, c = torch.lstm(x, (h, c), weights, True, 1, 0.0, False, False, False)
    return y, h, c


def _gru(x, h, *weights):
    return torch.gru(x, h, weights, True, 1, 0.0, False, False, False)


def _rnn(x, h, *weights):
    return torch.rnn_tanh(x, h, weights, True, 1, 0.0, False, False, False)


CASES = [
    case("mse", F.mse_loss, (3, 4), (3, 4)),
    case("mse_sum", lambda x, y: F.mse_loss(x, y, reduction="sum"), (3, 4), (3, 4)),
    case("l1", F.l1_loss, distinct(3, 4), (3, 4)),
    case("smooth_l1", F.smooth_l1_loss, distinct(3, 4), (3, 4)),
    case("huber", F.huber_loss, distinct(3, 4), (3, 4)),
    case("cross_entropy", _long(F.cross_entropy), (6, 5), ints(0, 5, 6)),
    case("cross_entropy_sum", _long(F.cross_entropy, reduction="sum"), (6, 5), ints(0, 5, 6)),
    case("cross_entropy_none", _long(F.cross_entropy, reduction="none"), (6, 5), ints(0, 5, 6)),
    case("cross_entropy_ignore", _long(F.cross_entropy, ignore_index=2), (6, 5), ints(0, 5, 6)),
    case("cross_entropy_smoothing", _long(F.cross_entropy, label_smoothing=0.1), (6, 5),
         ints(0, 5, 6)),
    case("cross_entropy_spatial", _long(F.cross_entropy), (2, 5, 3, 4), ints(0, 5, 2, 3, 4)),
    case("cross_entropy_weight", lambda x, t, w: F.cross_entropy(x, t.long(), w.detach()), (6, 5),
         ints(0, 5, 6), uniform(0.5, 2, 5)),
    case("cross_entropy_probabilities", F.cross_entropy, (6, 5), simplex(6, 5)),
    case("nll", lambda x, t: F.nll_loss(torch.log_softmax(x, 1), t.long()), (6, 5), ints(0, 5, 6)),
    case("bce", F.binary_cross_entropy, uniform(0.1, 0.9, 3, 4), simplex(3, 4)),
    case("bce_logits", F.binary_cross_entropy_with_logits, (3, 4), simplex(3, 4)),
    case("kl_div", lambda x, t: F.kl_div(torch.log_softmax(x, 1), t, reduction="batchmean"),
         (3, 4), simplex(3, 4)),
    case("poisson_nll", F.poisson_nll_loss, (3, 4), uniform(0.1, 3, 3, 4)),
    case("hinge_embedding", lambda x, b: F.hinge_embedding_loss(x, b * 2.0 - 1), distinct(3, 4),
         bools(3, 4)),
    case("soft_margin", lambda x, b: F.soft_margin_loss(x, b * 2.0 - 1), (3, 4), bools(3, 4)),
    case("cosine_embedding", lambda x, y, b: F.cosine_embedding_loss(x, y, b * 2.0 - 1), (3, 4),
         (3, 4), bools(3)),
    case("margin_ranking", lambda x, y, b: F.margin_ranking_loss(x, y, b * 2.0 - 1), distinct(7),
         (7,), bools(7)),
    case("triplet_margin", F.triplet_margin_loss, (3, 4), (3, 4), (3, 4)),
    case("ctc", _ctc, (12, 2, 6), ints(1, 6, 2, 4)),
    case("ctc_lengths", _ctc, (12, 2, 6), ints(1, 6, 2, 4), ints(8, 12, 2), ints(1, 4, 2)),
    case("lstm", _lstm, (5, 2, 3), (1, 2, 4), (1, 2, 4), (16, 3), (16, 4), (16,), (16,)),
    case("gru", _gru, (5, 2, 3), (1, 2, 4), (12, 3), (12, 4), (12,), (12,)),
    case("rnn", _rnn, (5, 2, 3), (1, 2, 4), (4, 3), (4, 4), (4,), (4,)),
]  # fmt: skip
